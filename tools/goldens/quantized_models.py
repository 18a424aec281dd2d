#!/usr/bin/env python3
"""Tiny models in the layouts of other quantizers, with the logits of what they stand for, for tests/infer.

Needs torch, transformers, bitsandbytes, compressed-tensors and safetensors (made with torch 2.15.0, transformers 5.23.0,
bitsandbytes 0.50.2, compressed-tensors 0.20.0, safetensors 0.8.0):

    python tools/goldens/quantized_models.py [NAME...]

Weights are rounded here, plainly; the layouts of GPTQ and AWQ follow the loops of AutoGPTQ's QuantLinear.pack and
AutoAWQ's WQLinear_GEMM.from_linear, the others are packed by bitsandbytes and compressed-tensors themselves. The logits
are transformers', in f32, of the same model with the rounded values.
"""
import json
import pathlib
import shutil
import sys

import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "infer" / "goldens" / "quantized"
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
TOKENS = [5, 17, 42, 3, 60, 8, 31]


def words(fields, bits, order=None):
    """[rows, n] of small integers to int32 [rows, n * bits / 32], `order[i]` being the field at position i."""
    if 32 % bits:
        return stream(fields, bits)
    per = 32 // bits
    order = order or range(per)
    out = torch.zeros(fields.shape[0], fields.shape[1] // per, dtype=torch.int64)
    for place, field in enumerate(order):
        out |= fields[:, field::per].long() << (bits * place)
    return torch.where(out >= 2**31, out - 2**32, out).int()


def stream(fields, bits):
    """The same for codes that cross from one word to the next, as AutoGPTQ packs 3 bits."""
    out = torch.zeros(fields.shape[0], fields.shape[1] * bits // 32, dtype=torch.int64)
    for i in range(fields.shape[1]):
        word, shift = divmod(i * bits, 32)
        out[:, word] |= (fields[:, i].long() << shift) & 0xFFFFFFFF
        if shift + bits > 32:
            out[:, word + 1] |= fields[:, i].long() >> (32 - shift)
    return torch.where(out >= 2**31, out - 2**32, out).int()


def rounded(w, bits, group, symmetric=False):
    """Codes [N, K], f16 scales and zeros [N, G]."""
    top = 2**bits - 1
    g = w.reshape(w.shape[0], -1, group)
    if symmetric:
        scale = (g.abs().amax(2) / (2 ** (bits - 1) - 1)).half()
        zero = torch.full_like(scale, 2 ** (bits - 1)).int()
    else:
        low, high = g.amin(2).clamp(max=0), g.amax(2).clamp(min=0)
        scale = ((high - low) / top).half()
        zero = (-low / scale.float()).round().clamp(1, top).int()
    code = (g / scale.float()[..., None]).round() + zero[..., None]
    return code.clamp(0, top).reshape(w.shape).int(), scale, zero


def values(code, scale, zero, group_of):
    return scale.float()[:, group_of] * (code - zero[:, group_of]).float()


def gptq(name, w, tensors, bits=4, group=32, act_order=False, v2=False, symmetric=False):
    n, k = w.shape
    order = torch.randperm(k, generator=torch.Generator().manual_seed(k)) if act_order else torch.arange(k)
    group_of = torch.empty(k, dtype=torch.int64)
    group_of[order] = torch.arange(k) // group
    code, scale, zero = rounded(w[:, order], bits, group, symmetric)
    plain = torch.empty_like(code)
    plain[:, order] = code
    tensors[name + ".qweight"] = words(plain, bits).T
    tensors[name + ".qzeros"] = words((zero - (0 if v2 else 1)).T, bits)
    tensors[name + ".scales"] = scale.T
    tensors[name + ".g_idx"] = group_of.int()
    return values(plain, scale, zero, group_of)


def awq(name, w, tensors):
    code, scale, zero = rounded(w, 4, 32)
    tensors[name + ".qweight"] = words(code.T, 4, AWQ_ORDER)
    tensors[name + ".qzeros"] = words(zero.T, 4, AWQ_ORDER)
    tensors[name + ".scales"] = scale.T
    return values(code, scale, zero, torch.arange(w.shape[1]) // 32)


def nf4(name, w, tensors, nested, storage=torch.uint8):
    packed, state = quantize_4bit(w.contiguous(), blocksize=64, compress_statistics=nested, quant_type="nf4",
                                  quant_storage=storage)
    tensors[name + ".weight"] = packed
    for key, tensor in state.as_dict(packed=True).items():
        tensors[f"{name}.weight.{key}"] = tensor
    return dequantize_4bit(packed, state).reshape(w.shape).float()


def mixed_gptq(name, w, tensors):
    """As GPTQModel's `dynamic` has it: other bits for some modules."""
    return gptq(name, w, tensors, bits=8 if "down_proj" in name else 4, group=32)


def fp8_blocks(name, w, tensors, rows=32, cols=64, field="weight_scale_inv"):
    n, k = w.shape
    blocks = w.reshape(n // rows, rows, k // cols, cols)
    scale = blocks.abs().amax((1, 3)) / 448
    code = (blocks / scale[:, None, :, None]).reshape(n, k).to(torch.float8_e4m3fn)
    tensors[name + ".weight"] = code
    tensors[f"{name}.{field}"] = scale
    return (code.float().reshape(blocks.shape) * scale[:, None, :, None]).reshape(n, k)


def packed_groups(name, w, tensors):
    code, scale, zero = rounded(w, 4, 32)
    tensors[name + ".weight_packed"] = pack_to_int32((code - 8).to(torch.int8), 4)
    tensors[name + ".weight_scale"] = scale
    tensors[name + ".weight_zero_point"] = pack_to_int32((zero - 8).to(torch.int8), 4, packed_dim=0)
    tensors[name + ".weight_shape"] = torch.tensor(w.shape)
    return values(code, scale, zero, torch.arange(w.shape[1]) // 32)


def channel_fp8(name, w, tensors):
    scale = w.abs().amax(1, keepdim=True) / 448
    code = (w / scale).to(torch.float8_e4m3fn)
    tensors[name + ".weight"], tensors[name + ".weight_scale"] = code, scale
    return code.float() * scale


def channel_int8(name, w, tensors):
    scale = (w.abs().amax(1, keepdim=True) / 127).half().float()
    code = (w / scale).round().clamp(-127, 127).to(torch.int8)
    tensors[name + ".weight"], tensors[name + ".weight_scale"] = code, scale
    return code.float() * scale


def nvfp4(name, w, tensors, modelopt=False):
    """Plainly rounded: what the scales of 16 columns are divided by (compressed-tensors) or multiplied by (ModelOpt)."""
    whole = 448 * 6 / w.abs().max()
    blocks = w.reshape(w.shape[0], -1, 16)
    scale = (blocks.abs().amax(2) / 6 * whole).to(torch.float8_e4m3fn)
    scaled = blocks / (scale.float() / whole)[..., None]
    numbers = E2M1[(scaled.abs()[..., None] - E2M1).abs().argmin(-1)] * scaled.sign()
    tensors[name + ".weight_scale"] = scale
    packed = pack_fp4_to_uint8(numbers.reshape(w.shape))
    if modelopt:
        tensors[name + ".weight"], tensors[name + ".weight_scale_2"] = packed, 1 / whole
        tensors[name + ".input_scale"] = torch.tensor(0.01)
    else:
        tensors[name + ".weight_packed"], tensors[name + ".weight_global_scale"] = packed, whole.reshape(1)
    return (numbers * (scale.float() / whole)[..., None]).reshape(w.shape)


def llama():
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=61, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         tie_word_embeddings=False)
    return LlamaForCausalLM(config).eval()


def gpt2():
    torch.manual_seed(2)
    return GPT2LMHeadModel(GPT2Config(vocab_size=61, n_embd=64, n_layer=1, n_head=4, n_positions=64)).eval()


def is_layer(name, module):
    return hasattr(module, "weight") and module.weight.dim() == 2 and ("layers." in name or ".h." in name)


def write_model(directory, model, config, layer):
    tensors, quantized = {}, set()
    for name, parameter in model.named_parameters():
        parameter.data = (parameter.data * (8 if parameter.dim() > 1 else 1)).half().float()
    for name, module in model.named_modules():
        if not is_layer(name, module):
            continue
        transposed = type(module).__name__ == "Conv1D"  # [in, out]
        weight = module.weight.data.T if transposed else module.weight.data
        result = layer(name, weight, tensors)
        module.weight.data = (result.T if transposed else result).contiguous()
        quantized.add(name + ".weight")
    for name, parameter in model.named_parameters():
        if name not in quantized:
            tensors[name] = parameter.data.half()
    out = OUT / directory
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, out / "model.safetensors",
              metadata={"format": "pt"})
    settings = json.loads(model.config.to_json_string())
    settings["quantization_config"] = config
    (out / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS])).logits[0]
    save_file({"tokens": torch.tensor(TOKENS), "logits": logits.contiguous()}, out / "expected.safetensors.golden")


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def mxfp4(weight):
    """Blocks [E, N, K / 32, 16], scales [E, N, K / 32] and values [E, N, K] of [E, N, K]."""
    groups = weight.reshape(*weight.shape[:-1], -1, 32)
    exponent = groups.abs().amax(-1).clamp(min=1e-30).log2().floor() - 2
    scaled = groups / 2.0 ** exponent[..., None]
    codes = (scaled.abs()[..., None] - E2M1).abs().argmin(-1)
    values = E2M1[codes] * scaled.sign() * 2.0 ** exponent[..., None]
    codes = (codes + 8 * (scaled < 0)).to(torch.uint8)
    return codes[..., ::2] | codes[..., 1::2] << 4, (exponent + 127).to(torch.uint8), values.reshape(weight.shape)


def write_gpt_oss(directory):
    """As openai/gpt-oss-20b lies: experts in MXFP4, the rest in bf16."""
    torch.manual_seed(3)
    model = GptOssForCausalLM(GptOssConfig(
        vocab_size=61, hidden_size=64, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, num_local_experts=3, num_experts_per_tok=2, sliding_window=4,
        max_position_embeddings=64, attn_implementation="eager", pad_token_id=None, eos_token_id=0)).eval().float()
    tensors = {}
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 or "sinks" in name:
            torch.nn.init.normal_(parameter, std=0.2)
        parameter.data = parameter.data.bfloat16().float()
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name + "_blocks"], tensors[name + "_scales"], values = mxfp4(parameter.data.transpose(1, 2))
            parameter.data = values.transpose(1, 2).contiguous()
        else:
            tensors[name] = parameter.data.bfloat16()
    out = OUT / directory
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, out / "model.safetensors",
              metadata={"format": "pt"})
    settings = json.loads(model.config.to_json_string())
    settings["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    (out / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS])).logits[0]
    save_file({"tokens": torch.tensor(TOKENS), "logits": logits.contiguous()}, out / "expected.safetensors.golden")


def main():
    only = sys.argv[1:]
    if not only or "mxfp4" in only:
        write_gpt_oss("mxfp4")

    def write(name, *rest):
        if not only or name in only:
            write_model(name, *rest)

    def gptq_config(**more):
        return {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False, **more}

    tensors_config = {"quant_method": "compressed-tensors", "quantization_status": "compressed", "ignore": ["lm_head"]}
    write("gptq", llama(), gptq_config(), gptq)
    write("gptq_act_order", llama(), gptq_config(desc_act=True, checkpoint_format="gptq_v2"),
          lambda *a: gptq(*a, act_order=True, v2=True))
    write("gptq_8bit", llama(), gptq_config(bits=8, group_size=64, sym=True),
          lambda *a: gptq(*a, bits=8, group=64, symmetric=True))
    write("gptq_gpt2", gpt2(), gptq_config(), gptq)
    write("awq", llama(), {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}, awq)
    write("bnb_nf4", llama(), {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
          lambda *a: nf4(*a, nested=False))
    write("bnb_nf4_nested", llama(),
          {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
           "bnb_4bit_use_double_quant": True}, lambda *a: nf4(*a, nested=True))
    write("fp8_blocks", llama(), {"quant_method": "fp8", "weight_block_size": [32, 64], "activation_scheme": "dynamic"},
          fp8_blocks)
    write("gptq_3bit", llama(), gptq_config(bits=3), lambda *a: gptq(*a, bits=3))
    write("gptq_mixed", llama(), gptq_config(dynamic={"+:.*down_proj": {"bits": 8}}), mixed_gptq)
    write("bnb_nf4_bf16", llama(),
          {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
           "bnb_4bit_quant_storage": "bfloat16"}, lambda *a: nf4(*a, nested=False, storage=torch.bfloat16))
    block = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [32, 64]}
    write("ct_fp8_block", llama(),
          {**tensors_config, "format": "float-quantized", "config_groups": {"group_0": {"weights": block}}},
          lambda *a: fp8_blocks(*a, field="weight_scale"))
    write("ct_pack", llama(), {**tensors_config, "format": "pack-quantized"}, packed_groups)
    write("ct_fp8", llama(), {**tensors_config, "format": "float-quantized"}, channel_fp8)
    write("ct_nvfp4", llama(), {**tensors_config, "format": "nvfp4-pack-quantized"}, nvfp4)
    write("modelopt_nvfp4", llama(), {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
          lambda *a: nvfp4(*a, modelopt=True))
    write("ct_int8", llama(), {**tensors_config, "format": "int-quantized"}, channel_int8)


if __name__ == "__main__":
    main()
