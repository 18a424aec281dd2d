#!/usr/bin/env python3
"""Trains the published TimesNet in PyTorch by the published protocol, for several seeds: what its table's numbers are a
sample of. Prints, for each epoch, the training and validation losses and the test MSE and MAE.

  tools/compare/timesnet_draws.py --original Time-Series-Library ETTh1.csv --seeds 2021,1,2
  ingot forecast fit ETTh1.csv --model timesnet --split ett --epochs 1 --set seed=1 --set learning_rate=1e-12 -o first
  tools/compare/timesnet_draws.py --original Time-Series-Library ETTh1.csv --seeds 1 --weights first

Time-Series-Library 4e938a1 and its script for ETTh1: look-back 96, Adam 1e-4 halved after every epoch but the first, batch 32
shuffled, 10 epochs, patience 3. The six convolutions of an inception block run as one with the mean of their kernels, each
padded: the same function of the same parameters, in a third of the time.
"""
import argparse
import csv
import datetime
import importlib
import pathlib
import sys
import types

import numpy
import torch
from safetensors.torch import load_file

LOOKBACK, BATCH, EPOCHS, PATIENCE, RATE = 96, 32, 10, 3, 1e-4
BORDERS = (0, 8640, 11520, 14400)


def merged(block, x):
    """What an Inception_Block_V1 computes, in one convolution without what would only meet padding."""
    reach = len(block.kernels) - 1
    weight = sum(torch.nn.functional.pad(c.weight, (reach - i,) * 4) for i, c in enumerate(block.kernels)) / (reach + 1)
    bias = sum(c.bias for c in block.kernels) / (reach + 1)
    rows, columns = min(reach, x.shape[2] - 1), min(reach, x.shape[3] - 1)
    weight = weight[:, :, reach - rows:reach + rows + 1, reach - columns:reach + columns + 1]
    last = dict(memory_format=torch.channels_last)
    return torch.nn.functional.conv2d(x.contiguous(**last), weight.contiguous(**last), bias, padding=(rows, columns))


def table(path):
    """The scaled values and the calendar features of every row."""
    with open(path) as file:
        rows = list(csv.reader(file))[1:]
    days = [datetime.datetime.fromisoformat(row[0]) for row in rows]
    marks = [(d.hour / 23 - .5, d.weekday() / 6 - .5, (d.day - 1) / 30 - .5, (d.timetuple().tm_yday - 1) / 365 - .5)
             for d in days]
    values = numpy.array([row[1:] for row in rows], dtype=float)
    train = values[: BORDERS[1]]
    return torch.tensor((values - train.mean(0)) / train.std(0), dtype=torch.float32), torch.tensor(marks)


class Data:
    def __init__(self, path, horizon):
        self.values, self.marks = table(path)
        self.horizon = horizon
        starts = [range(max(0, BORDERS[i] - (LOOKBACK if i else 0)), BORDERS[i + 1] - LOOKBACK - horizon + 1) for i in range(3)]
        self.train, self.validation, self.test = map(list, starts)

    def errors(self, model, starts):
        """Forecasts minus targets of windows."""
        past = torch.stack([self.values[i:i + LOOKBACK] for i in starts])
        marks = torch.stack([self.marks[i:i + LOOKBACK] for i in starts])
        target = torch.stack([self.values[i + LOOKBACK:i + LOOKBACK + self.horizon] for i in starts])
        return model(past, marks, None, None)[:, -self.horizon:] - target

    def measure(self, model, starts):
        model.eval()
        squares = absolutes = 0.0
        with torch.no_grad():
            for at in range(0, len(starts), BATCH):
                errors = self.errors(model, starts[at:at + BATCH])
                squares += errors.square().mean(dim=(1, 2)).sum().item()
                absolutes += errors.abs().mean(dim=(1, 2)).sum().item()
        model.train()
        return squares / len(starts), absolutes / len(starts)


def run(model, data):
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    best = None
    for epoch in range(EPOCHS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * 0.5 ** max(0, epoch - 1)
        order = [data.train[i] for i in torch.randperm(len(data.train))]
        losses = []
        for at in range(0, len(order), BATCH):
            optimizer.zero_grad()
            loss = data.errors(model, order[at:at + BATCH]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        validation, test = data.measure(model, data.validation)[0], data.measure(model, data.test)
        now = (validation, epoch + 1, *test)
        best = now if best is None or validation <= best[0] else best
        print(f"  epoch {epoch + 1}: training {numpy.mean(losses):.4f} validation {validation:.4f} "
              f"test {test[0]:.4f} / {test[1]:.4f}", flush=True)
        if epoch + 1 - best[1] >= PATIENCE:
            break
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--original", type=pathlib.Path, required=True, help="a checkout of Time-Series-Library")
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--seeds", default="2021")
    parser.add_argument("--weights", type=pathlib.Path, help="directory of an Ingot model to begin from; else the original's own draw")
    args = parser.parse_args()
    sys.path.insert(0, str(args.original))
    importlib.import_module("layers.Conv_Blocks").Inception_Block_V1.forward = merged
    published = importlib.import_module("models.TimesNet").Model
    settings = types.SimpleNamespace(task_name="long_term_forecast", seq_len=LOOKBACK, label_len=48, pred_len=args.horizon, top_k=5,
                                     d_model=16, d_ff=32, num_kernels=6, e_layers=2, enc_in=7, c_out=7, embed="timeF", freq="h",
                                     dropout=0.1)
    data = Data(args.data, args.horizon)
    for seed in map(int, args.seeds.split(",")):
        torch.manual_seed(seed)
        model = published(settings)
        if args.weights:
            model.load_state_dict(load_file(args.weights / "model.safetensors"), strict=False)
        best = run(model, data)
        print(f"horizon {args.horizon} seed {seed}: chosen epoch {best[1]}, test {best[2]:.4f} / {best[3]:.4f}", flush=True)


if __name__ == "__main__":
    main()
