#!/usr/bin/env python3
"""Writes tests/optim/goldens/*.json: parameters after each of 20 steps of PyTorch's optimizers on fixed gradients,
and the learning rates of PyTorch's and transformers' schedules.

Run with the versions in requirements.txt:  tools/goldens/optim_goldens.py
"""
import json
import pathlib

import torch
import transformers
from torch.optim import lr_scheduler as lrs

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "optim" / "goldens"
STEPS = 20
SHAPES = {"weight": (3, 5), "bias": (3,)}  # the bias does not decay

class Muon:
    """torch.optim.Muon for matrices, AdamW for the rest; its iteration in f32, as ours, in place of bf16."""

    def __init__(self, groups, lr, weight_decay=0.1, **options):
        matrices = [p for group in groups for p in group["params"] if p.ndim == 2]
        others = [p for group in groups for p in group["params"] if p.ndim != 2]
        self.muon = torch.optim.Muon(matrices, lr=lr, weight_decay=weight_decay, **options)
        self.adamw = torch.optim.AdamW(others, lr=lr, weight_decay=0.0)

    def step(self):
        half, torch.bfloat16 = torch.bfloat16, torch.float32
        self.muon.step()
        torch.bfloat16 = half
        self.adamw.step()


class NorMuon:
    """NorMuon as Li et al. (2025) define it, with Muon's iteration in f32; AdamW for the rest."""

    def __init__(self, groups, lr, weight_decay=0.1, momentum=0.95, beta2=0.95):
        self.matrices = [p for group in groups for p in group["params"] if p.ndim == 2]
        self.lr, self.decay, self.momentum, self.beta2 = lr, weight_decay, momentum, beta2
        self.first = [torch.zeros_like(p) for p in self.matrices]
        self.second = [torch.zeros(len(p), 1) for p in self.matrices]
        self.adamw = torch.optim.AdamW([p for g in groups for p in g["params"] if p.ndim != 2], lr=lr, weight_decay=0.0)

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.matrices, self.first, self.second):
            m.copy_(self.momentum * m + (1 - self.momentum) * p.grad)
            o = orthogonal((1 - self.momentum) * p.grad + self.momentum * m)
            v.copy_(self.beta2 * v + (1 - self.beta2) * (o**2).mean(dim=1, keepdim=True))
            even = o / (v.sqrt() + 1e-10)
            even = even * o.norm() / (even.norm() + 1e-10)
            p.mul_(1 - self.lr * self.decay)
            p.sub_(self.lr * max(1, p.shape[0] / p.shape[1]) ** 0.5 * even)
        self.adamw.step()


def orthogonal(x):
    wide = x.T if x.shape[0] > x.shape[1] else x
    wide = wide / wide.norm().clamp_min(1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        wide = 3.4445 * wide + (-4.7750 * gram + 2.0315 * gram @ gram) @ wide
    return wide.T if x.shape[0] > x.shape[1] else wide


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd_decay": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.05}),
    "sgd_momentum": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd_dampening": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.8, "dampening": 0.3}),
    "sgd_nesterov": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "adam_decay": (torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.1}),
    "muon": (Muon, {"lr": 0.02}),
    "muon_plain": (Muon, {"lr": 0.02, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0}),
    "muon_matched": (Muon, {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw"}),
    "normuon": (NorMuon, {"lr": 0.02}),
    "normuon_fast": (NorMuon, {"lr": 0.02, "momentum": 0.9, "beta2": 0.5, "weight_decay": 0.0}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "adamw_llm": (torch.optim.AdamW, {"lr": 0.003, "betas": (0.9, 0.95), "weight_decay": 0.1}),
}


def flat(tensor):
    return [float(f"{x:.9g}") for x in tensor.detach().flatten().tolist()]


def steps(name, kind, options, gradients, start, max_norm=None):
    params = {key: torch.nn.Parameter(value.clone()) for key, value in start.items()}
    groups = [{"params": [params["weight"]]}, {"params": [params["bias"]], "weight_decay": 0.0}]
    optimizer = kind(groups, **options)
    after, norms = [], []
    for step in range(STEPS):
        for key, parameter in params.items():
            parameter.grad = gradients[step][key].clone()
        if max_norm is not None:
            norms.append(torch.nn.utils.clip_grad_norm_(params.values(), max_norm))
        optimizer.step()
        after.append({key: flat(parameter) for key, parameter in params.items()})
    case = {"kind": kind.__name__, "options": options, "after": after}
    if max_norm is not None:
        case |= {"max_norm": max_norm, "norms": flat(torch.stack(norms))}
    return case


def optimizer_goldens():
    generator = torch.Generator().manual_seed(7)
    draw = lambda: {k: torch.randn(s, generator=generator) for k, s in SHAPES.items()}
    start = draw()
    gradients = [draw() for _ in range(STEPS)]
    cases = {n: steps(n, kind, options, gradients, start) for n, (kind, options) in OPTIMIZERS.items()}
    kind, options = OPTIMIZERS["adamw_llm"]
    cases["adamw_clipped"] = steps("adamw_clipped", kind, options, gradients, start, max_norm=3.5)
    return {
        "start": {k: flat(v) for k, v in start.items()},
        "gradients": [{k: flat(v) for k, v in g.items()} for g in gradients],
        "cases": cases,
    }


def rates(make, count=60):
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = make(optimizer)
    result = []
    for _ in range(count):
        result.append(float(f"{scheduler.get_last_lr()[0]:.12g}"))
        optimizer.step()
        scheduler.step()
    return result


def schedule_goldens():
    t = transformers
    noam = lambda s: 64**-0.5 * min((s + 1) ** -0.5, (s + 1) * 10**-1.5)
    wsd = dict(num_warmup_steps=10, num_decay_steps=15, num_training_steps=50)
    # The libraries' cosines rise again after their end, ours stay: 51 steps of those.
    return {
        "constant": rates(lambda o: t.get_constant_schedule_with_warmup(o, 10)),
        "linear": rates(lambda o: t.get_linear_schedule_with_warmup(o, 10, 50)),
        "cosine": rates(lambda o: t.get_cosine_schedule_with_warmup(o, 10, 50), 51),
        "cosine_min": rates(lambda o: t.get_cosine_with_min_lr_schedule_with_warmup(o, 10, 50, min_lr_rate=0.1), 51),
        "cosine_restarts": rates(
            lambda o: t.get_cosine_with_hard_restarts_schedule_with_warmup(o, 10, 50, num_cycles=3)
        ),
        "polynomial": rates(
            lambda o: t.get_polynomial_decay_schedule_with_warmup(o, 10, 50, lr_end=0.2, power=2.0)
        ),
        "inverse_sqrt": rates(lambda o: t.get_inverse_sqrt_schedule(o, 10)),
        "inverse_sqrt_slow": rates(lambda o: t.get_inverse_sqrt_schedule(o, 10, timescale=30)),
        "wsd_cosine": rates(lambda o: t.get_wsd_schedule(o, **wsd)),
        "wsd_linear": rates(lambda o: t.get_wsd_schedule(o, **wsd, decay_type="linear")),
        "wsd": rates(lambda o: t.get_wsd_schedule(o, **wsd, min_lr_ratio=0.1, decay_type="1-sqrt")),
        "wsd_to_zero": rates(lambda o: t.get_wsd_schedule(o, **wsd, decay_type="1-sqrt")),
        "annealing": rates(lambda o: lrs.CosineAnnealingLR(o, 40, eta_min=0.05), 41),
        "exponential": rates(lambda o: lrs.ExponentialLR(o, 0.9)),
        "step": rates(lambda o: lrs.StepLR(o, 7, 0.5)),
        "linear_lr": rates(lambda o: lrs.LinearLR(o, 0.25, 1.0, 10)),
        "noam": rates(lambda o: lrs.LambdaLR(o, noam)),
        "sequence": rates(
            lambda o: lrs.SequentialLR(
                o, [lrs.LinearLR(o, 0.2, 1.0, 5), lrs.StepLR(o, 10, 0.5), lrs.ExponentialLR(o, 0.9)], [5, 30]
            )
        ),
        "product": rates(lambda o: lrs.ChainedScheduler([lrs.LinearLR(o, 0.25, 1.0, 10), lrs.ExponentialLR(o, 0.95)])),
    }


def write(name, made_with, golden):
    golden = {"made_with": made_with} | golden
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / name).write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write("optimizers.json", f"torch {torch.__version__}", optimizer_goldens())
    write("schedules.json", f"torch {torch.__version__}, transformers {transformers.__version__}", schedule_goldens())
