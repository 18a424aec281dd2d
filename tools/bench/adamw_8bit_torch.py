#!/usr/bin/env python3
"""Times one step of bitsandbytes' AdamW8bit and of PyTorch's fused AdamW on the CPU: the baselines of
`ingot bench kernels --kernel adamw_8bit --kernel adamw`, to be run in turn with it, with as many threads:

    OMP_NUM_THREADS=1 tools/bench/adamw_8bit_torch.py --megabytes 256 --dtype f32
"""
import argparse
import statistics
import time

import bitsandbytes
import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=256, help="of the parameter")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.dtype]
    count = args.megabytes * 10**6 // dtype.itemsize // 4096 * 4096
    kinds = {"AdamW8bit": bitsandbytes.optim.AdamW8bit, "AdamW": lambda p, **o: torch.optim.AdamW(p, fused=True, **o)}
    for name, kind in kinds.items():
        parameter = torch.nn.Parameter(torch.randn(count, dtype=dtype))
        parameter.grad = torch.randn(count, dtype=dtype)
        optimizer = kind([parameter], lr=1e-4, weight_decay=0.01)
        times = []
        for _ in range(args.runs + 1):  # the first makes the state
            start = time.perf_counter()
            optimizer.step()
            times.append(time.perf_counter() - start)
        print(f"{name:<10} {args.dtype}  {1e3 * statistics.median(times[1:]):.1f} ms  ({count} parameters, {torch.get_num_threads()} threads)")


if __name__ == "__main__":
    main()
