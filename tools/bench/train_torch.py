#!/usr/bin/env python3
"""Times training steps of a language model in PyTorch, on the CPU or a GPU: the baseline of `ingot bench train`
and, with PEFT's adapters, of `ingot bench finetune`.

One whole step (forward, loss, backward, clip, fused AdamW), f32 or under autocast to bf16, tuned as its best users would tune
it: one thread per core, memory in huge pages that the C library keeps. `ingot bench train --against torch` runs this file (it is
inside the binary) with the environment it needs and takes steps in turn with it. By hand:

    OMP_NUM_THREADS=2 GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=34359738368:\
glibc.malloc.trim_threshold=34359738368 python3 tools/bench/train_torch.py --batch 4 --sequence 64 [--compile]

Needs torch and transformers; peft for --lora-rank, bitsandbytes for --load-in-4bit.
"""
import argparse
import json
import resource
import statistics
import sys
import time

import torch
import transformers


LARGE = {
    "llama-1b": (transformers.LlamaConfig, transformers.LlamaForCausalLM,
                 dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, head_dim=64,
                      rope_theta=5e5, tie_word_embeddings=True)),
    "llama-8b": (transformers.LlamaConfig, transformers.LlamaForCausalLM,
                 dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, head_dim=128,
                      rope_theta=5e5, tie_word_embeddings=False)),
    **{f"qwen3-{name}": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM,
                         dict(vocab_size=151936, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
                              num_attention_heads=heads, head_dim=128, rope_theta=1e6, tie_word_embeddings=tied))
       for name, hidden, intermediate, layers, heads, tied in [("0.6b", 1024, 3072, 28, 16, True), ("1.7b", 2048, 6144, 28, 16, True),
                                                               ("4b", 2560, 9728, 36, 32, True), ("8b", 4096, 12288, 36, 32, False),
                                                               ("32b", 5120, 25600, 64, 64, False)]},
}


def make_model(shape: str) -> torch.nn.Module:
    if shape == "gpt2":
        config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
        config._attn_implementation = "sdpa"
        return transformers.GPT2LMHeadModel(config)
    if shape in LARGE:
        config_of, model_of, settings = LARGE[shape]
        config = config_of(**{"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 40960, "use_cache": False,
                              **settings})
        config._attn_implementation = "sdpa"
        return model_of(config)
    config = transformers.LlamaConfig(vocab_size=2048, hidden_size=192, intermediate_size=512, num_hidden_layers=6,
                                      num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=1024,
                                      tie_word_embeddings=True, use_cache=False)
    config._attn_implementation = "sdpa"
    return transformers.LlamaForCausalLM(config)


def load_in_4bit(model: torch.nn.Module) -> None:
    """Puts bitsandbytes' NF4 in the place of all linear layers but the head, as transformers' load_in_4bit does."""
    import bitsandbytes
    linears = [(name, module) for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    for name, linear in linears:
        if name.endswith("lm_head"):
            continue
        packed = bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, bias=linear.bias is not None,
                                            compute_dtype=torch.bfloat16, quant_type="nf4", device="meta")
        packed.weight = bitsandbytes.nn.Params4bit(linear.weight.data, requires_grad=False, quant_type="nf4", module=packed)
        packed.bias = linear.bias
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, packed.to(linear.weight.device))
    model.is_loaded_in_4bit = True  # what PEFT asks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=["gpt2", "demo", *LARGE], default="gpt2")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="bf16: autocast, weights stay f32")
    parser.add_argument("--weights", choices=["f32", "bf16"], default="f32",
                        help="bf16: weights, gradients and moments too, 8 bytes a parameter; no master weights")
    parser.add_argument("--lora-rank", type=int, default=0, help="PEFT's adapters on all linear layers, which alone train; needs peft")
    parser.add_argument("--load-in-4bit", action="store_true", help="the base's linear layers in bitsandbytes' NF4, but for the head")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--recompute", action="store_true", help="gradient checkpointing")
    parser.add_argument("--accumulate", type=int, default=1, help="batches whose gradients are added up for one step")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="torch.compile instead of eager mode")
    parser.add_argument("--serve", action="store_true", help="take one step for each line of stdin, answer with JSON lines")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16 if args.weights == "bf16" else torch.float32)
    with torch.device(args.device):
        model = make_model(args.shape).train()
    torch.set_default_dtype(torch.float32)
    if args.load_in_4bit:
        load_in_4bit(model)
    if args.lora_rank:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=args.lora_rank, lora_alpha=2 * args.lora_rank, target_modules="all-linear"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # Adapters of a model in bf16 are f32, as PEFT makes them.
    autocast = args.dtype == "bf16" and (args.weights == "f32" or args.lora_rank > 0)
    if args.recompute:
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(trained, lr=2e-4, fused=True)
    batches = torch.randint(0, model.config.vocab_size, (args.accumulate, args.batch, args.sequence), device=args.device)
    on_card = args.device != "cpu"

    def loss_of(tokens: torch.Tensor) -> torch.Tensor:
        with torch.autocast(args.device.split(":")[0], dtype=torch.bfloat16, enabled=autocast):
            logits = model(tokens).logits
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()) / args.accumulate

    step_loss = torch.compile(loss_of) if args.compile else loss_of

    def step_ms() -> float:
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for tokens in batches:
            step_loss(tokens).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        if on_card:
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    for _ in range(3):
        step_ms()

    def peak_mib() -> float:
        if on_card:
            return torch.cuda.max_memory_allocated() / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    if args.serve:
        print(json.dumps({"version": torch.__version__}), flush=True)
        for _ in sys.stdin:
            print(json.dumps({"ms": step_ms(), "peak_mib": peak_mib()}), flush=True)
        return
    times = [step_ms() for _ in range(args.runs)]
    print(f"torch {torch.__version__} {'compile' if args.compile else 'eager'}: {args.shape}, {args.dtype}, batch "
          f"{args.batch} x {args.sequence}: median {statistics.median(times):.1f} ms of {args.runs} steps, peak memory {peak_mib():.0f} MiB")


main()
