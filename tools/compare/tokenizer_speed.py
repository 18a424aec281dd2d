#!/usr/bin/env python3
"""Times Ingot's tokenizer beside the `tokenizers` library: the same file, the same text, one core, the same run.

    tools/compare/tokenizer_speed.py build/bench/tokenizer_probe TOKENIZER_JSON TEXT [ROUNDS]

Prints medians. The text is encoded in pieces of about 4 kB, cut at line ends: the library is slower on one long text. It
does more per token (it also records offsets); there is no way to ask it for ids alone.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers


def main():
    probe, path, text_path = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    text = open(text_path, encoding="utf-8", newline="").read().replace("\0", "")
    pieces = [""]
    for line in text.splitlines(keepends=True):
        if len(pieces[-1]) > 4000:
            pieces.append("")
        pieces[-1] += line
    size = len(text.encode()) / 1e6
    texts = tempfile.NamedTemporaryFile("wb")
    texts.write("\0".join(pieces).encode())
    texts.flush()
    ours, theirs, counts = [], [], set()
    for _ in range(rounds):  # turn by turn, so that what else the machine does hits both
        load, encode, count = subprocess.run([probe, "time", path, texts.name], check=True, capture_output=True, text=True).stdout.split()
        ours.append((float(load), float(encode)))
        start = time.perf_counter()
        tokenizer = tokenizers.Tokenizer.from_file(path)
        loaded = time.perf_counter()
        tokenizer.no_truncation()  # which Ingot leaves to the caller, and padding too
        tokenizer.no_padding()
        total = sum(len(tokenizer.encode(piece, add_special_tokens=False).ids) for piece in pieces)
        theirs.append((loaded - start, time.perf_counter() - loaded))
        counts |= {int(count), total}
    assert len(counts) == 1, f"the numbers of ids differ: {counts}"
    print(f"{text_path}: {size:.2f} MB, {counts.pop()} ids; tokenizers {tokenizers.__version__}")
    for i, what in enumerate(("load", "encode")):
        a, b = statistics.median(t[i] for t in ours), statistics.median(t[i] for t in theirs)
        rate = f" ({size / a:.1f} and {size / b:.1f} MB/s)" if what == "encode" else ""
        print(f"{what:7} ingot {a * 1e3:9.2f} ms   tokenizers {b * 1e3:9.2f} ms   {b / a:5.1f} times as fast{rate}")


if __name__ == "__main__":
    main()
