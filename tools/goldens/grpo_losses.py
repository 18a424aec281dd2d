#!/usr/bin/env python3
"""Makes tests/train/language/grpo_goldens.json: losses of trl's GRPOTrainer and their gradients with respect to the
log-probabilities, and advantages computed as its _generate_and_score_completions does, with trl's nanstd.

The trainer is made without its __init__ and is given log-probabilities in place of a model.

Run from the repository's root, with tools/goldens/requirements.txt installed:
    python3 tools/goldens/grpo_losses.py
"""
import collections
import json
import pathlib
import types

import torch
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import nanstd

OUT = pathlib.Path("tests/train/language/grpo_goldens.json")
ROWS, LONGEST, MOST = 4, 5, 7
torch.manual_seed(3)
LOG_PROBS = -torch.rand(ROWS, LONGEST) * 3
OLD = LOG_PROBS + torch.randn(ROWS, LONGEST) * 0.3
REFERENCE = LOG_PROBS + torch.randn(ROWS, LONGEST) * 0.5
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]])
ADVANTAGES = torch.tensor([1.2, -0.7, 0.4, -0.9])


class Accelerator:
    num_processes, device = 1, torch.device("cpu")

    def gather(self, x):
        return x

    gather_for_metrics = gather

    def reduce(self, x, reduction):
        return x


def loss_of(loss_type, beta, old, high):
    logps = LOG_PROBS.clone().requires_grad_()
    trainer = object.__new__(GRPOTrainer)
    trainer.model, trainer.accelerator = torch.nn.Linear(1, 1).train(), Accelerator()
    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (logps, torch.zeros_like(logps), None)
    trainer.args = types.SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=2)
    trainer.loss_type, trainer.beta, trainer.epsilon_low, trainer.epsilon_high = loss_type, beta, 0.2, high
    trainer.importance_sampling_level, trainer.top_entropy_quantile = "token", 1.0
    trainer.off_policy_mask_threshold, trainer.use_vllm, trainer.aux_loss_enabled = None, False, False
    trainer._entropy_bonus_enabled, trainer.max_completion_length = False, MOST
    trainer.current_gradient_accumulation_steps = 2
    trainer._metrics = {"train": collections.defaultdict(list)}
    inputs = {"prompt_ids": torch.zeros(ROWS, 1, dtype=torch.long), "prompt_mask": torch.ones(ROWS, 1, dtype=torch.long),
              "completion_ids": torch.zeros(ROWS, LONGEST, dtype=torch.long), "completion_mask": MASK,
              "advantages": ADVANTAGES, "num_items_in_batch": torch.tensor(23.0)}
    if old:
        inputs["old_per_token_logps"] = OLD
    if beta:
        inputs["ref_per_token_logps"] = REFERENCE
    loss = trainer._compute_loss(trainer.model, inputs)
    loss.backward()
    metrics = trainer._metrics["train"]
    return {"type": loss_type, "beta": beta, "old": old, "epsilon_high": high, "loss": number(loss.detach()),
            "kl": number(metrics["kl"][-1]) if beta else 0, "clipped": number(metrics["clip_ratio/region_mean"][-1]),
            "grad": numbers(logps.grad)}


def advantages_of(rewards, weights, scale, later, group):
    rewards, weights = torch.tensor(rewards, dtype=torch.float64).T, torch.tensor(weights, dtype=torch.float64)
    if later:
        grouped = rewards.view(-1, group, len(weights))
        each = (grouped - grouped.mean(1, keepdim=True)) / (nanstd(grouped, dim=1, keepdim=True) + 1e-4)
        sums = (each.view(-1, len(weights)) * weights).sum(1)
        return (sums - sums.mean()) / (nanstd(sums) + 1e-4)
    sums = (rewards * weights).sum(1)
    grouped = sums.view(-1, group)
    std = nanstd(sums).expand_as(sums) if scale == "batch" else nanstd(grouped, dim=1).repeat_interleave(group)
    result = sums - grouped.mean(1).repeat_interleave(group)
    return result / (std + 1e-4) if scale != "none" else result


def number(x):
    return float(f"{float(x):.8g}")


def numbers(x):
    return [number(v) for v in x.flatten()]


def main():
    losses = [loss_of(kind, beta, old, high) for kind in ("grpo", "bnpo", "dr_grpo", "dapo")
              for beta, old, high in ((0.0, False, 0.2), (0.04, True, 0.2), (0.3, True, 0.28))]
    rewards, weights = [[1, 0, 0, 1, 1, 1], [0.5, 2, -1, 3, 3, 3]], [1.0, 0.5]
    advantages = [{"scale": scale, "later": later, "values": numbers(advantages_of(rewards, weights, scale, later, 3))}
                  for scale, later in (("group", False), ("batch", False), ("none", False), ("group", True))]
    data = {"most": MOST, "step_tokens": 23, "log_probs": numbers(LOG_PROBS), "old": numbers(OLD),
            "reference": numbers(REFERENCE), "mask": numbers(MASK), "advantages": numbers(ADVANTAGES), "losses": losses,
            "rewards": rewards, "weights": weights, "of_rewards": advantages}
    OUT.write_text(json.dumps(data, separators=(",", ":")) + "\n")
    print(len(losses), [case["loss"] for case in losses])


main()
