#!/usr/bin/env python3
"""Times two-dimensional convolutions in PyTorch on the CPU: the baseline of bench/conv_bench.cpp. Run both in one
session, with OMP_NUM_THREADS and GLIBC_TUNABLES as in train_torch.py."""
import statistics
import time

import torch

CASES = [("resnet_3x3", 16, 64, 56, 64, 3, 1, 1), ("resnet_stem_7x7_stride_2", 16, 3, 224, 64, 7, 2, 1),
         ("resnet_1x1", 16, 256, 56, 64, 1, 1, 1), ("depthwise_3x3", 16, 128, 56, 128, 3, 1, 128),
         ("inception_11x11", 32, 32, 24, 32, 11, 1, 1)]


def median_ms(f, runs: int = 9) -> float:
    times = []
    for i in range(runs + 3):
        start = time.perf_counter()
        f()
        if i >= 3:
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    torch.manual_seed(1)
    for name, n, c, size, o, k, stride, groups in CASES:
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(n, c, size, size).to(memory_format=layout)
            conv = torch.nn.Conv2d(c, o, k, stride, k // 2, groups=groups).to(memory_format=layout)
            dy = torch.randn_like(conv(x))

            def forward() -> None:
                with torch.no_grad():
                    conv(x)

            def step() -> None:
                conv.zero_grad(set_to_none=True)
                x.requires_grad_(True)
                x.grad = None
                conv(x).backward(dy)

            label = "last" if layout == torch.channels_last else "first"
            print(f"{name}/{label}/forward {median_ms(forward):8.2f} ms", flush=True)
            print(f"{name}/{label}/step    {median_ms(step):8.2f} ms", flush=True)


main()
