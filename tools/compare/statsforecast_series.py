#!/usr/bin/env python3
"""Sets ETS and ARIMA beside statsforecast on random series as the M3 competition has them.

    python3 tools/compare/statsforecast_series.py [--count 100] [--ingot build/bin/ingot]

Each series keeps its last rows from both. Prints, for each model, how many forecasts are within 2 % of each other and the mean
sMAPE and MASE of both. Needs `pip install statsforecast==2.1.1 pandas`; some seconds a series.
"""
import argparse
import pathlib
import subprocess
import tempfile
import warnings

import numpy as np
import pandas as pd
from statsforecast.models import AutoARIMA, AutoETS

KINDS = {"Y": (1, 6, "YS"), "Q": (4, 8, "QS"), "M": (12, 18, "MS"), "O": (1, 8, "D")}
LENGTHS = {"Y": (20, 48), "Q": (24, 73), "M": (66, 145), "O": (71, 105)}


def draw(seed):
    """One series: a line, a walk, correlated noise, a drifting level or growth; some with a season or a break."""
    rng = np.random.default_rng(1000 + seed)
    kind = str(rng.choice(list(KINDS), p=[0.23, 0.27, 0.42, 0.08]))
    season = KINDS[kind][0]
    n = int(rng.integers(*LENGTHS[kind]))
    level = float(np.exp(rng.uniform(np.log(500), np.log(9000))))
    t, noise = np.arange(n), level * rng.choice([0.01, 0.03, 0.06, 0.12])
    e = rng.standard_normal(n) * noise
    correlated = np.zeros(n)
    for k in range(2, n):
        correlated[k] = 1.1 * correlated[k - 1] - 0.3 * correlated[k - 2] + e[k]
    y = [
        level + level * rng.uniform(-0.002, 0.01) * t + e,
        level + np.cumsum(rng.uniform(-0.1, 0.5) * noise + 0.7 * e),
        level + level * rng.uniform(-0.002, 0.006) * t + correlated,
        level + np.cumsum(0.4 * e) + 0.6 * e + 0.5 * np.roll(e, 1),
        level * np.exp(rng.uniform(-0.002, 0.012) * t) * (1 + e / level),
    ][rng.integers(5)]
    if rng.random() < 0.15:
        y[n // 2:] += level * rng.uniform(-0.25, 0.25)
    if season > 1 and rng.random() < 0.75:
        pattern = rng.standard_normal(season) * rng.choice([0.03, 0.08, 0.2])
        pattern = np.clip(pattern - pattern.mean(), -0.7, None)[t % season]
        y = y * (1 + pattern) if rng.random() < 0.6 else y + level * pattern
    return kind, np.round(np.maximum(y, 0.05 * level), 2)


def ours(ingot, series, kind, model, folder):
    """The forecasts of all series of one kind, by their numbers."""
    season, horizon, frequency = KINDS[kind]
    rows = [pd.DataFrame({"unique_id": i, "ds": pd.date_range("1950-01-01", periods=len(y), freq=frequency), "y": y})
            for i, y in series.items()]
    table, fitted, output = folder / "table.csv", folder / f"{kind}-{model}", folder / "forecast.csv"
    pd.concat(rows).to_csv(table, index=False)
    run = [ingot, "forecast"]
    subprocess.run([*run, "fit", table, "--model", model, "--season", str(season), "--horizon", str(horizon), "-o", fitted],
                   check=True, capture_output=True)
    subprocess.run([*run, "predict", fitted, table, "-o", output], check=True, capture_output=True)
    found = pd.read_csv(output)
    return {i: found[found.unique_id == i].y.to_numpy() for i in series}


def errors(forecast, future, past, season):
    off = np.abs(forecast - future)
    return 200 * np.mean(off / (np.abs(forecast) + np.abs(future))), np.mean(off) / np.mean(np.abs(past[season:] - past[:-season]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--ingot", default="build/bin/ingot")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    drawn = [draw(i) for i in range(options.count)]
    for name, peer in (("ets", AutoETS), ("arima", AutoARIMA)):
        near, all_errors = 0, []
        with tempfile.TemporaryDirectory() as folder:
            for kind, (season, horizon, _) in KINDS.items():
                past = {i: y[:-horizon] for i, (k, y) in enumerate(drawn) if k == kind}
                if not past:
                    continue
                own = ours(options.ingot, past, kind, name, pathlib.Path(folder))
                for i, y in past.items():
                    theirs = peer(season_length=season).forecast(y=y, h=horizon)["mean"]
                    near += np.abs(own[i] - theirs).sum() < 0.02 * np.abs(theirs).sum()
                    all_errors.append((*errors(own[i], drawn[i][1][-horizon:], y, season),
                                       *errors(theirs, drawn[i][1][-horizon:], y, season)))
        mean = np.mean(all_errors, axis=0)
        print(f"{name}: {near} of {len(all_errors)} within 2 %; sMAPE {mean[0]:.3f}, statsforecast {mean[2]:.3f}; "
              f"MASE {mean[1]:.4f}, statsforecast {mean[3]:.4f}")


main()
