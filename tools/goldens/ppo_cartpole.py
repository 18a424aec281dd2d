#!/usr/bin/env python3
"""Makes tests/rl/goldens/ppo_cartpole.json: proximal policy optimization on CartPole, written out in PyTorch (float64).

The formulas are those of CleanRL's ppo.py: generalized advantages, clipped ratios, entropy, gradient norm, Adam. "updates" are the losses
of each minibatch, "parameters" what they lead to. Games, draws and the order of minibatches are made with Ingot's random numbers, so
both sides learn from the same rollouts. Three settings are not CleanRL's defaults but ours: the value loss is not clipped, advantages
are divided by the deviation of the minibatch (not n - 1), and a rollout's last decision is only what the one before goes on from.

--curve prints instead what CleanRL's defaults reach (clipped value loss, n - 1, annealed rate): the mean return of games that end in
each fifth of the steps.

Run from the repository's root, with tools/goldens/requirements.txt installed:
    python3 tools/goldens/ppo_cartpole.py [--curve STEPS SEEDS]
"""
import argparse
import json
import math
import pathlib
import statistics

import torch

OUT = pathlib.Path("tests/rl/goldens/ppo_cartpole.json")
GAMES, STEPS, MINIBATCH, EPOCHS, ROLLOUTS, HIDDEN = 4, 33, 32, 4, 3, 8
GAMMA, LAMBDA, CLIP, VALUE, ENTROPY, NORM, RATE = 0.99, 0.95, 0.2, 0.5, 0.01, 0.5, 5e-3
GAMES_SEED, SEED = 5, 7
PLAY, ORDER = 0x706C6179, 0x6F726465  # streams of rl/ppo_task.cpp
WORD, LONG = 2**32 - 1, 2**64 - 1


def philox(counter, key):
    """Philox4x32-10 of Salmon et al. 2011."""
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = (p1 >> 32 ^ counter[1] ^ key[0], p1 & WORD, p0 >> 32 ^ counter[3] ^ key[1], p0 & WORD)
        key = ((key[0] + 0x9E3779B9) & WORD, (key[1] + 0xBB67AE85) & WORD)
    return counter


def block(seed, stream, number):
    return philox((number & WORD, number >> 32, stream & WORD, stream >> 32), (seed & WORD, seed >> 32))


def mix(a, b):
    z = (a + 0x9E3779B97F4A7C15 * (b + 1)) & LONG
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & LONG
    z = (z ^ z >> 27) * 0x94D049BB133111EB & LONG
    return z ^ z >> 31


class Rng:
    """base/rng.h's reader of one stream."""

    def __init__(self, seed, stream):
        self.seed, self.stream, self.position = seed, stream, 0

    def word(self):
        self.position += 1
        return block(self.seed, self.stream, (self.position - 1) // 4)[(self.position - 1) % 4]

    def long(self):
        low = self.word()
        return low | self.word() << 32

    def uniform(self):
        return (self.long() >> 11) * 2.0**-53

    def below(self, n):
        limit, drawn = LONG - LONG % n, self.long()
        while drawn >= limit:
            drawn = self.long()
        return drawn % n


class CartPole:
    """Barto, Sutton and Anderson 1983, with Gymnasium's constants: 1 for each step, at most 500."""

    def __init__(self, uniform):
        self.state, self.steps = [uniform() * 0.1 - 0.05 for _ in range(4)], 0

    def act(self, action):
        x, speed, angle, turn = self.state
        force, cosine, sine = 10 if action == 1 else -10, math.cos(angle), math.sin(angle)
        push = (force + 0.05 * turn * turn * sine) / 1.1
        turning = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
        moving = push - 0.05 * turning * cosine / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * moving, angle + 0.02 * turn, turn + 0.02 * turning]
        self.steps += 1
        return abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * 2 * math.pi / 360 or self.steps >= 500


class Net(torch.nn.Module):
    """tests/rl/small_network.h: a policy and a critic, each with two tanh layers."""

    def __init__(self, hidden):
        super().__init__()
        for name, out in (("policy", 2), ("value", 1)):
            for i, (a, b) in enumerate(((4, hidden), (hidden, hidden), (hidden, out)), 1):
                setattr(self, f"{name}{i}", torch.nn.Linear(a, b))

    def forward(self, x):
        run = lambda name: getattr(self, name + "3")(torch.tanh(getattr(self, name + "2")(torch.tanh(getattr(self, name + "1")(x)))))
        return run("policy"), run("value")[:, 0]


def advantages(rewards, values, ended, last_value):
    """Along one game: delta and lambda returns, backwards. The last value stands behind the last reward."""
    result, later, next_value = [0.0] * len(rewards), 0.0, last_value
    for t in reversed(range(len(rewards))):
        alive = 0.0 if ended[t] else 1.0
        later = rewards[t] + GAMMA * alive * next_value - values[t] + GAMMA * LAMBDA * alive * later
        result[t], next_value = later, values[t]
    return result


def losses(net, batch, entropy, clip_value, correction):
    logits, value = net(batch["observation"])
    log_all = torch.log_softmax(logits, 1)
    log_ratio = log_all.gather(1, batch["action"][:, None])[:, 0] - batch["log_probability"]
    ratio, advantage = log_ratio.exp(), batch["advantage"]
    advantage = (advantage - advantage.mean()) / (advantage.std(correction=correction) + 1e-8)
    policy = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
    value_loss = (value - batch["target"]) ** 2
    if clip_value:
        near = batch["value"] + (value - batch["value"]).clamp(-CLIP, CLIP)
        value_loss = torch.max(value_loss, (near - batch["target"]) ** 2)
    value_loss = 0.5 * value_loss.mean()
    spread = -(log_all.exp() * log_all).sum(1).mean()
    return {"loss": policy + VALUE * value_loss - entropy * spread, "policy": policy, "value": value_loss, "entropy": spread,
            "kl": (ratio - 1 - log_ratio).mean(), "clipped": ((ratio - 1).abs() > CLIP).double().mean()}


def play(net, games, begun, number):
    """STEPS decisions of each game, in order of time; known are those whose successor or end is."""
    rows, closest = [], 1.0
    for step in range(STEPS):
        x = torch.tensor([game.state for game in games], dtype=torch.float32).double()
        with torch.no_grad():
            logits, value = net(x)
            log_all = torch.log_softmax(logits, 1)
        for i, game in enumerate(games):
            drawn = (block(SEED, mix(PLAY, number), step * GAMES + i)[0] >> 8) * 2.0**-24
            first = math.exp(log_all[i, 0])
            closest = min(closest, abs(first - drawn))
            action = int(drawn >= first)
            ended = game.act(action)
            rows.append({"game": i, "observation": x[i], "action": action, "log_probability": log_all[i, action].item(),
                         "value": value[i].item(), "ended": ended})
            if ended:
                begun[i] += 1
                games[i] = CartPole(Rng(GAMES_SEED, mix(i, begun[i] - 1)).uniform)
    assert closest > 1e-5, "a draw is too near a bound for two precisions"
    for i in range(GAMES):
        own = [row for row in rows if row["game"] == i]
        learned = own if own[-1]["ended"] else own[:-1]
        found = advantages([1.0] * len(learned), [row["value"] for row in learned], [row["ended"] for row in learned], own[-1]["value"])
        for row, advantage in zip(learned, found):
            row["advantage"], row["target"] = advantage, advantage + row["value"]
    return [row for row in rows if "advantage" in row]


def batch_of(rows):
    numbers = {key: torch.tensor([row[key] for row in rows], dtype=torch.float64)
               for key in ("log_probability", "advantage", "target", "value")}
    return {**numbers, "observation": torch.stack([row["observation"] for row in rows]),
            "action": torch.tensor([row["action"] for row in rows])}


def minibatches(count, number):
    random, order = Rng(SEED, mix(ORDER, number)), list(range(count))
    for i in reversed(range(1, count)):
        j = random.below(i + 1)
        order[i], order[j] = order[j], order[i]
    while order:
        take = len(order) if len(order) < MINIBATCH + MINIBATCH // 2 else MINIBATCH
        yield order[:take]
        order = order[take:]


def goldens():
    net = Net(HIDDEN).double()
    with torch.no_grad():
        for t, parameter in enumerate(net.parameters()):
            values = [0.5 * math.sin(1.3 * k + 2 * t) for k in range(parameter.numel())]
            parameter.copy_(torch.tensor(values, dtype=torch.float32).reshape(parameter.shape))
    adam = torch.optim.Adam(net.parameters(), lr=RATE, eps=1e-5)
    games, begun, updates = [CartPole(Rng(GAMES_SEED, mix(i, 0)).uniform) for i in range(GAMES)], [1] * GAMES, []
    for rollout in range(ROLLOUTS):
        rows = play(net, games, begun, rollout)
        for epoch in range(EPOCHS):
            for picked in minibatches(len(rows), (rollout + 1) * EPOCHS + epoch):
                found = losses(net, batch_of([rows[i] for i in picked]), ENTROPY, clip_value=False, correction=0)
                adam.zero_grad()
                found["loss"].backward()
                norm = torch.nn.utils.clip_grad_norm_(net.parameters(), NORM)
                adam.step()
                updates.append([*(found[key].item() for key in ("loss", "policy", "value", "entropy", "kl", "clipped")), norm.item()])
    rounded = lambda values: [float(f"{value:.9g}") for value in values]
    lines = ",\n".join("  " + json.dumps(rounded(update)) for update in updates)
    parameters = ",\n".join(f"  {json.dumps(name)}: {json.dumps(rounded(parameter.flatten().tolist()))}"
                            for name, parameter in net.named_parameters())
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(f'{{"torch": "{torch.__version__.split("+")[0]}",\n"updates": [\n{lines}\n],\n"parameters": {{\n{parameters}\n}}}}\n')
    print(f"{OUT}: {len(updates)} updates")


def curve(total, seed):
    """CleanRL's defaults: 4 games, 128 steps, 4 minibatches, 4 epochs, 64 units, 2.5e-4 falling to 0."""
    torch.manual_seed(seed)
    steps, rate, net = 128, 2.5e-4, Net(64)
    for name in ("policy", "value"):
        for i, gain in ((1, math.sqrt(2)), (2, math.sqrt(2)), (3, 0.01 if name == "policy" else 1.0)):
            torch.nn.init.orthogonal_(getattr(net, f"{name}{i}").weight, gain)
            torch.nn.init.zeros_(getattr(net, f"{name}{i}").bias)
    adam = torch.optim.Adam(net.parameters(), lr=rate, eps=1e-5)
    uniform = lambda: torch.rand(()).item()
    games, returns, marks = [CartPole(uniform) for _ in range(GAMES)], [], []
    updates = total // (steps * GAMES)
    for update in range(updates):
        adam.param_groups[0]["lr"] = rate * (1 - update / updates)
        rows = []
        for _ in range(steps):
            x = torch.tensor([game.state for game in games])
            with torch.no_grad():
                logits, value = net(x)
                policy = torch.distributions.Categorical(logits=logits)
                action = policy.sample()
                log_probability = policy.log_prob(action)
            for i, game in enumerate(games):
                ended = game.act(action[i].item())
                rows.append({"game": i, "observation": x[i], "action": action[i].item(), "value": value[i].item(),
                             "log_probability": log_probability[i].item(), "ended": ended})
                if ended:
                    returns.append(game.steps)
                    games[i] = CartPole(uniform)
        with torch.no_grad():
            last = net(torch.tensor([game.state for game in games]))[1].tolist()
        for i in range(GAMES):
            own = [row for row in rows if row["game"] == i]
            found = advantages([1.0] * steps, [row["value"] for row in own], [row["ended"] for row in own], last[i])
            for row, advantage in zip(own, found):
                row["advantage"], row["target"] = advantage, advantage + row["value"]
        for _ in range(EPOCHS):
            order = torch.randperm(len(rows)).tolist()
            for first in range(0, len(order), 128):
                batch = {key: value.float() if value.is_floating_point() else value
                         for key, value in batch_of([rows[i] for i in order[first:first + 128]]).items()}
                loss = losses(net, batch, ENTROPY, clip_value=True, correction=1)["loss"]
                adam.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), NORM)
                adam.step()
        if (update + 1) * 5 // updates > update * 5 // updates:
            marks.append(statistics.mean(returns))
            returns = []
    return marks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve", nargs=2, type=int, metavar=("STEPS", "SEEDS"))
    args = parser.parse_args()
    if args.curve is None:
        return goldens()
    torch.set_num_threads(1)
    curves = [curve(args.curve[0], seed) for seed in range(1, args.curve[1] + 1)]
    for i, marks in enumerate(zip(*curves), 1):
        print(f"{args.curve[0] * i // 5:>8} steps: {statistics.mean(marks):6.1f}  of seeds: {' '.join(f'{mark:.0f}' for mark in marks)}")


if __name__ == "__main__":
    main()
