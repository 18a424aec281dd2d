#!/usr/bin/env python3
"""Writes tests/infer/goldens/beams.json: the texts that transformers' beam search finds with tiny random models.

Run from the repository's root, after language_models.py:  tools/goldens/beam_goldens.py
A case has a model of tests/models/goldens, its prompt, the options under Ingot's names and the texts found, the best first, with their
scores. Beams that are as good as others to the fifth digit may change places; no such case is kept.
"""
import json
import pathlib
import random

import torch
import transformers

ROOT = pathlib.Path("tests/models/goldens")
OUT = pathlib.Path("tests/infer/goldens/beams.json")
MODELS = ["llama_gqa_llama3", "gpt2", "mistral_window", "lfm2", "olmo2"]
CASES_OF_EACH = 8
CLEAR = 1e-4  # the least difference of two scores
RNG = random.Random(41)


def case(model, name):
    vocab = model.config.get_text_config().vocab_size
    options = {
        "width": RNG.choice([2, 3, 4, 8]),
        "length_penalty": RNG.choice([-1.0, 0.0, 0.5, 1.0, 2.0]),
        "early_stopping": RNG.choice(["false", "true", "never"]),
        "max_tokens": RNG.randint(3, 16),
        "min_tokens": RNG.choice([0, 0, 3]),
        "stop_tokens": RNG.sample(range(vocab), RNG.choice([0, 1, 3, 6])),
    }
    prompt = [RNG.randrange(vocab) for _ in range(RNG.randint(1, 8))]
    found = model.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
        num_beams=options["width"], num_return_sequences=options["width"], length_penalty=options["length_penalty"],
        early_stopping={"false": False, "true": True, "never": "never"}[options["early_stopping"]],
        max_new_tokens=options["max_tokens"], min_new_tokens=options["min_tokens"] or None,
        eos_token_id=options["stop_tokens"] or None, pad_token_id=vocab, bos_token_id=None,
        return_dict_in_generate=True, output_scores=True)
    scores = found.sequences_scores.tolist()
    texts = [[token for token in row[len(prompt):] if token != vocab] for row in found.sequences.tolist()]
    # A place that no text has taken has a score of -1e9.
    filled = [i for i, score in enumerate(scores) if score > -1e8]
    texts, scores = [texts[i] for i in filled], [scores[i] for i in filled]
    if any(a - b < CLEAR for a, b in zip(scores, scores[1:])):
        return None
    return {"model": name, "prompt": prompt, "options": options, "texts": texts, "scores": scores}


def main():
    cases = []
    for name in MODELS:
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_pretrained(ROOT / name, dtype=torch.float32).eval()
        model.generation_config = transformers.GenerationConfig()
        count = 0
        while count < CASES_OF_EACH:
            made = case(model, name)
            if made is not None:
                cases.append(made)
                count += 1
    lines = ",\n".join(json.dumps(made) for made in cases)
    OUT.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n')


main()
