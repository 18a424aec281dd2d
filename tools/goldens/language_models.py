#!/usr/bin/env python3
"""Makes tests/models/goldens/<name>/: tiny random models of each decoder family, with what transformers computes.

Each folder holds config.json and model.safetensors as transformers saves them, and expected.safetensors: `tokens` and
`targets` [2, T], `logits` [2, T, vocab], the loss, the gradient of every parameter (`grad.<name>`), and the losses of
ten AdamW steps on the same batch. Sizes are awkward on purpose: odd head counts, widths off the vector lengths.

Run from the repository's root, with tools/goldens/requirements.txt installed:
    python3 tools/goldens/language_models.py
"""
import pathlib

import torch
import transformers
from safetensors.torch import save_file

OUT = pathlib.Path("tests/models/goldens")
T, VOCAB = 23, 61

COMMON = dict(vocab_size=VOCAB, hidden_size=24, intermediate_size=44, num_hidden_layers=2, max_position_embeddings=64,
              bos_token_id=None, eos_token_id=0, pad_token_id=None, attn_implementation="eager")
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
LINEAR = dict(rope_type="linear", rope_theta=100.0, factor=3.0)

CASES = {
    "llama_gqa_llama3": transformers.LlamaConfig(**COMMON, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
                                                 rope_parameters=LLAMA3, tie_word_embeddings=True),
    "llama_bias_untied": transformers.LlamaConfig(**COMMON, num_attention_heads=4, num_key_value_heads=4,
                                                  rope_parameters=LINEAR, attention_bias=True, mlp_bias=True,
                                                  tie_word_embeddings=False),
    "mistral_window": transformers.MistralConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                 sliding_window=5, tie_word_embeddings=False),
    "qwen2_tied": transformers.Qwen2Config(**COMMON, num_attention_heads=6, num_key_value_heads=3,
                                           tie_word_embeddings=True),
    "qwen3": transformers.Qwen3Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                      tie_word_embeddings=False),
    "gpt2": transformers.GPT2Config(vocab_size=VOCAB, n_embd=24, n_layer=2, n_head=3, n_positions=32, bos_token_id=0,
                                    eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                    attn_implementation="eager"),
}


def randomise(model: torch.nn.Module) -> None:
    """Norm weights off one and biases off zero: a mix-up of any of them shows in the logits."""
    for name, p in model.named_parameters():
        if p.dim() == 1:
            torch.nn.init.normal_(p, mean=1.0 if "norm" in name or "ln_" in name else 0.0, std=0.2)
            if name.endswith("bias"):
                torch.nn.init.normal_(p, std=0.2)
        else:
            torch.nn.init.normal_(p, std=0.2)


def make(name: str, config: transformers.PretrainedConfig) -> None:
    torch.manual_seed(sum(name.encode()))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    randomise(model)
    folder = OUT / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(0, VOCAB, (2, T))
    targets = torch.roll(tokens, -1, 1)
    targets[:, -1] = -100
    targets[0, 3] = -100

    def loss_of() -> torch.Tensor:
        logits = model(tokens, use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)

    model.train()
    expected = {"tokens": tokens, "targets": targets, "logits": model(tokens, use_cache=False).logits.detach()}
    loss = loss_of()
    loss.backward()
    expected["loss"] = loss.detach().reshape(1)
    for parameter, p in model.named_parameters():
        expected["grad." + parameter] = p.grad.clone()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    expected["losses"] = torch.tensor(losses)
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")


for case, cfg in CASES.items():
    make(case, cfg)
