#!/usr/bin/env python3
"""Times BERT-base inference in PyTorch on the CPU: the baseline of bench/bert_bench.

f32, no gradients, tuned as its best users would tune it: scaled-dot-product attention, oneDNN's packed weights or
torch.compile with frozen, packed weights where asked. Run it in the same session as bench/bert_bench, with

    OMP_NUM_THREADS=2 GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=34359738368:\
glibc.malloc.trim_threshold=34359738368 python3 tools/bench/bert_torch.py --batch 1 --length 128 [--compile]
"""
import argparse
import statistics
import time

import torch
import transformers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="torch.compile with frozen weights instead of eager mode")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    config = transformers.BertConfig()
    config._attn_implementation = "sdpa"
    model = transformers.BertModel(config, add_pooling_layer=False).float().eval()
    run = model
    if args.compile:
        import torch._inductor.config as inductor

        inductor.freezing = True
        run = torch.compile(model)
    with torch.inference_mode() if not args.compile else torch.no_grad():
        for batch in args.batch:
            tokens = torch.randint(0, config.vocab_size, (batch, args.length))
            times = []
            for i in range(args.runs + 3):
                start = time.perf_counter()
                run(tokens).last_hidden_state
                if i >= 3:
                    times.append(time.perf_counter() - start)
            print(f"torch {torch.__version__} {'compile' if args.compile else 'eager'}: batch {batch} x {args.length}: "
                  f"median {statistics.median(times) * 1e3:.1f} ms of {args.runs}")


main()
