#!/usr/bin/env python3
"""Fits forecasting models to an ETT file as their papers did and prints test MSE and MAE beside the published ones.

  tools/bench/ett_table.py ETTh1.csv                                     # the whole table
  tools/bench/ett_table.py ETTh1.csv --models dlinear --seeds 2021,2022,2023 --horizons 336,720

Every number comes from `ingot forecast fit` with the model's defaults, which are those of ETTh1, and what the published
scripts change for another file (SETTINGS), and from `ingot forecast evaluate` over all test windows. Results are kept in
--output (JSON), and fits save themselves there, so a run that is cut off goes on where it was.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

# MSE, MAE: Zeng et al. 2023 (DLinear, NLinear: look-back 336), Nie et al. 2023 (PatchTST/42: look-back 336),
# Liu et al. 2024 (iTransformer: look-back 96), Wu et al. 2023 (TimesNet: look-back 96), and for Autoformer and FEDformer
# (Fourier) Zeng et al. 2023, who repeat Zhou et al. 2022 (look-back 96).
PUBLISHED = {
    "ETTh1": {
        "dlinear": {96: (.375, .399), 192: (.405, .416), 336: (.439, .443), 720: (.472, .490)},
        "nlinear": {96: (.374, .394), 192: (.408, .415), 336: (.429, .427), 720: (.440, .453)},
        "patchtst": {96: (.375, .399), 192: (.414, .421), 336: (.431, .436), 720: (.449, .466)},
        "itransformer": {96: (.386, .405), 192: (.441, .436), 336: (.487, .458), 720: (.503, .491)},
        "timesnet": {96: (.384, .402), 192: (.436, .429), 336: (.491, .469), 720: (.521, .500)},
        "autoformer": {96: (.449, .459), 192: (.500, .482), 336: (.521, .496), 720: (.514, .512)},
        "fedformer": {96: (.376, .419), 192: (.420, .448), 336: (.459, .465), 720: (.506, .507)},
    },
    "ETTh2": {
        "dlinear": {96: (.289, .353), 192: (.383, .418), 336: (.448, .465), 720: (.605, .551)},
        "nlinear": {96: (.277, .338), 192: (.344, .381), 336: (.357, .400), 720: (.394, .436)},
        "patchtst": {96: (.274, .336), 192: (.339, .379), 336: (.331, .380), 720: (.379, .422)},
        "itransformer": {96: (.297, .349), 192: (.380, .400), 336: (.428, .432), 720: (.427, .445)},
        "timesnet": {96: (.340, .374), 192: (.402, .414), 336: (.452, .452), 720: (.462, .468)},
        "autoformer": {96: (.358, .397), 192: (.456, .452), 336: (.482, .486), 720: (.515, .511)},
        "fedformer": {96: (.346, .388), 192: (.429, .439), 336: (.496, .487), 720: (.463, .474)},
    },
}

# LTSF-Linear 0c11366, iTransformer c2426e6, Time-Series-Library 4e938a1; PatchTST, Autoformer and FEDformer change nothing.
SETTINGS = {
    "ETTh2": {
        "dlinear": ["learning_rate=0.05"],
        "nlinear": ["learning_rate=0.05"],
        "itransformer": ["d_model=128", "d_ff=128"],
        "timesnet": ["d_model=32"],
    },
}


def run(ingot, *words):
    done = subprocess.run([ingot, "forecast", *words, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def cell(ingot, data, model, horizon, seed, folder, more):
    directory = folder / (f"{model}-{horizon}" + (f"-{seed}" if seed else ""))
    options = [word for setting in more + ([f"seed={seed}"] if seed else []) for word in ("--set", setting)]
    fitted = run(ingot, "fit", data, "--model", model, "--horizon", str(horizon), "--split", "ett", "--resume", "--overwrite",
                 "-o", str(directory), *options)
    seconds = sum(epoch["seconds"] for epoch in fitted["epochs"])
    ours = run(ingot, "evaluate", str(directory), data)["methods"][0]
    return {"mse": ours["mse"], "mae": ours["mae"], "coverage": ours["coverage"], "seconds": seconds,
            "epochs": len(fitted["epochs"]), "settings": more}


def line(model, horizon, cells, published):
    mean = lambda key: statistics.fmean(key(c) for c in cells)
    mse, mae = mean(lambda c: c["mse"]), mean(lambda c: c["mae"])
    low, high = min(c["mse"] for c in cells), max(c["mse"] for c in cells)
    wanted_mse, wanted_mae = published.get(model, {}).get(horizon, (float("nan"),) * 2)
    return (f"| {model} | {horizon} | {len(cells)} | {mse:.4f} | {low:.4f} to {high:.4f} | {mae:.4f} | {wanted_mse:.3f} / {wanted_mae:.3f} "
            f"| {mse / wanted_mse:.3f} | {mean(lambda c: c['coverage']['90']):.1f} % | {mean(lambda c: c['epochs']):.0f} "
            f"| {mean(lambda c: c['seconds']):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--ingot", default="build/bin/ingot")
    parser.add_argument("--models", default=",".join(PUBLISHED["ETTh1"]))
    parser.add_argument("--horizons", default="96,192,336,720")
    parser.add_argument("--seeds", default="", help="comma-separated, rows are means over them; else the model's own")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("ett-table"),
                        help="results.json and the models; what is there is not run again")
    parser.add_argument("--set", action="append", default=[], help="key=value for every fit, over those of the scripts")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    file = args.output / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    stem = pathlib.Path(args.data).stem
    published = PUBLISHED.get(stem, {})
    print("| model | horizon | seeds | MSE | from, to | MAE | published MSE / MAE | MSE over published | in 90 % | epochs | s |\n"
          + "|---" * 11 + "|")
    for model in args.models.split(","):
        settings = SETTINGS.get(stem, {}).get(model, []) + args.set
        for horizon in map(int, args.horizons.split(",")):
            cells = []
            for seed in args.seeds.split(","):
                key = f"{model}-{horizon}" + (f"-{seed}" if seed else "")
                if results.get(key, {}).get("settings") != settings:
                    results[key] = cell(args.ingot, args.data, model, horizon, seed, args.output, settings)
                    whole = file.with_suffix(".new")
                    whole.write_text(json.dumps(results, indent=2))
                    whole.replace(file)  # killed at any time, it goes on where it was
                cells.append(results[key])
            print(line(model, horizon, cells, published), flush=True)


if __name__ == "__main__":
    main()
