#!/usr/bin/env python3
"""Writes tests/text/regex_goldens.json: the pieces that the `tokenizers` library cuts by patterns with sets.

Run with requirements.txt's versions:  tools/goldens/regex_goldens.py
A pattern that the library refuses has "pieces": null.
"""
import json
import pathlib

import tokenizers
from tokenizers import Regex, pre_tokenizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "text" / "regex_goldens.json"
TEXTS = [
    "Hello world, it's 12345 o'clock",
    "漢字とかな mixed Ünïcödé Words, CamelCase",
    "a-b--c [x] {y} && z\n\n  tail  ",
    "ABCxyz żółć Ελληνικά русский עברית 한국어 123",
    "",
]
PATTERNS = [
    r"[\p{L}&&[^\p{Han}]]+",
    r"[\p{L}&&\p{Lu}]+",
    r"[a-z&&[^aeiou]]+",
    r"[^a-z&&[^aeiou]]+",
    r"[\w&&[^\d]&&[^_x]]+",
    r"[a[b-d]x]+",
    r"[^a[b-d]\s]+",
    r"[[a-f]&&[d-z]]",
    r"[\p{Lu}\p{Lt}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lo}&&[^\p{Han}]]+",
    r"(?i:[a-c&&[^b]])",
    r"[\[\]&&[^x]]|[&]{2}",
    r"[[:alpha:]&&[^a-z]]+",
    r" ?[^(\s|[.,!?])]+",
    r"[\s&&[^\n]]+(?=\S)",
    r"[+--]",
    r"[!-/&&[^,-.]]",
]


def pieces(pattern, text):
    return [piece for piece, _ in pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(text)]


def golden(pattern):
    try:
        return {"pattern": pattern, "pieces": [pieces(pattern, text) for text in TEXTS]}
    except Exception:
        return {"pattern": pattern, "pieces": None}


OUT.write_text(json.dumps({"texts": TEXTS, "patterns": [golden(p) for p in PATTERNS]}, ensure_ascii=False, indent=1) + "\n")
