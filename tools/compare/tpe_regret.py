#!/usr/bin/env python3
"""Compares Ingot's TPE with Optuna's: median regret over 50 seeds at equal trials, and the time of a suggestion.

Needs `pip install optuna==5.0.0` and a build with -DINGOT_BENCH=ON:
    tools/compare/tpe_regret.py build/bench/tune_regret [--trials 100] [--seeds 50] [--jobs 2] [--speed]
The functions stand in bench/tune_regret.cpp and, a second time, here.
"""
import argparse
import json
import math
import multiprocessing
import statistics
import subprocess
import time

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)

ALPHA = [1.0, 1.2, 3.0, 3.2]
A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
P = [[0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886], [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
     [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650], [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381]]


def branin(trial):
    x, y = trial.suggest_float("x0", -5, 10), trial.suggest_float("x1", 0, 15)
    a = y - 5.1 / (4 * math.pi ** 2) * x * x + 5 / math.pi * x - 6
    return a * a + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def hartmann6(trial):
    x = [trial.suggest_float(f"x{i}", 0, 1) for i in range(6)]
    return -sum(alpha * math.exp(-sum(a * (v - p) ** 2 for a, v, p in zip(row, x, point)))
                for alpha, row, point in zip(ALPHA, A, P))


def rosenbrock(trial):
    x = [trial.suggest_float(f"x{i}", -5, 10) for i in range(4)]
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def mixed(trial):
    rate = math.log10(trial.suggest_float("rate", 1e-6, 1, log=True)) + 3
    layers = trial.suggest_int("layers", 1, 12)
    dropout = trial.suggest_float("dropout", 0, 0.9)
    activation = {"a": 0.3, "b": 0.0, "c": 0.6, "d": 0.15}[trial.suggest_categorical("activation", list("abcd"))]
    optimizer = trial.suggest_categorical("optimizer", list("pqr"))
    rate += 1 if optimizer == "r" else 0
    return (rate ** 2 + 0.05 * (layers - 6) ** 2 + 4 * (dropout - 0.2) ** 2 + activation
            + {"p": 0.4, "q": 0.0, "r": 0.2}[optimizer])


FUNCTIONS = {"branin": (branin, 0.397887357729739), "hartmann6": (hartmann6, -3.32236801141551),
             "rosenbrock": (rosenbrock, 0.0), "mixed": (mixed, 0.0)}


def optuna_regret(task):
    name, multivariate, trials, seed = task
    function, optimum = FUNCTIONS[name]
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=multivariate))
    study.optimize(function, n_trials=trials)
    return study.best_value - optimum


def optuna_speed(name, trials):
    """Milliseconds per suggestion (ask and every suggest_*), the median of the last 20 of a study."""
    function, _ = FUNCTIONS[name]
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(function, n_trials=trials - 20)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        trial = study.ask()
        value = function(trial)
        times.append(1e3 * (time.perf_counter() - start))
        study.tell(trial, value)
    return statistics.median(times)


def ingot(binary, name, sampler, trials, seeds):
    done = subprocess.run([binary, name, sampler, str(trials), str(seeds)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2, help="processes that run Optuna")
    parser.add_argument("--multivariate-only", action="store_true", help="leave out the univariate samplers")
    parser.add_argument("--speed", action="store_true", help="time suggestions at 1,000 trials instead")
    args = parser.parse_args()
    if args.speed:
        for name in FUNCTIONS:
            ours = ingot(args.binary, name, "tpe", 1000, 1)["suggest_ms"]
            print(f"{name:12s} ingot {ours:7.3f} ms   optuna {optuna_speed(name, 1000):7.3f} ms", flush=True)
        return
    for name in FUNCTIONS:
        for multivariate in (True,) if args.multivariate_only else (True, False):
            with multiprocessing.Pool(args.jobs) as pool:
                peer = pool.map(optuna_regret, [(name, multivariate, args.trials, s) for s in range(args.seeds)])
            sampler = "tpe" if multivariate else "tpe-univariate"
            ours = ingot(args.binary, name, sampler, args.trials, args.seeds)["regrets"]
            random = ingot(args.binary, name, "random", args.trials, args.seeds)["regrets"]
            print(f"{name:12s} {sampler:15s} ingot {statistics.median(ours):.4g}  optuna {statistics.median(peer):.4g}"
                  f"  random {statistics.median(random):.4g}", flush=True)


if __name__ == "__main__":
    main()
