#!/usr/bin/env python3
"""Fits forecasting models to an ETT file as their papers did and prints test MSE and MAE beside the published ones.

  tools/bench/ett_table.py ETTh1.csv --ingot build/bin/ingot --models dlinear,nlinear --horizons 96,192,336,720

Every number comes from `ingot forecast fit` with the model's defaults and its seed, and `ingot forecast evaluate` over
all test windows. Results are kept in --output (JSON), so a run that is cut off goes on where it was.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

# MSE, MAE: Zeng et al. 2023 (DLinear, NLinear: look-back 336), Nie et al. 2023 (PatchTST/42: look-back 336),
# Liu et al. 2024 (iTransformer: look-back 96).
PUBLISHED = {
    "ETTh1": {
        "dlinear": {96: (.375, .399), 192: (.405, .416), 336: (.439, .443), 720: (.472, .490)},
        "nlinear": {96: (.374, .394), 192: (.408, .415), 336: (.429, .427), 720: (.440, .453)},
        "patchtst": {96: (.375, .399), 192: (.414, .421), 336: (.431, .436), 720: (.449, .466)},
        "itransformer": {96: (.386, .405), 192: (.441, .436), 336: (.487, .458), 720: (.503, .491)},
    },
    "ETTh2": {
        "dlinear": {96: (.289, .353), 192: (.383, .418), 336: (.448, .465), 720: (.605, .551)},
        "nlinear": {96: (.277, .338), 192: (.344, .381), 336: (.357, .400), 720: (.394, .436)},
        "patchtst": {96: (.274, .336), 192: (.339, .379), 336: (.331, .380), 720: (.379, .422)},
        "itransformer": {96: (.297, .349), 192: (.380, .400), 336: (.428, .432), 720: (.427, .445)},
    },
}


def run(ingot, *words):
    done = subprocess.run([ingot, "forecast", *words, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def cell(ingot, data, model, horizon, folder, more):
    directory = folder / f"{model}-{horizon}"
    start = time.time()
    options = [word for setting in more for word in ("--set", setting)]
    fitted = run(ingot, "fit", data, "--model", model, "--horizon", str(horizon), "--split", "ett", "-o", str(directory),
                 *options)
    seconds = time.time() - start
    ours = run(ingot, "evaluate", str(directory), data)["methods"][0]
    return {"mse": ours["mse"], "mae": ours["mae"], "coverage": ours["coverage"], "seconds": seconds,
            "epochs": len(fitted["epochs"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--ingot", default="build/bin/ingot")
    parser.add_argument("--models", default="dlinear,nlinear,itransformer,patchtst")
    parser.add_argument("--horizons", default="96,192,336,720")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("ett-table"))
    parser.add_argument("--set", action="append", default=[], help="key=value for every fit")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    file = args.output / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    published = PUBLISHED.get(pathlib.Path(args.data).stem, {})
    print(f"{'':<14}{'H':>5}{'MSE':>9}{'MAE':>9}   {'published':<15}{'ratio':>7}{'in 90 %':>9}{'epochs':>8}{'s':>8}")
    for model in args.models.split(","):
        for horizon in map(int, args.horizons.split(",")):
            key = f"{model}-{horizon}"
            if key not in results:
                results[key] = cell(args.ingot, args.data, model, horizon, args.output, args.set)
                file.write_text(json.dumps(results, indent=2))
            r = results[key]
            mse, mae = published.get(model, {}).get(horizon, (float("nan"),) * 2)
            print(f"{model:<14}{horizon:>5}{r['mse']:>9.4f}{r['mae']:>9.4f}   {mse:.3f} / {mae:.3f}  {r['mse'] / mse:>7.3f}"
                  f"{r['coverage']['90']:>8.1f}%{r['epochs']:>8}{r['seconds']:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
