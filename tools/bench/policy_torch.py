#!/usr/bin/env python3
"""Times the SE-ResNet policy network in PyTorch, tuned as its best users would: the peer of bench/policy_bench.cpp.

For the fastest settings run it with
  OMP_NUM_THREADS=2 OPENBLAS_CORETYPE=SKYLAKEX ATEN_CPU_CAPABILITY=avx512
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=34359738368:glibc.malloc.trim_threshold=34359738368
It prints one line per variant, (memory format and compilation) and the best of each case at the end.
"""
import argparse
import statistics
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, conv, channels, groups, reduction):
        super().__init__()
        self.conv1, self.conv2 = conv(channels, channels), conv(channels, channels)
        self.norm1, self.norm2 = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, channels)
        self.squeeze, self.excite = nn.Linear(channels, channels // reduction), nn.Linear(channels // reduction, channels)

    def forward(self, x):
        mish = nn.functional.mish
        h = self.norm2(self.conv2(mish(self.norm1(self.conv1(x)))))
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(h.flatten(2).mean(2)))))
        return mish(h * gate.reshape(gate.shape + (1,) * (h.dim() - 2)) + x)


class Net(nn.Module):
    """`image`: as 2-d convolutions over [N, C, 1, W], which have a channels-last memory format in PyTorch."""

    def __init__(self, image, inputs=85, width=34, channels=256, blocks=40, groups=32, reduction=16, actions=46):
        super().__init__()
        if image:
            conv = lambda i, o: nn.Conv2d(i, o, (1, 3), padding=(0, 1), bias=False)
            self.policy_conv = nn.Conv2d(channels, 64, 1)
        else:
            conv = lambda i, o: nn.Conv1d(i, o, 3, padding=1, bias=False)
            self.policy_conv = nn.Conv1d(channels, 64, 1)
        self.stem = conv(inputs, channels)
        self.blocks = nn.Sequential(*[Block(conv, channels, groups, reduction) for _ in range(blocks)])
        self.policy_output = nn.Linear(64 * width, actions)
        self.value = nn.Sequential(nn.Linear(channels, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, x):
        h = self.blocks(self.stem(x))
        policy = self.policy_output(nn.functional.mish(self.policy_conv(h)).flatten(1))
        return policy, self.value(h.flatten(2).mean(2))


def median_ms(f, repeats):
    f()
    f()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variants", default="plain,channels_last,compile,compile_channels_last")
    parser.add_argument("--cases", default="1,32,256,train")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("torch", torch.__version__, torch.backends.cpu.get_cpu_capability(), "mkldnn",
          torch.backends.mkldnn.is_available(), flush=True)
    best = {}
    for variant in args.variants.split(","):
        torch.manual_seed(1)
        image = "channels_last" in variant
        net = Net(image)
        if image:
            net = net.to(memory_format=torch.channels_last)
        model = torch.compile(net) if variant.startswith("compile") else net

        def observation(n):
            x = torch.randn(n, 85, 1, 34) if image else torch.randn(n, 85, 34)
            return x.to(memory_format=torch.channels_last) if image else x

        for case in args.cases.split(","):
            if case == "train":
                x = observation(256)
                net.train()

                def step():
                    net.zero_grad(set_to_none=True)
                    policy, value = model(x)
                    (nn.functional.cross_entropy(policy, torch.zeros(256, dtype=torch.long)) + value.square().mean()).backward()

                ms = median_ms(step, 3)
            else:
                x = observation(int(case))
                net.eval()
                with torch.inference_mode():
                    ms = median_ms(lambda: model(x), 51 if case == "1" else 5)
            print(f"{variant:24} {case:>6} {ms:10.2f} ms", flush=True)
            best[case] = min(best.get(case, (float("inf"), "")), (ms, variant))
    for case, (ms, variant) in best.items():
        print(f"best {case:>6} {ms:10.2f} ms ({variant})")


if __name__ == "__main__":
    main()
