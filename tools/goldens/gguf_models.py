#!/usr/bin/env python3
"""Makes tests/models/goldens/gguf/<name>.{gguf,safetensors}: tiny random models as llama.cpp's converter writes them.

Names come from gguf-py's tensor map; what the converter does to values (the order of rotary rows, Gemma's norms, Conv1D)
is done here as convert_hf_to_gguf.py does it. The .safetensors file holds `tokens` [2, T] and transformers' `logits` of
the model before it was converted (with the rounded weights where they are quantized).

Run from the repository's root, with tools/goldens/requirements.txt installed (gguf 0.19.0, transformers 5.23.0):
    python3 tools/goldens/gguf_models.py [NAME...]
"""
import math
import pathlib
import sys

import gguf
import numpy
import torch
import transformers
from safetensors.torch import save_file

OUT = pathlib.Path("tests/models/goldens/gguf")
T, VOCAB = 19, 61
COMMON = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2, max_position_embeddings=64,
              bos_token_id=1, eos_token_id=0, pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
LONGROPE = dict(rope_type="longrope", long_factor=[1.5, 2.0, 3.0, 4.0], short_factor=[1.0, 1.1, 1.2, 1.3])
# Those of Phi 3.5 MoE, which the converter leaves out of the file.
PHIMOE_SCALES = dict(short_mscale=1.243163121016122, long_mscale=1.243163121016122, original_max_position_embeddings=64)
Arch = gguf.MODEL_ARCH

CASES = {
    "llama": (Arch.LLAMA, transformers.LlamaConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
                                                   rope_parameters=LLAMA3, tie_word_embeddings=False)),
    "llama_q8_0": (Arch.LLAMA, transformers.LlamaConfig(**COMMON | dict(hidden_size=32, intermediate_size=64),
                                                        num_attention_heads=4, num_key_value_heads=4,
                                                        tie_word_embeddings=True)),
    "mixtral": (Arch.LLAMA, transformers.MixtralConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                       num_local_experts=3, num_experts_per_tok=2)),
    "qwen2": (Arch.QWEN2, transformers.Qwen2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                   tie_word_embeddings=True)),
    "qwen3": (Arch.QWEN3, transformers.Qwen3Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                                                   tie_word_embeddings=False)),
    "qwen3_moe": (Arch.QWEN3MOE, transformers.Qwen3MoeConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2,
                                                             head_dim=8, num_experts=4, num_experts_per_tok=2,
                                                             moe_intermediate_size=20, norm_topk_prob=True)),
    "gemma2": (Arch.GEMMA2, transformers.Gemma2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                                                      query_pre_attn_scalar=8, sliding_window=5)),
    "gemma3": (Arch.GEMMA3, transformers.Gemma3TextConfig(**COMMON | dict(num_hidden_layers=7), num_attention_heads=4,
                                                          num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=8,
                                                          sliding_window=5)),
    "phi3": (Arch.PHI3, transformers.Phi3Config(**COMMON, num_attention_heads=2, num_key_value_heads=1,
                                                original_max_position_embeddings=16, rope_parameters=LONGROPE,
                                                tie_word_embeddings=False)),
    "phimoe": (Arch.PHIMOE, transformers.PhimoeConfig(**COMMON, num_attention_heads=2, num_key_value_heads=1, num_local_experts=4,
                                                      attention_bias=True, lm_head_bias=True, tie_word_embeddings=False,
                                                      rope_parameters=LONGROPE | PHIMOE_SCALES)),
    "gpt2": (Arch.GPT2, transformers.GPT2Config(vocab_size=VOCAB, n_embd=12, n_layer=2, n_head=3, n_positions=32,
                                                bos_token_id=0, eos_token_id=0)),
}


def to_pairs(rows, heads):
    """The converter's permute()."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def llama3_factors(config):
    head = config.head_dim
    theta = config.rope_parameters["rope_theta"]
    factors = []
    for i in range(0, head, 2):
        wavelength = 2 * math.pi * theta ** (i / head)
        smooth = (8192 / wavelength - 1) / 3
        smooth = min(max(smooth, 0), 1)
        factors.append(1 / ((1 - smooth) / 8 + smooth))
    return numpy.array(factors, dtype=numpy.float32)


def add_metadata(w, config, arch):
    c = config
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(4 * c.hidden_size if arch == Arch.GPT2 else c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_vocab_size(c.vocab_size)
    if arch == Arch.GPT2:
        w.add_layer_norm_eps(c.layer_norm_epsilon)
        return
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(c.rope_parameters.get("rope_theta", 10000.0) if "rope_theta" in c.rope_parameters
                         else c.rope_parameters["full_attention"]["rope_theta"])
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    if head * c.num_attention_heads != c.hidden_size or "gemma" in arch.name.lower():
        w.add_key_length(head)
        w.add_value_length(head)
    if arch in (Arch.LLAMA, Arch.PHI3, Arch.PHIMOE):
        w.add_rope_dimension_count(head)
    if arch in (Arch.PHI3, Arch.PHIMOE):
        w.add_rope_scaling_orig_ctx_len(getattr(c, "original_max_position_embeddings", 64))
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(4) / math.log(16)))
        w.add_sliding_window(c.sliding_window or 0)
    if "gemma" in arch.name.lower():
        w.add_sliding_window(c.sliding_window)
    if arch == Arch.GEMMA2:
        w.add_attn_logit_softcapping(c.attn_logit_softcapping)
        w.add_final_logit_softcapping(c.final_logit_softcapping)
    experts = getattr(c, "num_local_experts", None) or getattr(c, "num_experts", None)
    if experts:
        w.add_expert_count(experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        if arch == Arch.QWEN3MOE:
            w.add_expert_feed_forward_length(c.moe_intermediate_size)


def hub_tensors(model):
    """The checkpoint's tensors, experts one by one as the hub's files have them."""
    with torch.no_grad():
        folder = OUT / "checkpoint"
        model.save_pretrained(folder)
        from safetensors.torch import load_file
        tensors = load_file(folder / "model.safetensors")
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        return tensors


def add_tensors(w, tensors, config, arch, quantized):
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    experts = {}
    for name, tensor in sorted(tensors.items()):
        values = tensor.numpy()
        if ".experts." in name:
            stem, number, kind = name.replace(".experts.", "|").split("|")[0], *name.split(".experts.")[1].split(".")[:2]
            experts.setdefault((stem, kind), {})[int(number)] = values
            continue
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if arch == Arch.LLAMA and ".q_proj" in name:
            values = to_pairs(values, config.num_attention_heads)
        if arch == Arch.LLAMA and ".k_proj" in name:
            values = to_pairs(values, config.num_key_value_heads)
        if "GEMMA" in arch.name and name.endswith("norm.weight"):
            values = values + 1
        if arch == Arch.GPT2 and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            values = values.T
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new, name
        values = numpy.ascontiguousarray(values)
        if quantized and values.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            w.add_tensor(new, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            w.add_tensor(new, values)
    for (stem, kind), parts in experts.items():
        merged = numpy.stack([parts[i] for i in range(len(parts))])
        new = names.get_name(f"{stem}.experts.{kind}.weight", try_suffixes=(".weight",))
        assert new, (stem, kind)
        w.add_tensor(new, merged)


def randomise(model):
    for name, p in model.named_parameters():
        if p.dim() == 1:
            gemma = "Gemma" in type(model).__name__
            ones = 0.0 if gemma or name.endswith("bias") or ("norm" not in name and "ln_" not in name) else 1.0
            torch.nn.init.normal_(p, mean=ones, std=0.2)
        else:
            torch.nn.init.normal_(p, std=0.2)


def round_weights(model):
    kind = gguf.GGMLQuantizationType.Q8_0
    for p in model.parameters():
        if p.dim() == 2:
            p.data = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(p.data.numpy(), kind), kind))


def make(name, arch, config):
    torch.manual_seed(sum(name.encode()))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    randomise(model)
    quantized = name.endswith("q8_0")
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    add_metadata(writer, config, arch)
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    if name == "llama":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    if arch in (Arch.PHI3, Arch.PHIMOE):
        for kind in ("long", "short"):
            writer.add_tensor(f"rope_factors_{kind}.weight",
                              numpy.array(config.rope_parameters[f"{kind}_factor"], dtype=numpy.float32))
    add_tensors(writer, hub_tensors(model), config, arch, quantized)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if quantized:
        round_weights(model)
    tokens = torch.randint(0, VOCAB, (2, T))
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits
    save_file({"tokens": tokens, "logits": logits.contiguous()}, OUT / f"{name}.safetensors")
    try:  # transformers reads some of them back: then the file is one that others understand
        back = transformers.AutoModelForCausalLM.from_pretrained(OUT, gguf_file=f"{name}.gguf",
                                                                 attn_implementation="eager").eval()
        with torch.no_grad():
            error = (back(tokens, use_cache=False).logits - logits).abs().max().item()
        print(f"{name}: transformers reads it back, largest difference {error:.2g}")
    except Exception as error:  # noqa: BLE001
        print(f"{name}: transformers does not read it back ({type(error).__name__}: {str(error)[:90]})")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for case in sys.argv[1:] or CASES:
        make(case, *CASES[case])
