#!/usr/bin/env python3
"""Makes tests/models/goldens/labels: tiny random decoders with a classification head, with what transformers computes.

Each folder holds config.json and model.safetensors, and expected.safetensors: `tokens` [2, T], `lengths` [2] (the rest
of a row is padding) and `logits` ([2, labels] of texts or [2, T, labels] of tokens).

    python3 tools/goldens/classifier_models.py [NAME...]
"""
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

OUT = pathlib.Path("tests/models/goldens/labels")
T, VOCAB, PADDING = 11, 61, 0
LENGTHS = [11, 7]


def make(name: str, kind: type, config: transformers.PreTrainedConfig) -> None:
    torch.manual_seed(sum(name.encode()))
    model = kind._from_config(config, attn_implementation="eager").float().eval()
    for parameter, p in model.named_parameters():
        torch.nn.init.normal_(p, mean=1.0 if "norm" in parameter or "ln_" in parameter else 0.0, std=0.2)
    folder = OUT / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    lengths = torch.tensor(LENGTHS)
    mask = (torch.arange(T)[None] < lengths[:, None]).long()
    tokens = torch.randint(1, VOCAB, (2, T)) * mask  # padding elsewhere
    with torch.no_grad():
        logits = model(tokens, attention_mask=mask).logits
    expected = {"tokens": tokens, "lengths": lengths.int(), "logits": logits}
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors")


COMMON = dict(vocab_size=VOCAB, pad_token_id=PADDING, bos_token_id=1, eos_token_id=2)
LLAMA = COMMON | dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                      intermediate_size=40, max_position_embeddings=64)
CASES = {
    "qwen3": (transformers.Qwen3ForSequenceClassification,
                     transformers.Qwen3Config(**LLAMA, head_dim=8, id2label={0: "no", 1: "yes"})),
    "llama": (transformers.LlamaForTokenClassification, transformers.LlamaConfig(**LLAMA, num_labels=3)),
    "gpt2": (transformers.GPT2ForSequenceClassification,
                    transformers.GPT2Config(**COMMON, n_embd=24, n_layer=2, n_head=3, n_positions=64, num_labels=1)),
}
for case, arguments in CASES.items():
    if len(sys.argv) == 1 or case in sys.argv[1:]:
        make(case, *arguments)
