#!/usr/bin/env python3
"""Trains a forecasting network from the same weights here and in its published program, and prints both losses of every step.

    tools/compare/published_training.py timesnet --original Time-Series-Library ETTh1.csv
    tools/compare/published_training.py fedformer --original FEDformer ETTh1.csv --horizon 720

The networks have the sizes of their papers on ETTh1. One batch holds all training windows and nothing is dropped, so that no
draw is left but the first weights, which are Ingot's, and FEDformer's frequencies, which the reference is told: the columns
should agree to the last digits. The reference implementations run in PyTorch on the CPU: Time-Series-Library 4e938a1 (timesnet,
itransformer, autoformer), thuml/Autoformer 51c7d41 (autoformer, too), FEDformer c0f6b97, PatchTST/PatchTST_supervised
204c21e (patchtst, dlinear, nlinear).
"""
import argparse
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "goldens"))
import forecast_models as goldens  # noqa: E402: knows how to import the reference implementations

CHANNELS, VALIDATION_WINDOWS = 7, 8
WORD = (1 << 32) - 1


def plain(model, x, past, future):
    return model(x)


def encode(model, x, past, future):
    return model(x, past, None, None)


def decode(model, x, past, future):
    start = x.shape[1] // 2  # the decoder starts from the last half of the look-back
    decoded = torch.zeros(len(x), start + future.shape[1], CHANNELS)  # only its shape is read
    return model(x, past, decoded, torch.cat([past[:, -start:], future], 1))


DECODER = dict(label_len=48, dec_in=CHANNELS, output_attention=False, e_layers=2, d_layers=1, n_heads=8, d_model=512,
               d_ff=2048)
FEDFORMER = dict(mode_select="random", modes=64, moving_avg=[24], cross_activation="tanh", base="legendre", **DECODER)
# How it is called, its module, its look-back, its settings, and what Ingot's are beyond the defaults.
CASES = {
    "dlinear": (plain, "DLinear", 336, {}, {}),
    "nlinear": (plain, "NLinear", 336, {}, {}),
    "patchtst": (plain, "PatchTST", 336,
                 dict(e_layers=3, n_heads=4, d_model=16, d_ff=128, fc_dropout=0.0, head_dropout=0.0, patch_len=16, stride=8,
                      padding_patch="end", revin=True, affine=False, subtract_last=False, decomposition=False,
                      kernel_size=25), dict(positional_dropout=0, projection_dropout=0)),
    "itransformer": (encode, "iTransformer", 96, dict(e_layers=2, n_heads=8, d_model=256, d_ff=256),
                     dict(d_model=256, d_ff=256, attention_dropout=0)),
    "timesnet": (encode, "TimesNet", 96, dict(e_layers=2, d_model=16, d_ff=32, top_k=5, num_kernels=6), {}),
    "autoformer": (decode, "Autoformer", 96, dict(factor=3, moving_avg=25, **DECODER), {}),
    "fedformer": (decode, "FEDformer", 96, dict(version="Fourier", L=3, **FEDFORMER), {}),
    # Of order 4: some filters of the published order 8 are off, which Ingot does not rebuild. And fewer channels, or a
    # step of the original takes minutes.
    "fedformer-wavelets": (decode, "FEDformer", 96, dict(version="Wavelets", L=3, **FEDFORMER),
                           dict(version="wavelets", wavelet_order=4, wavelet_channels=32)),
}


def philox(block, stream, seed):
    """Philox4x32-10: four words."""
    counter, key = [block, 0, stream, 0], [seed, 0]
    for _ in range(10):
        high, low = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [low >> 32 ^ counter[1] ^ key[0], low & WORD, high >> 32 ^ counter[3] ^ key[1], high & WORD]
        key = [key[0] + 0x9E3779B9 & WORD, key[1] + 0xBB67AE85 & WORD]
    return counter


def chosen_modes(length, place, modes=64, seed=2021):
    """The frequencies that Ingot keeps of `length` steps: models/forecast/fourier_mixer.h."""
    chosen = list(range(length // 2))
    for i in range(min(modes, len(chosen))):
        words = philox(i // 2, place, seed)[i % 2 * 2:]
        j = i + (words[0] | words[1] << 32) % (len(chosen) - i)  # modulo bias: 1 in 2^55 draws would be drawn again
        chosen[i], chosen[j] = chosen[j], chosen[i]
    return sorted(chosen[:modes])


def set_modes(model, lookback, horizon):
    encoder, decoder = model.encoder.attn_layers[0].attention, model.decoder.layers[0]
    decoded = lookback // 2 + horizon
    encoder.inner_correlation.index = chosen_modes(lookback, 0)
    decoder.self_attention.inner_correlation.index = chosen_modes(decoded, 1)
    decoder.cross_attention.inner_correlation.index_q = chosen_modes(decoded, 2)
    decoder.cross_attention.inner_correlation.index_kv = chosen_modes(lookback, 3)


class Parts:
    """Rows for `windows` training windows, for some validation windows, and as many again for a test."""

    def __init__(self, lookback, horizon, windows):
        self.lookback, self.horizon = lookback, horizon
        self.train, self.validation = lookback + horizon + windows - 1, horizon + VALIDATION_WINDOWS - 1
        self.rows = self.train + 2 * self.validation

    def fractions(self):  # half a row more: programs round down
        return {"train_fraction": (self.train + 0.5) / self.rows, "test_fraction": (self.validation + 0.5) / self.rows}


def ours(args, data, folder, parts, settings, epochs, rate):
    settings = {"seed": 5, "learning_rate": rate, "schedule": "constant", "dropout": 0, "batch_size": 100000,
                "patience": 0} | parts.fractions() | settings
    done = subprocess.run([args.ingot, "forecast", "fit", data, "--model", args.model.split("-")[0], "--horizon",
                           str(parts.horizon), "--lookback", str(parts.lookback), "--epochs", str(epochs), "-o", folder,
                           "--json", *(word for item in settings.items() for word in ("--set", "=".join(map(str, item))))],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [(e["train_loss"], e["validation_loss"]) for e in json.loads(done.stdout)["epochs"]]


def take_weights(model, weights, rename):
    left = dict(weights)
    # A trend's shares are a softmax, of one number where it has one window.
    unused = set(goldens.without_state(model)) | {n for n, _ in model.named_parameters() if "decomp" in n}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if rename(name) not in left:
                assert name in unused or not parameter.requires_grad, f"{name} has no weights here"
                continue
            value = left.pop(rename(name))
            if parameter.is_complex():
                value = torch.complex(value[0], value[1]).movedim(0, -1)
            assert parameter.shape == value.shape, (name, parameter.shape, value.shape)
            parameter.copy_(value)
    left = [n for n in left if ".running_" not in n]  # which start from 0 and 1 in both programs
    assert not left, f"{left} are not in the original"


def build(args, module, parts, settings):
    prepare = goldens.wavelet_sizes(order=4, modes=16, channels=32) if args.model == "fedformer-wavelets" else None
    with contextlib.redirect_stdout(io.StringIO()):
        model = goldens.original(args.original, module, prepare, seq_len=parts.lookback, pred_len=parts.horizon, enc_in=CHANNELS,
                                 c_out=CHANNELS, **{"moving_avg": 25} | settings)
    if args.model == "fedformer":
        set_modes(model, parts.lookback, parts.horizon)
    return model


def windows_of(frame, parts):
    """Maps the first rows of windows to what a network reads, and its target."""
    date, table = pd.to_datetime(frame["date"]).dt, frame.iloc[:, 1:].values
    table = ((table - table[:parts.train].mean(0)) / table[:parts.train].std(0)).astype(np.float32)
    marks = np.stack([date.hour / 23, date.day_of_week / 6, (date.day - 1) / 30, (date.day_of_year - 1) / 365], 1) - 0.5
    marks, past, future = marks.astype(np.float32), parts.lookback, parts.horizon

    def windows(starts):
        cut = lambda values, shift, size: torch.tensor(np.stack([values[i + shift:i + shift + size] for i in starts]))
        return cut(table, 0, past), cut(marks, 0, past), cut(marks, past, future), cut(table, past, future)

    return windows


def theirs(args, frame, weights, parts):
    call, module, _, settings, _ = CASES[args.model]
    model = build(args, module, parts, settings)
    take_weights(model, weights, goldens.official_patchtst if args.model == "patchtst" else lambda name: name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + args.nudge * torch.randn(parameter.shape))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.rate)
    windows = windows_of(frame, parts)
    loss = lambda x, past, future, y: ((call(model, x, past, future) - y) ** 2).mean()
    starts = range(parts.train - parts.lookback, parts.train + parts.validation - parts.lookback - parts.horizon + 1)
    for _ in range(args.steps):
        model.train()
        optimizer.zero_grad()
        trained = loss(*windows(range(args.windows)))
        trained.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():  # one window at a time: TimesNet finds the periods of each
            yield trained.item(), np.mean([loss(*windows([i])).item() for i in starts])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=CASES)
    parser.add_argument("data")
    parser.add_argument("--original", type=pathlib.Path, required=True, help="folder with the published program's `models`")
    parser.add_argument("--ingot", default="build/bin/ingot")
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--windows", type=int, default=16, help="training windows")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1e-4, help="Adam's learning rate")
    parser.add_argument("--nudge", type=float, default=0.0,
                        help="changes the original's first weights by about this of their size: what rounding does to it")
    args = parser.parse_args()
    lookback, settings = CASES[args.model][2], CASES[args.model][4]
    parts = Parts(lookback, args.horizon, args.windows)
    frame = pd.read_csv(args.data).head(parts.rows)
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/rows.csv"
        frame.to_csv(data, index=False)
        ours(args, data, f"{folder}/first", parts, settings, 1, 1e-20)  # a rate that moves no weight
        mine = ours(args, data, f"{folder}/trained", parts, settings, args.steps, args.rate)
        weights = load_file(f"{folder}/first/model.safetensors")
        print("step  training: Ingot, published   validation: Ingot, published")
        farthest = 0
        for step, (here, there) in enumerate(zip(mine, theirs(args, frame, weights, parts))):
            print(f"{step + 1:4d}  {here[0]:.6f}  {there[0]:.6f}            {here[1]:.6f}  {there[1]:.6f}", flush=True)
            farthest = max(farthest, *(abs(a / b - 1) for a, b in zip(here, there)))
        print(f"farthest apart: {farthest:.1e} of a loss")


if __name__ == "__main__":
    main()
