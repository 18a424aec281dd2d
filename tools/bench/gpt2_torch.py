#!/usr/bin/env python3
"""Times a GPT-2 124M training step in PyTorch on the CPU: the peer of `ingot bench train`.

One whole step (forward, loss, backward, clip, fused AdamW), f32, tuned as its best users would tune it. Run it in the same
session as `ingot bench train`, with

    OMP_NUM_THREADS=2 GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=34359738368:\
glibc.malloc.trim_threshold=34359738368 python3 tools/bench/gpt2_torch.py --batch 4 --sequence 64 [--compile]
"""
import argparse
import resource
import statistics
import time

import torch
import transformers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="torch.compile instead of eager mode")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    config._attn_implementation = "sdpa"
    model = transformers.GPT2LMHeadModel(config).float().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    tokens = torch.randint(0, config.vocab_size, (args.batch, args.sequence))

    def loss_of() -> torch.Tensor:
        logits = model(tokens).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    step_loss = torch.compile(loss_of) if args.compile else loss_of
    times = []
    for i in range(args.runs + 3):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        step_loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if i >= 3:
            times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"torch {torch.__version__} {'compile' if args.compile else 'eager'}: batch {args.batch} x {args.sequence}: "
          f"median {statistics.median(times) * 1e3:.1f} ms of {args.runs} steps, peak memory {peak:.0f} MiB")


main()
