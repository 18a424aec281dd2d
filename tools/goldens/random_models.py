#!/usr/bin/env python3
"""Random tiny decoders, drawn from the whole option space of each family, against transformers.

    python3 tools/goldens/random_models.py --ingot build/bin/ingot [--count 4] [--seed 0] [FAMILY...]
    python3 tools/goldens/random_models.py --write tests/models/goldens/random [--count 1] [--seed 0] [FAMILY...]

The first draws COUNT configurations of each family, saves each model with transformers, lets `ingot logits` read a prompt and what
transformers continues it with, and compares logits, and the 64 most probable tokens that each writes with its cache; a configuration that
Ingot refuses is listed with its reason. It exits with 1 where a number differs. The second makes the sample that tests/models and
tests/infer read (they read others by INGOT_RANDOM_MODELS): COUNT of each family, with `tokens` [1, T] (a prompt of 7 tokens, continued by the most probable ones), `logits`, and
`greedy` [64], the greedy text of transformers' generate() behind the prompt. Needs tools/goldens/requirements.txt.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import save_file

from random_families import FAMILIES, VOCAB, Draw

PROMPT, LENGTH, GREEDY = 7, 24, 64
TOLERANCE = 2e-5  # of logits of about 1


def greedy_text(model, tokens):
    """By generate() with its cache; without it where all layers scan, of whose cache it asks what only attention has."""
    layers = set(getattr(model.config, "layers_block_type", None) or getattr(model.config, "layer_types", None) or ["attention"])
    scans = model.config.model_type == "mamba2" or layers <= {"linear_attention", "mamba", "mlp", "moe", "conv"}
    return model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=GREEDY, do_sample=False, eos_token_id=-1, pad_token_id=0,
                          use_cache=not scans)[0, PROMPT:]


def make(family, seed: int, folder: pathlib.Path):
    """Saves a model and says what transformers computes: (tokens, logits, greedy text)."""
    torch.manual_seed(seed)
    config = family(Draw(f"{family.__name__} {seed}"))
    # Falcon's eager attention adds ALiBi twice.
    attention = "sdpa" if config.model_type == "falcon" else "eager"
    kind = transformers.AutoModelForImageTextToText if hasattr(config, "vision_config") else transformers.AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation=attention, experts_implementation="eager").float().eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1 and name.endswith("weight")), std=0.3)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            torch.nn.init.normal_(buffer, std=0.3)
        if name.endswith("layer_scalar"):
            torch.nn.init.normal_(buffer, mean=1.0, std=0.2)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(0, VOCAB, (1, PROMPT))
    with torch.no_grad():
        greedy = greedy_text(model, tokens)
        while tokens.shape[1] < LENGTH:
            tokens = torch.cat([tokens, model(tokens, use_cache=False).logits[:, -1:].argmax(-1)], 1)
        return tokens, model(tokens, use_cache=False).logits, greedy


def logits_of(ingot: str, folder: pathlib.Path, tokens) -> numpy.ndarray | str:
    """What `ingot logits` gives, or why not."""
    ids = ",".join(map(str, tokens.tolist()))
    ran = subprocess.run([ingot, "logits", folder, "--tokens", ids, "-o", folder / "logits.npy"], capture_output=True, text=True)
    if ran.returncode == 0:
        return numpy.load(folder / "logits.npy")
    return ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else "no message"


def compare(ingot: str, family, seed: int, folder: pathlib.Path):
    """(verdict, whether it is a failure)."""
    tokens, logits, greedy = make(family, seed, folder)
    ours, theirs = logits_of(ingot, folder, tokens[0]), logits[0].numpy()
    if isinstance(ours, str):
        return f"refused: {ours[:140]}", "not implemented" not in ours
    difference = float(numpy.abs(ours - theirs).max() / max(1.0, numpy.abs(theirs).max()))
    same = bool((ours.argmax(-1) == theirs.argmax(-1)).all())
    # Each token of the text is the first choice behind those before it. LongRoPE has other angles in a longer text.
    text = logits_of(ingot, folder, torch.cat([tokens[0, :PROMPT], greedy]))
    if isinstance(text, str):
        return f"refused its own text: {text[:140]}", True
    long = "longrope" in (folder / "config.json").read_text()
    written = long or bool((text[PROMPT - 1:-1].argmax(-1) == greedy.numpy()).all())
    verdict = f"logits within {difference:.1e}, {'the same' if same else 'OTHER'} tokens, {'the same' if written else 'ANOTHER'} text"
    return verdict, difference > TOLERANCE or not written


def write(place: pathlib.Path, seed: int, count: int, names):
    for family in FAMILIES:
        if names and family.__name__ not in names:
            continue
        for number in range(seed, seed + count):
            folder = place / (family.__name__ if count == 1 else f"{family.__name__}_{number}")
            shutil.rmtree(folder, ignore_errors=True)
            tokens, logits, greedy = make(family, number, folder)
            save_file({"tokens": tokens, "logits": logits[0].contiguous(), "greedy": greedy.contiguous()}, folder / "expected.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--count", type=int, help="4, and 1 to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.write:
        write(arguments.write, arguments.seed, arguments.count or 1, arguments.families)
        return 0
    failures = 0
    for family in FAMILIES:
        if arguments.families and family.__name__ not in arguments.families:
            continue
        for seed in range(arguments.seed, arguments.seed + (arguments.count or 4)):
            with tempfile.TemporaryDirectory() as folder:
                verdict, failed = compare(arguments.ingot, family, seed, pathlib.Path(folder))
            failures += failed
            print(f"{'FAILED ' if failed else ''}{family.__name__} {seed}: {verdict}", flush=True)
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
