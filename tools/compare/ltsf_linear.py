#!/usr/bin/env python3
"""Trains the published DLinear or NLinear in PyTorch by the published protocol, for several seeds: what its table's numbers
are a sample of. Prints validation and test MSE of the epoch that the validation loss chose, and of the last epoch; and first
test MSE and MAE of DLinear's optimum, the least-squares solution over the training windows.

  tools/compare/ltsf_linear.py --ltsf LTSF-Linear ETTh1.csv --horizon 336 --seeds 5
  tools/compare/ltsf_linear.py --ltsf LTSF-Linear ETTh2.csv --model NLinear --rate 0.05 --horizon 336

LTSF-Linear 0c11366; its scripts' settings for ETTh1 and, but for the rate, ETTh2: look-back 336, Adam 0.005 halved after
every epoch but the first, batch 32 shuffled, the last batch dropped, 10 epochs, patience 3, loss of the validation part as
the mean of its batches.
"""
import argparse
import csv
import importlib
import pathlib
import sys
import types

import numpy
import torch

LOOKBACK, BATCH, EPOCHS, PATIENCE = 336, 32, 10, 3
BORDERS = (0, 8640, 11520, 14400)


def windows(path, horizon):
    with open(path) as file:
        rows = [line[1:] for line in csv.reader(file)][1:]
    values = numpy.array(rows, dtype=float)
    train = values[: BORDERS[1]]
    values = torch.tensor((values - train.mean(0)) / train.std(0), dtype=torch.float32)
    parts = []
    for part in range(3):
        rows = values[max(0, BORDERS[part] - (LOOKBACK if part else 0)): BORDERS[part + 1]]
        parts.append(rows.unfold(0, LOOKBACK + horizon, 1).transpose(1, 2))
    return parts


def mean_loss(model, part, drop_last):
    losses = []
    with torch.no_grad():
        for batch in part.split(BATCH):
            if drop_last and len(batch) < BATCH:
                continue
            losses.append((((model(batch[:, :LOOKBACK]) - batch[:, LOOKBACK:]) ** 2).mean().item(), len(batch)))
    weights = [1 if drop_last else count for _, count in losses]
    return sum(loss * w for (loss, _), w in zip(losses, weights)) / sum(weights)


def run(make, parts, seed, rate):
    torch.manual_seed(seed)
    train, validation, test = parts
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    best, waited = None, 0
    for epoch in range(EPOCHS):
        for group in optimizer.param_groups:
            group["lr"] = rate * 0.5 ** max(0, epoch - 1)
        order = torch.randperm(len(train))
        for step in range(len(train) // BATCH):
            batch = train[order[step * BATCH:(step + 1) * BATCH]]
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(batch[:, :LOOKBACK]), batch[:, LOOKBACK:]).backward()
            optimizer.step()
        now = (mean_loss(model, validation, True), mean_loss(model, test, False), epoch + 1)
        if best is None or now[0] <= best[0]:
            best, waited = now, 0
        else:
            waited += 1
        if waited >= PATIENCE:
            break
    return best, now


def least_squares(parts):
    """Test MSE and MAE of the linear map of a look-back that is best on the training windows."""
    def operands(part, channel):  # [windows, look-back and 1], [windows, horizon]
        rows = part[:, :, channel].double()
        return torch.cat([rows[:, :LOOKBACK], torch.ones(len(rows), 1, dtype=torch.float64)], 1), rows[:, LOOKBACK:]

    channels = range(parts[0].shape[2])
    train, test = ([operands(part, c) for c in channels] for part in (parts[0], parts[2]))
    weights = torch.linalg.solve(sum(x.T @ x for x, _ in train), sum(x.T @ y for x, y in train))
    errors = torch.stack([x @ weights - y for x, y in test])
    return (errors ** 2).mean().item(), errors.abs().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--ltsf", type=pathlib.Path, required=True)
    parser.add_argument("--model", choices=("DLinear", "NLinear"), default="DLinear")
    parser.add_argument("--rate", type=float, default=0.005, help="learning rate")
    parser.add_argument("--horizon", type=int, default=336)
    parser.add_argument("--seeds", type=int, default=5, help="how many: 2021, 2022, ...")
    args = parser.parse_args()
    sys.path.insert(0, str(args.ltsf))
    published = importlib.import_module(f"models.{args.model}").Model
    settings = types.SimpleNamespace(seq_len=LOOKBACK, pred_len=args.horizon, individual=False, enc_in=7)
    parts = windows(args.data, args.horizon)
    if args.model == "DLinear":
        print("H {} optimum: test MSE {:.4f} MAE {:.4f}".format(args.horizon, *least_squares(parts)), flush=True)
    for seed in range(2021, 2021 + args.seeds):
        best, last = run(lambda: published(settings), parts, seed, args.rate)
        print(f"H {args.horizon} seed {seed}: chosen epoch {best[2]} validation {best[0]:.4f} test {best[1]:.4f}"
              f"   last epoch {last[2]} validation {last[0]:.4f} test {last[1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
