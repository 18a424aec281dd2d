#!/usr/bin/env python3
"""Times the original forecasting networks in PyTorch on the CPU: the baseline of bench/forecast_bench.

One window (no gradients) and one training step (forward, loss, backward, fused Adam), f32, with the sizes of the papers on
ETTh1, on tensors that are there already: no data loader, which the published code pays on top. Run it in the same
session as forecast_bench with the same threads:

  OMP_NUM_THREADS=2 tools/bench/forecast_torch.py --tslib Time-Series-Library --patchtst PatchTST/PatchTST_supervised \\
    --fedformer FEDformer
"""
import argparse
import math
import pathlib
import statistics
import sys
import time
import types

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "goldens"))
import forecast_models as goldens  # noqa: E402: knows how to import the reference implementations


def median_ms(work, seconds):
    for _ in range(3):
        work()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tslib", type=pathlib.Path, required=True)
    parser.add_argument("--patchtst", type=pathlib.Path, required=True)
    parser.add_argument("--fedformer", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", help="comma-separated; all of them by default")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    plain = lambda model, x, mark: model(x)
    decoder = dict(label_len=48, dec_in=7, output_attention=False, e_layers=2, d_layers=1, n_heads=8, d_model=512, d_ff=2048,
                   dropout=0.05)

    def decode(model, x, mark):
        marks = torch.cat([mark[:, 48:], mark], 1)  # of 48 steps of the look-back and the horizon
        return model(x, mark, torch.zeros(len(x), 48 + 96, 7), marks)

    cases = {
        "dlinear": (336, 32, plain, args.patchtst, "DLinear", {}),
        "nlinear": (336, 32, plain, args.patchtst, "NLinear", {}),
        "patchtst": (336, 128, plain, args.patchtst, "PatchTST",
                     dict(e_layers=3, n_heads=4, d_model=16, d_ff=128, dropout=0.3, fc_dropout=0.3, head_dropout=0.0,
                          patch_len=16, stride=8, padding_patch="end", revin=True, affine=False, subtract_last=False,
                          decomposition=False, kernel_size=25)),
        "itransformer": (96, 32, lambda m, x, mark: m(x, mark, None, None), args.tslib, "iTransformer",
                         dict(e_layers=2, n_heads=8, d_model=256, d_ff=256, dropout=0.1)),
        "timesnet": (96, 32, lambda m, x, mark: m(x, mark, None, None), args.tslib, "TimesNet",
                     dict(e_layers=2, d_model=16, d_ff=32, top_k=5, num_kernels=6, dropout=0.1)),
        "autoformer": (96, 32, decode, args.tslib, "Autoformer", dict(factor=3) | decoder),
        "fedformer": (96, 32, decode, args.fedformer, "FEDformer",
                      dict(version="Fourier", mode_select="random", modes=64, moving_avg=[24], cross_activation="tanh", L=3,
                           base="legendre") | decoder),
    }
    for name in args.models.split(",") if args.models else cases:
        lookback, batch, call, folder, module, settings = cases[name]
        settings = dict(seq_len=lookback, pred_len=96, enc_in=7, c_out=7, moving_avg=25) | settings
        model = goldens.original(folder, module, **settings)
        waves = torch.sin(torch.arange(lookback) * math.pi / 12)[:, None]  # daily: TimesNet looks for periods
        x, mark = waves + torch.randn(batch, lookback, 7) / 2, torch.rand(batch, lookback, 4) - 0.5
        target = torch.zeros(batch, 96, 7)
        model.eval()
        with torch.inference_mode():
            window = median_ms(lambda: call(model, x[:1], mark[:1]), args.seconds)
        model.train()
        fused = not any(p.is_complex() for p in model.parameters())  # FEDformer's are, which PyTorch does not fuse
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=fused)

        def step():
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.mse_loss(call(model, x, mark), target).backward()
            optimizer.step()

        print(f"{name:<14} one window {1e3 * window:8.1f} us   training step {median_ms(step, args.seconds):8.2f} ms", flush=True)


if __name__ == "__main__":
    main()
