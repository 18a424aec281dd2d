#!/usr/bin/env python3
"""Writes tests/forecast/goldens/statistical.json: series and what statsforecast says of the rows after them.

Needs `pip install statsforecast==2.1.1`.  Run:  tools/goldens/statistical_goldens.py
"""
import json
import pathlib

import numpy as np
from statsforecast.models import TSB, AutoARIMA, AutoETS, CrostonClassic, CrostonSBA, Naive, SeasonalNaive, Theta
from statsforecast.utils import AirPassengers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "forecast" / "goldens"


def wave(n, m, seed, level, slope, season, noise, multiply=False):
    """Rows as the M3 competition has them: a line, a season and noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    pattern = np.sin(2 * np.pi * t / m) + 0.4 * np.cos(4 * np.pi * t / m)
    base = level + slope * t
    y = base * (1 + season * pattern) if multiply else base + season * pattern
    return y * (1 + noise * rng.standard_normal(n)) if multiply else y + noise * rng.standard_normal(n)


def walk(n, seed, level, drift, noise):
    return level + np.cumsum(drift + noise * np.random.default_rng(seed).standard_normal(n))


def demand(n, seed, probability, size):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < probability, rng.poisson(size, n) + 1, 0).astype(float)


SERIES = {
    "airline": (np.asarray(AirPassengers, dtype=float), 12, 12),
    "monthly": (wave(96, 12, 1, 5000, 20, 600, 150), 12, 18),
    "monthly_multiplicative": (wave(120, 12, 2, 3000, 30, 0.2, 0.03, multiply=True), 12, 18),
    "quarterly": (wave(48, 4, 3, 800, 6, 60, 20), 4, 8),
    "quarterly_walk": (walk(60, 4, 2000, 15, 40), 4, 8),
    "yearly": (walk(30, 5, 400, 12, 20), 1, 6),
    "flat": (np.random.default_rng(6).normal(100, 8, 80), 1, 6),
    "daily": (wave(140, 7, 7, 200, 0.1, 25, 10), 7, 14),
}
SPARSE = {"sparse": (demand(80, 8, 0.25, 4), 1, 4), "rare": (demand(120, 9, 0.08, 12), 1, 4)}

# Drawn at random. The stepwise search finds the walk without a drift the best, and goes on with one; the
# slope of the other follows faster than its level. The most likely moving average of EDGE is -1; the first
# differences of SHORT are stationary only without the first of them, which statsforecast leaves out.
WALK = [
    3903.54, 4520.6, 4388.54, 4289.28, 4274.91, 4324.66, 4131.47, 3598.21, 4394.38, 4672.92, 3449.82, 3243.08,
    3881.03, 3692.2, 3166.39, 2663.6, 3247.69, 2757.47, 3011.86, 2531.74, 1930.74, 2447.84, 2738.89, 2608.47,
    2772.06, 2974.42, 2860.8, 3026.9, 3326.87, 3021.08,
]
SLOPE = [
    916.14, 988.78, 1084.47, 974.12, 922.82, 989.25, 1127.9, 1315.93, 954.66, 899.45, 798.0, 755.78, 1310.96,
    1270.74, 984.95, 971.84, 905.32, 761.73, 858.85, 1275.67, 1071.31, 1046.77, 977.94, 860.16, 1128.63, 1208.59,
    964.8, 978.78, 980.34, 978.23, 949.84, 1164.67, 1043.07, 1136.42, 887.35, 932.54, 1101.07, 1122.35, 1008.17,
    1026.11, 815.21, 891.84, 773.35, 965.98, 894.71, 805.78, 667.3, 554.22, 605.5, 373.62, 299.11,
]
EDGE = [
    2552.86, 2462.68, 2424.47, 2444.71, 2601.23, 2604.94, 2595.95, 2399.68, 2678.15, 2494.57, 2564.33, 2666.86,
    2683.44, 2567.36, 2559.31, 2555.08, 2630.41, 2672.5, 2671.93, 2424.14, 2665.58, 2486.87, 2576.21, 2671.28,
    2659.14, 2504.6, 2502.04, 2513.59, 2631.65, 2673.24, 2728.24, 2453.71, 2650.62, 2466.68, 2556.74, 2662.41,
    2621.92, 2498.26, 2517.77, 2536.23, 2670.16, 2453.78, 2449.61, 2226.95, 2456.82, 2304.21, 2339.96, 2411.63,
    2410.93, 2357.23, 2343.49, 2298.27, 2408.77, 2427.29, 2454.42, 2281.57, 2474.95, 2277.58, 2331.78, 2457.5,
    2469.86, 2313.84, 2326.95, 2323.18,
]
SHORT = [
    1874.33, 2194.27, 2327.87, 2611.27, 2605.8, 2718.43, 2443.15, 2119.83, 2047.91, 2070.83, 1954.12, 1942.2,
    1728.88, 1846.05, 1952.62, 1593.14, 1193.06,
]
FOUND = {"walk": (np.array(WALK), 1, 6, lambda m: {"arima": AutoARIMA(season_length=m)}),
         "slope": (np.array(SLOPE), 12, 18, lambda m: {"ets": AutoETS(season_length=m)}),
         "edge": (np.array(EDGE), 12, 18, lambda m: {"arima": AutoARIMA(season_length=m)}),
         "short": (np.array(SHORT), 1, 6, lambda m: {"arima": AutoARIMA(season_length=m)})}

# What people reported: unit8co/darts#3001, robjhyndman/forecast#291 and #26, tidyverts/fable#278,
# Nixtla/statsforecast#772; DataZooDE/anofox-forecast#172, statsmodels#8551 and PR 9137, whose multiplicative
# ETS exploded.
PUBLIC = {
    "darts_3001_nine_rows": ([3600, 7700, 12300, 30500, 47390, 57600, 67500, 79300, 95000], 3,
                             {"ets": AutoETS(season_length=1), "arima": AutoARIMA(season_length=1)}),
    "forecast_291_six_rows": ([-0.001730532, -0.035105068, -0.094437577, -0.149320148, -0.14684796, -0.129048208], 3,
                              {"arima": AutoARIMA(season_length=1)}),
    "forecast_26_one_sale": ([0, 0, 0, 0, 2, 0, 0], 3,
                             {"croston": CrostonClassic(), "sba": CrostonSBA(), "tsb": TSB(0.1, 0.1)}),
    "fable_278_no_zero": ([7, 7, 7, 6, 6], 3, {"croston": CrostonClassic(), "sba": CrostonSBA()}),
    "statsforecast_772_last_zero": ([3, 1, 4, 2, 5, 1, 2, 6, 0], 3, {"croston": CrostonClassic(), "sba": CrostonSBA()}),
}
EXPLODED = {
    "anofox_172_zeros": [0, 0, 5, 0, 0, 0, 12, 0, 0, 3, 0, 0, 0, 0, 8, 0, 0, 0, 15, 0, 0, 1, 0, 0, 0, 0, 6, 0, 0, 0, 10,
                         0, 0, 2, 0, 0, 0, 0],
    "statsmodels_8551": [52.0, 250.43, 261.01, 265.0, 56.77, 16.0, 50.09, 65.0, 21.0, 89.5, 20.0, 1.0, 123.0, 84.0,
                         91.0, 163.0, 16.0, 27.0, 78.5, 38.0, 61.0, 5.0, 82.0, 15.0],
    "statsmodels_9137": [214307.1, 331110.3, 324617.4, 230818.8, 275551.5, 232633.5, 281989.2, 245336.4, 296976.0,
                         207572.7, 252719.4, 210795.0, 142705.8, 146742.3, 261613.5, 276959.1, 365010.0, 48734.7,
                         308919.9, 319401.0, 150199.2, 103010.1, 109861.8, 89486.1, 393645.0, 421279.5, 347387.4,
                         269928.0, 171278.7, 158568.9, 280526.4, 195104.4, 230998.2, 226602.9, 267526.8, 258632.7],
}


def case(y, m, h, models):
    y = np.round(y, 9 if np.abs(y).max() < 1 else 3)
    out = {"season": m, "values": y.tolist(), "forecasts": {}}
    for name, model in models(m).items():
        result = model.forecast(y=y, h=h, level=[90] if name in ("arima", "ets", "theta", "seasonal_naive") else None)
        entry = {"mean": np.asarray(result["mean"], dtype=float).round(6).tolist()}
        if "hi-90" in result:
            entry["high"] = np.asarray(result["hi-90"], dtype=float).round(6).tolist()
        out["forecasts"][name] = entry
    return out


def usual(m):
    return {"arima": AutoARIMA(season_length=m), "ets": AutoETS(season_length=m), "theta": Theta(season_length=m),
            "naive": Naive(),
            "seasonal_naive": SeasonalNaive(season_length=m)}


def intermittent(_):
    return {"croston": CrostonClassic(), "sba": CrostonSBA(), "tsb": TSB(0.1, 0.1)}


cases = {name: case(*args, usual) for name, args in SERIES.items()}
cases.update({name: case(*args, intermittent) for name, args in SPARSE.items()})
cases.update({name: case(*args) for name, args in FOUND.items()})
cases.update({name: case(np.array(y, dtype=float), 1, h, lambda _, m=models: m) for name, (y, h, models) in PUBLIC.items()})
cases.update({name: case(np.array(y, dtype=float), 12, 12, lambda m: {"ets": AutoETS(season_length=m)})
              for name, y in EXPLODED.items()})
OUT.mkdir(parents=True, exist_ok=True)
(OUT / "statistical.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
