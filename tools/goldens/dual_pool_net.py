#!/usr/bin/env python3
"""Writes tests/models/goldens/dual_pool_net: a small pre-activation SE-ResNet with its weights, an input, all outputs and gradients.

    python3 tools/goldens/dual_pool_net.py    # needs torch and safetensors
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import mish

INPUTS, WIDTH, CHANNELS, BLOCKS, GROUPS, REDUCTION, ACTIONS, CONTEXT = 3, 5, 8, 2, 4, 4, 6, 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(GROUPS, CHANNELS), nn.GroupNorm(GROUPS, CHANNELS)
        self.conv1 = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.conv2 = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.squeeze, self.excite = nn.Linear(CHANNELS, CHANNELS // REDUCTION), nn.Linear(CHANNELS // REDUCTION, CHANNELS)

    def forward(self, x):
        h = self.conv2(mish(self.norm2(self.conv1(mish(self.norm1(x))))))
        mlp = lambda pooled: self.excite(torch.relu(self.squeeze(pooled)))
        return x + h * torch.sigmoid(mlp(h.mean(2)) + mlp(h.amax(2)))[:, :, None]


class Mlp(nn.ModuleList):
    def __init__(self, *widths):
        super().__init__(nn.Linear(i, o) for i, o in zip(widths, widths[1:]))

    def forward(self, x):
        *hidden, last = self
        for layer in hidden:
            x = torch.relu(layer(x))
        return last(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(INPUTS, CHANNELS, 3, padding=1, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.GroupNorm(GROUPS, CHANNELS)
        self.policy_conv, self.policy_output = nn.Conv1d(CHANNELS, 64, 1), nn.Conv1d(64, ACTIONS, WIDTH)
        self.value_head, self.tenpai_head = Mlp(CHANNELS, 512, 1), Mlp(CHANNELS, 64, 3)
        self.rank_head = Mlp(CHANNELS + CONTEXT, 256, 128, 24)
        self.danger_conv = nn.Conv1d(CHANNELS, 3, 1)

    def forward(self, x, context):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        h = mish(self.norm(h))
        pooled = h.mean(2)
        return {"policy": self.policy_output(mish(self.policy_conv(h))).flatten(1), "value": self.value_head(pooled),
                "rank": self.rank_head(torch.cat([pooled, context], 1)), "tenpai": self.tenpai_head(pooled),
                "danger": self.danger_conv(h)}


def main():
    torch.manual_seed(0)
    net, x, context = Net(), torch.randn(2, INPUTS, WIDTH), torch.randn(2, CONTEXT)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "norm" in name:
                parameter.add_(0.2 * torch.randn(parameter.shape))
    outputs = net(x, context)
    sum((y * torch.linspace(-1, 1, y.numel()).reshape(y.shape)).sum() for y in outputs.values()).backward()
    directory = Path(__file__).parents[2] / "tests/models/goldens/dual_pool_net"
    directory.mkdir(parents=True, exist_ok=True)
    gradients = {"grad." + n: net.get_parameter(n).grad for n in ("stem.weight", "blocks.0.squeeze.weight", "blocks.1.norm1.weight")}
    save_file({n: p.detach() for n, p in net.named_parameters()}, directory / "model.safetensors")
    save_file({"x": x, "context": context, **{n: y.detach() for n, y in outputs.items()}, **gradients},
              directory / "expected.safetensors")


if __name__ == "__main__":
    main()
