#!/usr/bin/env python3
"""Times attention in PyTorch on a GPU, as its users call it: the baseline of `ingot bench kernels --kernel attention`.

scaled_dot_product_attention of one causal sequence, 16 heads of 128, bf16, forward and backward, once by each of its
back ends for such GPUs: FlashAttention and cuDNN. Medians by the device's clock of runs that follow each other.

    python3 tools/bench/attention_torch.py [--sequence 4096 --sequence 16384]
"""
import argparse
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, HEAD_SIZE = 16, 128


def milliseconds(work, runs: int) -> float:
    times = []
    for i in range(runs + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        if i >= 3:  # plans are made, memory is allocated
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def measure(sequence: int, backend: SDPBackend, runs: int) -> None:
    # (batch, heads, sequence, size) in memory as (batch, sequence, heads, size), which projections give.
    q, k, v, dout = (torch.randn(1, sequence, HEADS, HEAD_SIZE, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    operations = 2 * HEADS * HEAD_SIZE * sequence * (sequence + 1)
    with sdpa_kernel(backend):
        attend = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = attend()
        forward = milliseconds(attend, runs)
        backward = milliseconds(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True), runs)
    print(f"{backend.name:<16} {sequence:>6} tokens: forward {forward:.3f} ms ({operations / forward * 1e-9:.0f} TFLOP/s), "
          f"backward {backward:.3f} ms ({2.5 * operations / backward * 1e-9:.0f} TFLOP/s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequence", type=int, action="append")
    parser.add_argument("--runs", type=int, default=21)
    args = parser.parse_args()
    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    for sequence in args.sequence or [4096, 8192, 16384]:
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            measure(sequence, backend, args.runs)


main()
