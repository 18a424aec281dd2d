#!/usr/bin/env python3
"""Compares Ingot's ids with llama.cpp's for the real vocabularies that llama.cpp's repository holds.

    tools/compare/llama_cpp_vocabularies.py build/bin/ingot llama.cpp/models

Each models/ggml-vocab-NAME.gguf stands beside texts (.inp) and the ids that they have to give (.out). Vocabularies whose kind
Ingot does not know are listed; the exit status is 1 where ids differ.
"""
import json
import pathlib
import subprocess
import sys


def main():
    ingot, models = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = 0
    for vocabulary in sorted(models.glob("ggml-vocab-*.gguf")):
        texts, ids = vocabulary.with_name(vocabulary.name + ".inp"), vocabulary.with_name(vocabulary.name + ".out")
        if not texts.exists():
            continue
        different = []
        cases = zip(texts.read_text().split("\n__ggml_vocab_test__\n"), ids.read_text().split("\n"))
        for count, (text, expected) in enumerate(cases, 1):
            done = subprocess.run([ingot, "tokenize", vocabulary, "--json", "--text", text], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{vocabulary.name}: not read: {json.loads(done.stderr)['error']['message'].split('.gguf: ')[-1]}")
                break
            if json.loads(done.stdout)["ids"] != [int(i) for i in expected.split()]:
                different.append(text)
        else:
            wrong += len(different)
            print(f"{vocabulary.name}: {count} texts, {len(different)} differ {different[:3] or ''}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
