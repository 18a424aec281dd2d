#!/usr/bin/env python3
"""Self-play in mahjong as it is usually written in Python: the baseline of `ingot bench selfplay`.

A list of riichienv games (its engine and its encoder are Rust), their observations stacked by NumPy, a network in PyTorch that is
asked for all games at once, actions drawn from the masked policy. Forced decisions are not asked. The network has the
sizes of ours: pre-activation residual blocks with two-pool squeeze-and-excitation, policy and value.

With --learn it takes steps of PPO instead, on decisions of our sizes: clipped ratios, value, entropy, gradient norm, fused Adam.

`ingot bench selfplay --against torch --python PYTHON` runs this file (it is inside the binary) in turn with our own loop, and once more
with --learn in turn with our steps. By hand it prints decisions a second. Needs torch and, to play, riichienv (0.4.11).
"""
import argparse
import json
import resource
import sys
import time
from importlib.metadata import version

import numpy as np
import torch
from torch import nn

PLANES, WIDTH, ACTIONS = 74, 34, 82  # of riichienv
OUR_PLANES, OUR_ACTIONS = 96, 46


class Block(nn.Module):
    def __init__(self, channels, groups, reduction):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, channels)
        self.conv1 = nn.Conv1d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv1d(channels, channels, 3, padding=1, bias=False)
        self.squeeze = nn.Sequential(nn.Linear(channels, channels // reduction), nn.ReLU(),
                                     nn.Linear(channels // reduction, channels))

    def forward(self, x):
        h = self.conv1(nn.functional.mish(self.norm1(x)))
        h = self.conv2(nn.functional.mish(self.norm2(h)))
        gate = torch.sigmoid(self.squeeze(h.mean(2)) + self.squeeze(h.amax(2)))
        return x + h * gate.unsqueeze(2)


class Net(nn.Module):
    def __init__(self, channels, blocks, planes=PLANES, actions=ACTIONS):
        super().__init__()
        groups, reduction = min(32, channels // 4), min(16, channels // 4)
        self.stem = nn.Conv1d(planes, channels, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*[Block(channels, groups, reduction) for _ in range(blocks)])
        self.norm = nn.GroupNorm(groups, channels)
        self.policy_conv, self.policy = nn.Conv1d(channels, 64, 1), nn.Linear(64 * WIDTH, actions)
        self.value = nn.Sequential(nn.Linear(channels, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, x):
        h = nn.functional.mish(self.norm(self.blocks(self.stem(x))))
        return self.policy(nn.functional.mish(self.policy_conv(h)).flatten(1)), self.value(h.mean(2))


class Learner:
    """Steps of PPO on one minibatch."""

    def __init__(self, args):
        torch.manual_seed(1)
        net, size = Net(args.channels, args.blocks, OUR_PLANES, OUR_ACTIONS), args.minibatch
        self.parameters = list(net.parameters())
        self.net = torch.compile(net) if args.compile else net
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-4, eps=1e-5, fused=True)
        self.observation = (torch.rand(size, OUR_PLANES, WIDTH) > 0.8).float()
        self.legal = torch.rand(size, OUR_ACTIONS) > 0.7
        self.legal[:, 0] = True
        self.action = torch.zeros(size, 1, dtype=torch.int64)
        self.old, self.advantage, self.target = torch.full((size,), -2.0), torch.randn(size), torch.randn(size)

    def play(self, _):
        logits, value = self.net(self.observation)
        log_all = torch.log_softmax(logits.masked_fill(~self.legal, -1e30), 1)
        ratio = (log_all.gather(1, self.action)[:, 0] - self.old).exp()
        policy = -torch.min(ratio * self.advantage, ratio.clamp(0.9, 1.1) * self.advantage).mean()
        entropy = -(log_all.exp() * log_all).sum(1).mean()
        loss = policy + 0.25 * (value[:, 0] - self.target).square().mean() - 0.01 * entropy
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 0.5)
        self.optimizer.step()
        return len(self.old), 0.0


class Loop:
    def __init__(self, args):
        from riichienv import GameRule, RiichiEnv
        self.make = lambda seed: RiichiEnv(game_mode="4p-red-half", rule=GameRule.default_tenhou(), seed=seed)
        torch.manual_seed(1)
        net = Net(args.channels, args.blocks).eval()
        self.net = torch.compile(net, dynamic=True) if args.compile else net
        self.single = args.single
        self.seed = 0
        self.games = [self.new_game() for _ in range(args.tables)]

    def new_game(self):
        self.seed += 1
        env = self.make(self.seed)
        return env, env.reset()

    def decide(self, planes, masks):
        with torch.inference_mode():
            logits, _ = self.net(torch.from_numpy(planes))
            logits = logits.masked_fill(torch.from_numpy(masks) == 0, float("-inf"))
            return torch.distributions.Categorical(logits=logits).sample().tolist()

    def play(self, decisions):
        """Until so many decisions are taken; returns how many there were, and the seconds in the network."""
        taken, seconds = 0, 0.0
        while taken < decisions:
            asked, planes, masks = [], [], []
            answers = [{} for _ in self.games]
            for i, (_, observations) in enumerate(self.games):
                for player, observation in observations.items():
                    legal = observation.legal_actions()
                    if len(legal) == 1:
                        answers[i][player] = legal[0]
                        continue
                    asked.append((i, player, observation))
                    planes.append(np.frombuffer(observation.encode(), np.float32).reshape(PLANES, WIDTH))
                    masks.append(np.frombuffer(observation.mask(), np.uint8))
            if asked:
                start = time.perf_counter()
                size = 1 if self.single else len(asked)
                actions = []
                for at in range(0, len(asked), size):
                    actions += self.decide(np.stack(planes[at:at + size]), np.stack(masks[at:at + size]))
                seconds += time.perf_counter() - start
                for (i, player, observation), action in zip(asked, actions):
                    answers[i][player] = observation.find_action(action)
                taken += len(asked)
            for i, (env, _) in enumerate(self.games):
                observations = env.step(answers[i])
                self.games[i] = self.new_game() if env.done() else (env, observations)
        return taken, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tables", type=int, default=128)
    parser.add_argument("--decisions", type=int, default=4096, help="of a run")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--single", action="store_true", help="ask the network for one decision at a time, as riichienv's examples do")
    parser.add_argument("--learn", action="store_true", help="steps of PPO instead of play")
    parser.add_argument("--minibatch", type=int, default=256, help="decisions of such a step")
    parser.add_argument("--compile", action="store_true", help="torch.compile instead of eager mode")
    parser.add_argument("--serve", action="store_true", help="one run for each line of stdin; answer with JSON lines")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.learn:
        args.decisions = args.minibatch
    loop = Learner(args) if args.learn else Loop(args)
    for _ in range(2):
        loop.play(args.decisions)
    if args.serve:
        beside = "" if args.learn else f", riichienv {version('riichienv')}"
        print(json.dumps({"version": torch.__version__ + beside}), flush=True)
    for _ in sys.stdin if args.serve else range(5):
        start = time.perf_counter()
        taken, network = loop.play(args.decisions)
        seconds = (time.perf_counter() - start) * args.decisions / taken
        if args.serve:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps({"ms": 1e3 * seconds, "peak_mib": peak}), flush=True)
        else:
            print(f"{args.decisions / seconds:.0f} decisions/s, {100 * network / (seconds * taken / args.decisions):.0f} % in the network")


if __name__ == "__main__":
    main()
