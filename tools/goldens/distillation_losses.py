#!/usr/bin/env python3
"""Makes tests/train/language/distillation_goldens.json: the divergences of trl's GKDTrainer between a model and its
teacher, and of a model from its teacher's top-k tokens, written out; with gradients with respect to the model's logits.

Run from the repository's root, with tools/goldens/requirements.txt installed:
    python3 tools/goldens/distillation_losses.py
"""
import json
import pathlib

import torch
from trl.experimental.gkd import GKDTrainer

OUT = pathlib.Path("tests/train/language/distillation_goldens.json")
TOKENS, CLASSES, TOP_K = 4, 9, 3
torch.manual_seed(11)
MODEL, TEACHER = torch.randn(TOKENS, CLASSES) * 2, torch.randn(TOKENS, CLASSES) * 2


def with_gradient(loss_of):
    logits = MODEL.clone().requires_grad_()
    loss = loss_of(logits)
    loss.backward()
    return {"loss": number(loss.detach()), "grad": numbers(logits.grad)}


def whole(beta, temperature):
    loss = lambda x: GKDTrainer.generalized_jsd_loss(x, TEACHER, beta=beta, temperature=temperature, reduction="sum")
    return {"beta": beta, "temperature": temperature} | with_gradient(loss)


def top_k(temperature):
    log_probs, indices = TEACHER.log_softmax(-1).topk(TOP_K)

    def loss(x):
        teacher = (log_probs / temperature).log_softmax(-1)
        model = (x / temperature).log_softmax(-1).gather(1, indices)
        return (teacher.exp() * (teacher - model)).sum()

    return {"temperature": temperature, "indices": indices.flatten().tolist(), "log_probs": numbers(log_probs),
            **with_gradient(loss)}


def number(x):
    return float(f"{float(x):.8g}")


def numbers(x):
    return [number(v) for v in x.flatten()]


def main():
    data = {"tokens": TOKENS, "classes": CLASSES, "top_k": TOP_K, "model": numbers(MODEL), "teacher": numbers(TEACHER),
            "divergences": [whole(beta, t) for beta in (0.0, 0.3, 0.5, 1.0) for t in (1.0, 2.5)],
            "of_top_k": [top_k(t) for t in (1.0, 2.5)]}
    OUT.write_text(json.dumps(data, separators=(",", ":")) + "\n")


main()
