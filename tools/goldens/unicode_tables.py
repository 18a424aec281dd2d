#!/usr/bin/env python3
"""Prints the tables of src/ingot/text/unicode_tables.cpp.

The `tokenizers` library (0.23.3 here) takes its character properties from several Unicode versions: its regular
expressions from 16.0, punctuation, control characters and non-spacing marks from 8.0, normalization from 9.0. Debian's
PCRE2 knows 14.0, utf8proc 15.0. This script asks the library about every code point; `ingot_properties` (a JSON file
made by unicode_dump.cpp beside it) says what the two libraries know.

    tools/goldens/unicode_tables.py ingot_properties.json
"""
import json
import sys

from tokenizers import Regex, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def matches(pattern):
    """Code points that a one-character pattern matches."""
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    found = set()
    for i in range(0, len(POINTS), 4096):
        chunk = [c for c in POINTS[i:i + 4096] if c != 0xE000]
        for piece, _ in split.pre_tokenize_str("".join(chr(c) + "\ue000\ue001" for c in chunk)):
            if len(piece) == 1:
                found.add(ord(piece))
    return found


def isolated(split):
    return {c for c in POINTS if chr(c) in [p for p, _ in split.pre_tokenize_str("一" + chr(c) + "一")][1:2]}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def expand(pairs):
    return {c for first, last in pairs for c in range(first, last + 1)}


def table(name, points):
    body = ", ".join(f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(points))
    print(f"constexpr Range {name}[] = {{{body}}};\n")


def main():
    ours = {k: expand(v) for k, v in json.load(open(sys.argv[1])).items()}
    print("constexpr Newer kNewer[] = {" + ", ".join(
        f"{{0x{a:X}, 0x{b:X}, Newer::{name}}}" for a, b, name in sorted(
            (a, b, name) for name, pattern in
            [("lu", r"\p{Lu}"), ("ll", r"\p{Ll}"), ("lm", r"\p{Lm}"), ("lo", r"\p{Lo}"), ("mark", r"\p{M}"), ("nd", r"\p{Nd}"),
             ("number", r"[\p{Nl}\p{No}]"), ("punctuation", r"\p{P}"), ("symbol", r"\p{S}")]
            for a, b in ranges(matches(pattern) - ours[pattern]))) + "};\n")
    table("kPunctuationSince9", ours["punctuation"] - isolated(pre_tokenizers.Punctuation()))
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    table("kControlSince9", {c for c in ours["control"] - {9, 10, 13} if clean.normalize_str("a" + chr(c) + "b") != "ab"})
    strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    table("kNonspacingSince9", {c for c in ours["nonspacing"] if strip.normalize_str("a" + chr(c)) != "a"})
    accents = normalizers.StripAccents()
    table("kMarkSince10", {c for c in ours["mark"] if accents.normalize_str("a" + chr(c)) != "a"})
    nfkd = normalizers.NFKD()
    table("kDecomposedSince10", {c for c in ours["decomposed"] if nfkd.normalize_str(chr(c)) == chr(c)})


if __name__ == "__main__":
    main()
