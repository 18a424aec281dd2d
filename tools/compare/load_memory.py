#!/usr/bin/env python3
"""Says how much memory loading a model takes beside the model itself, and how long it takes, for each kind of file.

    tools/compare/load_memory.py build/bench/load_probe build/bin/ingot DIRECTORY [ROUNDS]

Makes models of about 200 M random parameters in DIRECTORY where they are not there (torch and transformers). `over` is what
the process grew by beyond the model, its own code and libraries included (about 14 MB), in units of the model's largest tensor
(f32 where it passes through f32 on its way); the aim is 1. Files are in the page cache.
"""
import pathlib
import statistics
import subprocess
import sys

import torch
import transformers


def make(directory):
    llama = transformers.LlamaConfig(vocab_size=16000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=14,
                                     num_attention_heads=16, num_key_value_heads=8, max_position_embeddings=512,
                                     tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
    gpt2 = transformers.GPT2Config(vocab_size=16000, n_embd=1024, n_layer=14, n_head=16, n_positions=512,
                                   bos_token_id=None, eos_token_id=None)
    for name, config in (("llama", llama), ("gpt2", gpt2)):
        for dtype in (torch.float32, torch.bfloat16):
            folder = directory / f"{name}-{str(dtype).removeprefix('torch.')}"
            if folder.exists():
                continue
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
            model.save_pretrained(folder, max_shard_size="300MB")
    folder = directory / "llama-pytorch"
    if not folder.exists():
        model = transformers.AutoModelForCausalLM.from_pretrained(directory / "llama-float32", dtype=torch.float32)
        folder.mkdir()
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), folder / "pytorch_model.bin")


def main():
    probe, ingot, directory = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    make(directory)
    for kind in ("q8_0", "q4_k"):
        if not (directory / f"{kind}.gguf").exists():
            subprocess.run([ingot, "convert", directory / "llama-float32", directory / f"{kind}.gguf", "--dtype", kind],
                           check=True, stdout=subprocess.DEVNULL)
    cases = [("f32 shards, mapped", "llama-float32", ["--mapped"]), ("f32 shards, copied", "llama-float32", []),
             ("f32 shards to bf16", "llama-float32", ["--dtype", "bf16"]),
             ("bf16 shards to f32", "llama-bfloat16", ["--dtype", "f32"]),
             ("GPT-2, f32, transposed", "gpt2-float32", []),
             ("GPT-2, bf16 to f32, transposed", "gpt2-bfloat16", ["--dtype", "f32"]),
             ("PyTorch zip, f32", "llama-pytorch", []), ("PyTorch zip to bf16", "llama-pytorch", ["--dtype", "bf16"]),
             ("GGUF Q8_0 to f32", "q8_0.gguf", []), ("GGUF Q4_K to f32", "q4_k.gguf", []),
             ("GGUF Q8_0 to bf16", "q8_0.gguf", ["--dtype", "bf16"])]
    print(f"{'what':32} {'seconds':>8} {'model':>9} {'largest':>9} {'grew by':>9} {'over':>6}")
    for what, name, options in cases:
        runs = []
        for _ in range(rounds):
            done = subprocess.run([probe, directory / name, *options], check=True, capture_output=True, text=True)
            runs.append([float(word) for word in done.stdout.split()])
        seconds = statistics.median(run[0] for run in runs)
        _, model, largest, growth = runs[-1]
        if what.endswith("to bf16"):
            largest *= 2
        print(f"{what:32} {seconds:8.2f} {model / 1e6:6.0f} MB {largest / 1e6:6.0f} MB {growth / 1e6:6.0f} MB "
              f"{(growth - model) / largest:6.2f}")


if __name__ == "__main__":
    main()
