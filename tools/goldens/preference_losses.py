#!/usr/bin/env python3
"""Makes tests/train/language/preference_goldens.json: losses, gradients and metrics of trl's trainers.

The model is the LoRA golden `llama` of lora_models.py: with its adapter on it is the policy, without the reference. Each
case is one batch through a trainer's own loss; `grads` holds the gradients of some adapter matrices, `norm` the norm of
all. The trainers are made without their __init__, which would want a tokenizer and a dataset.

Run from the repository's root, with tools/goldens/requirements.txt installed:
    python3 tools/goldens/preference_losses.py
"""
import collections
import json
import pathlib
import types

import peft
import torch
import transformers
from trl.experimental.cpo.cpo_trainer import CPOTrainer
from trl.experimental.orpo.orpo_trainer import ORPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference, DPOTrainer
from trl.trainer.kto_trainer import DataCollatorForUnpairedPreference, KTOTrainer
from trl.trainer.utils import add_fused_lm_head

BASES = pathlib.Path("tests/models/goldens")
OUT = pathlib.Path("tests/train/language/preference_goldens.json")
GRADS = ["model.layers.0.self_attn.q_proj.lora_A.default", "model.layers.1.mlp.down_proj.lora_B.default"]

PAIRS = [  # prompt, chosen, rejected
    ([5, 17, 3], [9, 22, 41, 0], [8, 30, 0]),
    ([44, 2], [13, 0], [12, 50, 33, 6, 0]),
    ([7, 19, 28, 36], [55, 1, 0], [60, 0]),
]
VERDICTS = [  # prompt, completion, label
    ([5, 17, 3], [9, 22, 41, 0], True),
    ([44, 2], [12, 50, 33, 6, 0], False),
    ([7, 19, 28, 36], [55, 1, 0], True),
]
FAR_VERDICTS = [  # the model has gone from the reference on the mismatched ones: kl > 0
    ([44, 2], [9, 22, 41, 0], False),
    ([7, 19, 28, 36], [12, 50, 33, 6, 0], True),
    ([5, 17, 3], [55, 1, 0], False),
]


class Accelerator:
    device = torch.device("cpu")

    def gather_for_metrics(self, x):
        return x

    gather = gather_for_metrics

    def unwrap_model(self, model):
        return model


def load():
    folder = BASES / "lora" / "llama"
    model = transformers.AutoModelForCausalLM.from_pretrained(BASES / "llama_bias_untied", attn_implementation="eager")
    return peft.PeftModel.from_pretrained(model.float(), folder, is_trainable=True).train()


def trainer_of(kind, model, **fields):
    trainer = object.__new__(kind)
    trainer.model, trainer.ref_model, trainer.accelerator = model, None, Accelerator()
    trainer.args = types.SimpleNamespace(gradient_checkpointing_kwargs=None, device=torch.device("cpu"))
    trainer.aux_loss_enabled = trainer.precompute_ref_logps = trainer.is_encoder_decoder = False
    trainer._metrics = {"train": collections.defaultdict(list), "eval": collections.defaultdict(list)}
    trainer._total_train_tokens, trainer._tp_size = 0, 1
    trainer.label_pad_token_id, trainer.padding_value, trainer.pad_token_id = -100, 0, 0
    for name, value in fields.items():
        setattr(trainer, name, value)
    return trainer


def of_dpo(model, loss, **fields):
    add_fused_lm_head(model.get_base_model(), outputs=["log_probs", "entropy", "mean_logits", "is_top1"])
    defaults = dict(ld_alpha=None, f_divergence_type="reverse_kl", beta=0.3, loss_types=[loss], loss_weights=[1.0],
                    label_smoothing=0.0, use_weighting=False)
    trainer = trainer_of(DPOTrainer, model, **{**defaults, **fields})
    rows = [{"prompt_ids": p, "chosen_ids": c, "rejected_ids": r} for p, c, r in PAIRS]
    loss = trainer._compute_loss(model, DataCollatorForPreference(pad_token_id=0)(rows), False)
    return loss, {name: values[-1] for name, values in trainer._metrics["train"].items()}


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def pair_batch():
    batch = {}
    for side, index in (("chosen", 1), ("rejected", 2)):
        ids = [row[0] + row[index] for row in PAIRS]
        batch[f"{side}_input_ids"] = padded(ids, 0)
        batch[f"{side}_attention_mask"] = padded([[1] * len(row) for row in ids], 0)
        batch[f"{side}_labels"] = padded([[-100] * len(row[0]) + row[index] for row in PAIRS], -100)
    return batch


def of_pairs(model, kind, **fields):
    trainer = trainer_of(kind, model, **fields)
    return trainer.get_batch_loss_metrics(model, pair_batch(), train_eval="train")


def of_kto(model, verdicts, **fields):
    add_fused_lm_head(model.get_base_model(), outputs=["log_probs", "entropy", "mean_logits"])
    trainer = trainer_of(KTOTrainer, model, beta=0.3, loss_type="kto", calculate_KL=True, **fields)
    rows = []
    for i, (prompt, completion, label) in enumerate(verdicts):
        rows.append({"prompt_ids": prompt, "completion_ids": completion, "label": label,
                     "KL_completion_ids": verdicts[i - 1][1]})
    loss = trainer._compute_loss(model, DataCollatorForUnpairedPreference(pad_token_id=0)(rows), False)
    return loss, {name: values[-1] for name, values in trainer._metrics["train"].items()}


CASES = {
    "dpo": lambda m: of_dpo(m, "sigmoid"),
    "dpo_hinge": lambda m: of_dpo(m, "hinge"),
    "dpo_robust": lambda m: of_dpo(m, "robust", label_smoothing=0.2),
    "ipo": lambda m: of_dpo(m, "ipo"),
    "orpo": lambda m: of_pairs(m, ORPOTrainer, beta=0.4),
    "simpo": lambda m: of_pairs(m, CPOTrainer, beta=0.7, loss_type="simpo", simpo_gamma=0.5, cpo_alpha=1.0, alpha=0.0,
                                label_smoothing=0.1),
    "simpo_alone": lambda m: of_pairs(m, CPOTrainer, beta=0.7, loss_type="simpo", simpo_gamma=0.5, cpo_alpha=0.0,
                                      alpha=0.0, label_smoothing=0.0),
    "kto": lambda m: of_kto(m, VERDICTS, desirable_weight=0.8, undesirable_weight=1.5),
    "kto_far": lambda m: of_kto(m, FAR_VERDICTS, desirable_weight=1.0, undesirable_weight=1.0),
}
KEPT = ("rewards/", "logps/", "kl", "nll_loss", "log_odds")


def number(x):
    return float(f"{float(x):.7g}")


def make(case):
    model = load()
    loss, metrics = CASES[case](model)
    loss.backward()
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    norm = torch.linalg.vector_norm(torch.cat([g.flatten() for g in grads.values()]))
    kept = {f"base_model.model.{name}.weight" for name in GRADS}
    return {
        "loss": number(loss.detach()),
        "metrics": {name: number(value) for name, value in metrics.items() if name.startswith(KEPT)},
        "norm": number(norm),
        "grads": {name.removeprefix("base_model.model.").removesuffix(".weight"): [number(x) for x in g.flatten()]
                  for name, g in grads.items() if name in kept},
    }


def main():
    torch.set_num_threads(1)
    data = {"pairs": PAIRS, "verdicts": VERDICTS, "far_verdicts": FAR_VERDICTS, "cases": {case: make(case) for case in CASES}}
    OUT.write_text(json.dumps(data, separators=(",", ":")) + "\n")
    for case, values in data["cases"].items():
        print(case, values["loss"], values["norm"], values["metrics"])


main()
