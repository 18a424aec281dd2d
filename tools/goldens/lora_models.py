#!/usr/bin/env python3
"""Makes tests/models/goldens/lora/<name>/: LoRA adapters of PEFT on the tiny models of language_models.py.

Each folder holds adapter_config.json and adapter_model.safetensors as PEFT saves them, and expected.safetensors: `base`
(the name of the base model's folder, as bytes), `logits` with the adapter on, the loss, the gradient of every adapter matrix
(`grad.<name>`, PEFT's names), the losses of ten AdamW steps on the adapter alone, and `merged.<name>`: one matrix after
PEFT's own merge. Tokens and targets are those of the base's expected.safetensors. B is random, so that the adapter does
something, and so is what DoRA's magnitudes differ by from the lengths of the rows, and trained rows of tokens from the model's. Adapters of experts keep no merged matrix.

Run from the repository's root, with tools/goldens/requirements.txt installed:
    python3 tools/goldens/lora_models.py [NAME ...]
"""
import json
import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

BASES = pathlib.Path("tests/models/goldens")
OUT = BASES / "lora"
ATTENTION, MLP = ["q_proj", "k_proj", "v_proj", "o_proj"], ["gate_proj", "up_proj", "down_proj"]

# name: (base, LoraConfig, a module whose merged matrix is kept)
CASES = {
    "llama": ("llama_bias_untied", dict(r=4, lora_alpha=6, target_modules=ATTENTION + MLP),
              "model.layers.1.self_attn.k_proj"),
    "qwen3_patterns": ("qwen3", dict(r=3, lora_alpha=8, target_modules="all-linear", use_rslora=True,
                                     rank_pattern={"layers.1.self_attn.q_proj": 5, "down_proj": 2},
                                     alpha_pattern={"^model.layers.0.mlp.up_proj": 3},
                                     exclude_modules=["v_proj"]),
                       "model.layers.1.mlp.down_proj"),
    "gemma_regex": ("gemma_untied", dict(r=2, lora_alpha=2, target_modules=r".*layers\.\d+\.mlp\.(gate|up)_proj|lm_head",
                                         layers_to_transform=None), "lm_head"),
    "gpt2_fused": ("gpt2", dict(r=4, lora_alpha=4, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True),
                   "transformer.h.0.attn.c_attn"),
    "phi3_fused": ("phi3_partial", dict(r=3, lora_alpha=9, target_modules=["qkv_proj", "gate_up_proj"],
                                        layers_to_transform=[1], layers_pattern="layers"),
                   "model.layers.1.mlp.gate_up_proj"),
    "llama_dora": ("llama_bias_untied", dict(r=4, lora_alpha=6, target_modules=ATTENTION + MLP, use_dora=True),
                   "model.layers.1.self_attn.k_proj"),
    "gpt2_dora": ("gpt2", dict(r=2, lora_alpha=4, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True, use_dora=True),
                  "transformer.h.0.attn.c_attn"),
    "llama_tokens": ("llama_bias_untied", dict(r=2, lora_alpha=2, target_modules=["q_proj"],
                                               trainable_token_indices={"embed_tokens": [1, 3, 9], "lm_head": [3, 4]}),
                     "lm_head"),
    "mistral_tokens": ("mistral_tied", dict(r=2, lora_alpha=2, target_modules=["q_proj"], trainable_token_indices=[5, 2, 9]),
                       "model.embed_tokens"),
    "qwen3_moe_experts": ("qwen3_moe", dict(r=2, lora_alpha=6, target_modules=["q_proj", "gate_proj", "up_proj", "down_proj"]),
                          None),
    "mixtral_down": ("mixtral", dict(r=3, lora_alpha=3, target_modules=["k_proj"], target_parameters=["mlp.experts.down_proj"]),
                     None),
    "gpt_oss_experts": ("gpt_oss_moe", dict(r=2, lora_alpha=4, target_modules=["q_proj"], rank_pattern={"experts.down_proj": 3},
                                            target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]), None),
    "granitemoe_experts": ("granitemoe", dict(r=2, lora_alpha=4, target_modules=["v_proj"],
                                              target_parameters=["experts.gate_up_proj", "experts.down_proj"]), None),
}


def loss_of(model, tokens, targets):
    logits = model(tokens, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def saved_name(name):
    """Without the adapter's name, as files have it."""
    return name.replace(".default.", ".").removesuffix(".default")


def make(name, base, options, merged):
    torch.manual_seed(sum(name.encode()))
    model = transformers.AutoModelForCausalLM.from_pretrained(BASES / base, attn_implementation="eager",
                                                             experts_implementation="eager").float()
    data = load_file(BASES / base / "expected.safetensors")
    tokens, targets = data["tokens"], data["targets"]
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **options))
    adapter = {n: p for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for parameter_name, p in adapter.items():
            if "lora_B" in parameter_name:
                torch.nn.init.normal_(p, std=0.1)
            if "token_adapter" in parameter_name:
                p.add_(0.3 * torch.randn_like(p))
            if "lora_magnitude" in parameter_name:
                p.mul_(1 + 0.2 * torch.randn_like(p))
    folder = OUT / name
    model.save_pretrained(folder)
    for file in folder.iterdir():
        if file.name not in ("adapter_config.json", "adapter_model.safetensors"):
            file.unlink()
    # Paths of the machine that made it say nothing.
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")

    model.train()
    expected = {"base": torch.tensor(list(base.encode()), dtype=torch.uint8),
                "logits": model(tokens, use_cache=False).logits.detach()}
    loss = loss_of(model, tokens, targets)
    loss.backward()
    expected["loss"] = loss.detach().reshape(1)
    expected |= {"grad." + saved_name(n): p.grad.clone() for n, p in adapter.items()}
    before = {n: p.detach().clone() for n, p in adapter.items()}
    optimizer = torch.optim.AdamW(adapter.values(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(model, tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(adapter.values(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    expected["losses"] = torch.tensor(losses)
    with torch.no_grad():
        for n, p in adapter.items():
            p.copy_(before[n])
    if merged is not None:
        plain = model.merge_and_unload()
        expected["merged." + merged] = plain.get_submodule(merged).weight.detach()
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")


for case in sys.argv[1:] or CASES:
    make(case, *CASES[case])
