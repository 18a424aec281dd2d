#!/usr/bin/env python3
"""Writes tests/tune/goldens/parzen.json: kernels, weights and log densities of Optuna's Parzen estimators, and
logarithms of Gaussian masses.

Needs `pip install optuna==5.0.0`; its private modules are read.  Run:  tools/goldens/tpe_goldens.py
"""
import functools
import json
import pathlib

import numpy as np

np.argsort = functools.partial(np.argsort, kind="stable")  # else the order of equal values differs by processor

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers._tpe import _truncnorm
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator, _ParzenEstimatorParameters
from optuna.samplers._tpe.sampler import default_weights

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "tune" / "goldens"
SPACES = {
    "real": {"x": {"low": -5.0, "high": 10.0}},
    "log": {"rate": {"low": 1e-6, "high": 1.0, "log": True}},
    "stepped": {"x": {"low": 0.0, "high": 2.0, "step": 0.25}},
    "integer": {"n": {"type": "int", "low": 1, "high": 12}},
    "wide_integer": {"n": {"type": "int", "low": 1, "high": 5000}},
    "log_integer": {"n": {"type": "int", "low": 1, "high": 512, "log": True}},
    "choice": {"c": {"choices": ["a", "b", "c"]}},
    "mixed": {"x": {"low": 0.0, "high": 1.0}, "n": {"type": "int", "low": 2, "high": 9},
              "rate": {"low": 1e-4, "high": 0.1, "log": True}, "c": {"choices": ["a", "b", "c", "d"]}},
}


def distribution(p):
    if "choices" in p:
        return CategoricalDistribution(p["choices"])
    if p.get("type") == "int":
        return IntDistribution(p["low"], p["high"], log=p.get("log", False))
    return FloatDistribution(p["low"], p["high"], log=p.get("log", False), step=p.get("step"))


def draw(p, rng, n):
    if "choices" in p:
        return rng.integers(0, len(p["choices"]), n).astype(float)
    if p.get("log"):
        values = np.exp(rng.uniform(np.log(p["low"]), np.log(p["high"]), n))
    else:
        values = rng.uniform(p["low"], p["high"], n)
    step = 1 if p.get("type") == "int" else p.get("step")
    return values if step is None else p["low"] + step * np.round((values - p["low"]) / step)


def case(name, space, n, rng):
    observations = {key: draw(p, rng, n) for key, p in space.items()}
    points = {key: draw(p, rng, 6) for key, p in space.items()}
    parameters = _ParzenEstimatorParameters(1.0, True, False, default_weights, True)
    estimator = _ParzenEstimator(observations, {key: distribution(p) for key, p in space.items()}, parameters)
    mixture = estimator._mixture_distribution
    first = mixture.distributions[0]
    result = {"name": f"{name} {n}", "space": space, "names": list(space), "observations": [list(v) for v in observations.values()],
              "points": [list(v) for v in points.values()], "log_density": list(estimator.log_pdf(points)),
              "weights": list(mixture.weights)}
    if hasattr(first, "mu"):
        result.update(centres=list(first.mu), widths=list(first.sigma))
    return result


def main():
    rng = np.random.default_rng(7)
    cases = [case(name, space, n, rng) for name, space in SPACES.items() for n in (0, 1, 2, 7)]
    cases += [case("mixed", SPACES["mixed"], 40, rng)]
    ends = [(-1, 1), (-30, 40), (2, 3), (8, 9), (-9, -8.99), (12, 40), (0, 1e-3), (-40, -39), (-0.5, 7)]
    masses = [[a, b, float(_truncnorm._log_gauss_mass(np.array([float(a)]), np.array([float(b)]))[0])] for a, b in ends]
    OUT.mkdir(parents=True, exist_ok=True)
    number = lambda x: float(f"{x:.15g}")
    text = json.dumps({"cases": cases, "masses": masses}, default=number)
    (OUT / "parzen.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
