#!/usr/bin/env python3
"""Writes tests/infer/goldens/samplers.json: what transformers and llama.cpp leave to draw from.

Run with requirements.txt's versions:  tools/goldens/sampler_goldens.py LLAMA_CPP
LLAMA_CPP is vendor/llama.cpp in the unpacked source package of llama-cpp-python 0.3.36; its samplers are compiled here.

A case has options (SamplingOptions' names), logits, the sequence so far ("history", its first "prompt" tokens are the
prompt) and the probabilities of the tokens that are left. "mirostat" has one step after another: what is left, and what
llama.cpp drew.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from transformers import generation

assert transformers.__version__ == "5.23.0", transformers.__version__
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "infer" / "goldens" / "samplers.json"
RNG = numpy.random.default_rng(7)
VOCAB = 20

# llama.cpp's own way of making a DRY sampler without a vocabulary takes C++ vectors.
WRAPPER = """
#include <vector>
#include "llama.h"
struct llama_sampler * llama_sampler_init_dry_testing(float, float, int32_t, int32_t, const std::vector<std::vector<llama_token>>&);
extern "C" llama_sampler * dry(float multiplier, float base, int32_t length, int32_t last_n, const int32_t * flat, int count) {
  std::vector<std::vector<llama_token>> breakers;  // each: its length, then its tokens
  for (int i = 0; i < count; i += flat[i] + 1) breakers.emplace_back(flat + i + 1, flat + i + 1 + flat[i]);
  return llama_sampler_init_dry_testing(multiplier, base, length, last_n, breakers);
}
"""


class TokenData(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class TokenDataArray(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(TokenData)), ("size", ctypes.c_size_t), ("selected", ctypes.c_int64), ("sorted", ctypes.c_bool)]


def load_llama(folder):
    """The samplers alone: what they do not call stays undefined."""
    folder = pathlib.Path(folder)
    work = pathlib.Path(tempfile.mkdtemp())
    (work / "wrapper.cpp").write_text(WRAPPER)
    library = work / "samplers.so"
    sources = [work / "wrapper.cpp", *(folder / "src" / f"{part}.cpp" for part in ("llama-sampler", "llama-vocab", "llama-grammar", "llama-impl", "unicode", "unicode-data"))]
    includes = [f"-I{folder / part}" for part in ("include", "src", "ggml/include", "common")]
    subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", *includes, *map(str, sources), "-o", str(library)], check=True)
    import os
    lib = ctypes.CDLL(str(library), mode=os.RTLD_LAZY)
    for name in ("penalties", "top_n_sigma", "xtc", "typical", "mirostat_v2", "temp_ext", "top_p", "min_p"):
        getattr(lib, f"llama_sampler_init_{name}").restype = ctypes.c_void_p
    lib.dry.restype = ctypes.c_void_p
    return lib


def f(x):
    return ctypes.c_float(x)


def softmax(scores):
    return torch.softmax(torch.tensor(scores, dtype=torch.float64), -1).tolist()


def left(scores):
    """Probabilities of the tokens that are not ruled out."""
    return {str(i): p for i, p in enumerate(softmax(scores)) if p > 0}


class Llama:
    def __init__(self, lib):
        self.lib = lib

    def apply(self, sampler, logits, history=()):
        for token in history:
            self.lib.llama_sampler_accept(ctypes.c_void_p(sampler), ctypes.c_int32(token))
        data = (TokenData * len(logits))(*[TokenData(i, logit, 0) for i, logit in enumerate(logits)])
        array = TokenDataArray(data, len(logits), -1, False)
        self.lib.llama_sampler_apply(ctypes.c_void_p(sampler), ctypes.byref(array))
        return array

    def distribution(self, sampler, logits, history=()):
        array = self.apply(sampler, logits, history)
        scores = [-numpy.inf] * len(logits)
        for i in range(array.size):
            scores[array.data[i].id] = array.data[i].logit
        return left(scores)


def draw_logits(spread=2.0):
    return [round(float(x), 3) for x in RNG.normal(size=VOCAB) * spread]


def draw_history(length, kinds=VOCAB):
    return [int(x) for x in RNG.integers(0, kinds, size=length)]


def with_transformers(processors, logits, history):
    scores = torch.tensor([logits])
    for processor in processors:
        scores = processor(torch.tensor([history]), scores)
    return left(scores[0].tolist())


def transformers_cases():
    g = generation
    made = {
        "temperature": ({"temperature": 0.7}, [g.TemperatureLogitsWarper(0.7)]),
        "top_k": ({"top_k": 5}, [g.TopKLogitsWarper(5)]),
        "top_p": ({"top_p": 0.8}, [g.TopPLogitsWarper(0.8)]),
        "min_p": ({"min_p": 0.07}, [g.MinPLogitsWarper(0.07)]),
        "typical_p": ({"typical_p": 0.6}, [g.TypicalLogitsWarper(0.6)]),
        "typical_p, narrow": ({"typical_p": 0.2}, [g.TypicalLogitsWarper(0.2)]),
        "repetition_penalty": ({"repetition_penalty": 1.3}, [g.RepetitionPenaltyLogitsProcessor(1.3)]),
        "no_repeat_ngram_size 1": ({"no_repeat_ngram_size": 1}, [g.NoRepeatNGramLogitsProcessor(1)]),
        "no_repeat_ngram_size 2": ({"no_repeat_ngram_size": 2}, [g.NoRepeatNGramLogitsProcessor(2)]),
        "no_repeat_ngram_size 3": ({"no_repeat_ngram_size": 3}, [g.NoRepeatNGramLogitsProcessor(3)]),
        "min_tokens": ({"min_tokens": 30, "end_tokens": [3, 8]}, [g.MinNewTokensLengthLogitsProcessor(6, 30, [3, 8])]),
        "min_tokens, reached": ({"min_tokens": 3, "end_tokens": [3, 8]}, [g.MinNewTokensLengthLogitsProcessor(6, 3, [3, 8])]),
        "all in their order": (
            {"temperature": 1.4, "top_k": 12, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.8, "repetition_penalty": 1.2},
            [g.RepetitionPenaltyLogitsProcessor(1.2), g.TemperatureLogitsWarper(1.4), g.TopKLogitsWarper(12),
             g.TopPLogitsWarper(0.9), g.MinPLogitsWarper(0.05), g.TypicalLogitsWarper(0.8)]),
    }
    for name, (options, processors) in made.items():
        for spread in (0.7, 2.0):
            logits, history = draw_logits(spread), draw_history(24, 5 if "ngram" in name else VOCAB)
            yield case(f"transformers: {name}", options, logits, history, with_transformers(processors, logits, history))
    history = draw_history(20)
    words = [[2], [history[-1], 5], [history[-2], history[-1], 6], [history[-1] + 1, 7], [9, 9, 9, 9]]
    logits = draw_logits()
    processor = g.NoBadWordsLogitsProcessor(words, eos_token_id=1)
    yield case("transformers: bad_words", {"bad_words": words}, logits, history, with_transformers([processor], logits, history))


def llama_cases(llama):
    lib = llama.lib
    for n in (0.5, 1.0, 1.7):
        logits = draw_logits()
        yield case("llama.cpp: top_n_sigma", {"top_n_sigma": n}, logits, [], llama.distribution(lib.llama_sampler_init_top_n_sigma(f(n)), logits))
    for threshold in (0.05, 0.1, 0.3):
        logits = draw_logits(1.5)
        sampler = lib.llama_sampler_init_xtc(f(1.0), f(threshold), ctypes.c_size_t(1), ctypes.c_uint32(1))
        yield case("llama.cpp: xtc", {"xtc_probability": 1.0, "xtc_threshold": threshold}, logits, [], llama.distribution(sampler, logits))
    for p in (0.3, 0.7):
        logits = draw_logits()
        yield case("llama.cpp: typical", {"typical_p": p}, logits, [], llama.distribution(lib.llama_sampler_init_typical(f(p), ctypes.c_size_t(1)), logits))
    for presence, frequency in ((0.5, 0.0), (0.0, 0.4), (-0.3, 0.7)):
        logits, history = draw_logits(), draw_history(15, 8)
        sampler = lib.llama_sampler_init_penalties(VOCAB, ctypes.c_int32(64), f(1.0), f(frequency), f(presence))
        expected = llama.distribution(sampler, logits, history)  # it counts all that it is told of
        yield case("llama.cpp: penalties", {"presence_penalty": presence, "frequency_penalty": frequency}, logits, history, expected, prompt=0)
    dry = [(0.8, 1.75, 2, -1, []), (0.8, 1.75, 1, -1, [[2]]), (1.2, 1.5, 2, 12, [[1, 3]]), (0.5, 2.0, 0, -1, [[4], [2, 0]]), (0.3, 4.0, 1, -1, [])]
    for multiplier, base, length, last_n, breakers in dry:
        for repeat in (False, True):
            logits, history = draw_logits(), draw_history(40, 4)
            if repeat:
                history = (history[:10] + [0, 1, 0]) * 3 + history[:8]
            flat = [x for breaker in breakers for x in [len(breaker), *breaker]]
            sampler = lib.dry(f(multiplier), f(base), length, last_n if last_n >= 0 else 1000, (ctypes.c_int32 * len(flat))(*flat), len(flat))
            options = {"dry_multiplier": multiplier, "dry_base": base, "dry_allowed_length": length, "dry_penalty_last_n": last_n, "dry_breakers": breakers}
            yield case("llama.cpp: dry", options, logits, history, llama.distribution(sampler, logits, history))


def llama_dynamic_cases(llama):
    lib, keep = llama.lib, ctypes.c_size_t
    for temperature, width, exponent in ((1.0, 0.5, 1.0), (0.8, 0.3, 2.0), (0.7, 1.5, 0.6)):
        for spread in (0.3, 2.0, 6.0):
            logits = draw_logits(spread)
            options = {"temperature": temperature, "dynatemp_range": width, "dynatemp_exponent": exponent}
            yield case("llama.cpp: dynatemp", options, logits, [], llama.distribution(lib.llama_sampler_init_temp_ext(f(temperature), f(width), f(exponent)), logits))
    for least in (2, 6, 30):
        logits = draw_logits(3.0)
        made = {"top_p": (0.5, lib.llama_sampler_init_top_p), "min_p": (0.4, lib.llama_sampler_init_min_p), "typical_p": (0.3, lib.llama_sampler_init_typical)}
        for name, (value, init) in made.items():
            yield case(f"llama.cpp: min_keep, {name}", {name: value, "min_keep": least}, logits, [], llama.distribution(init(f(value), keep(least)), logits))
        logits = draw_logits(1.5)
        sampler = lib.llama_sampler_init_xtc(f(1.0), f(0.05), keep(least), ctypes.c_uint32(1))
        yield case("llama.cpp: min_keep, xtc", {"xtc_probability": 1.0, "xtc_threshold": 0.05, "min_keep": least}, logits, [], llama.distribution(sampler, logits))


def llama_window_cases(llama):
    for last_n in (0, 1, 5, 12):
        for repeat, frequency, presence in ((1.4, 0.0, 0.0), (1.0, 0.5, 0.3), (1.2, -0.2, 0.4)):
            logits, history = draw_logits(), draw_history(12, 9)
            sampler = llama.lib.llama_sampler_init_penalties(VOCAB, ctypes.c_int32(last_n), f(repeat), f(frequency), f(presence))
            options = {"repetition_penalty": repeat, "frequency_penalty": frequency, "presence_penalty": presence, "repeat_last_n": last_n}
            yield case("llama.cpp: repeat_last_n", options, logits, history, llama.distribution(sampler, logits, history), prompt=0)


def mirostat(llama, tau, eta, steps):
    sampler = llama.lib.llama_sampler_init_mirostat_v2(ctypes.c_uint32(5), f(tau), f(eta))
    rows = []
    for _ in range(steps):
        logits = draw_logits(1.0)
        array = llama.apply(sampler, logits)
        scores = [-numpy.inf] * VOCAB
        for i in range(array.size):
            scores[array.data[i].id] = array.data[i].logit
        rows.append({"logits": logits, "left": left(scores), "drawn": array.data[array.selected].id})
    return {"tau": tau, "eta": eta, "steps": rows}


def case(name, options, logits, history, expected, prompt=6):
    return {"name": name, "options": options, "logits": logits, "history": history, "prompt": min(prompt, len(history)), "expected": expected}


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


def main():
    llama = Llama(load_llama(sys.argv[1]))
    cases = [*transformers_cases(), *llama_cases(llama)]
    runs = [mirostat(llama, 2.0, 0.3, 12), mirostat(llama, 0.5, 0.5, 8)]
    cases += [*llama_dynamic_cases(llama), *llama_window_cases(llama)]
    lines = ",\n".join(json.dumps(rounded(c)) for c in cases)
    OUT.write_text('{"cases": [\n' + lines + '\n], "mirostat": [\n' + ",\n".join(json.dumps(rounded(r)) for r in runs) + "\n]}\n")


if __name__ == "__main__":
    main()
