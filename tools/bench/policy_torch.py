#!/usr/bin/env python3
"""Times the SE-ResNet policy network in PyTorch, tuned as its best users would: the baseline of `ingot bench policy`.

`ingot bench policy --against torch` runs this file (it is inside the binary) with the environment it needs and takes turns with
it. By hand, for the fastest settings:

    OMP_NUM_THREADS=2 GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=34359738368:\
glibc.malloc.trim_threshold=34359738368 python3 tools/bench/policy_torch.py [--compile]

It prints one line for each case and memory format. A training step ends with AdamW. Needs torch.
"""
import argparse
import json
import resource
import statistics
import sys
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


def make_case(variant, case, batch, compiled):
    """One run of a case as a function, in a memory format."""
    torch.manual_seed(1)
    image = variant == "channels_last"
    net = Net(image)
    if image:
        net = net.to(memory_format=torch.channels_last)
    model = torch.compile(net) if compiled else net
    x = torch.randn(batch, 85, 1, 34) if image else torch.randn(batch, 85, 34)
    if image:
        x = x.to(memory_format=torch.channels_last)
    if case != "train":
        net.eval()

        def infer():
            with torch.inference_mode():
                model(x)

        return infer
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    targets = torch.zeros(batch, dtype=torch.long)

    def step():
        policy, value = model(x)
        (nn.functional.cross_entropy(policy, targets) + value.square().mean()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cases", default="1,32,256,train", help="batch sizes of inference, and train")
    parser.add_argument("--batch", type=int, default=256, help="observations of a training step")
    parser.add_argument("--compile", action="store_true", help="torch.compile instead of eager mode")
    parser.add_argument("--serve", action="store_true",
                        help="one run of the only case for each line of stdin, in its better format; answer with JSON lines")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    best = {}
    for case in args.cases.split(","):
        for variant in ("plain", "channels_last"):
            batch = args.batch if case == "train" else int(case)
            run = make_case(variant, case, batch, args.compile)
            ms = median_ms(run, 3 if batch > 64 else 21)
            if not args.serve:
                print(f"{'compile' if args.compile else 'eager'} {variant:14} {case:>6} {ms:10.2f} ms", flush=True)
            if ms < best.get(case, (float("inf"),))[0]:
                best[case] = (ms, variant, run)
    if not args.serve:
        print("torch", torch.__version__, torch.backends.cpu.get_cpu_capability())
        return
    (_, variant, run), = best.values()
    print(json.dumps({"version": f"{torch.__version__} ({variant})"}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        ms = 1e3 * (time.perf_counter() - start)
        print(json.dumps({"ms": ms, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)


if __name__ == "__main__":
    main()
