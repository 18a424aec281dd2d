#!/usr/bin/env python3
"""Opens the GGUF files that Ingot writes in llama.cpp, and compares greedy ids and logits.

    python3 tools/check_llama_cpp.py SOURCE BUILD [NAME...] [--ingot build/bin/ingot]

SOURCE is a checkout of llama.cpp (or vendor/llama.cpp of llama-cpp-python's source package), BUILD a folder it was built in
with its libraries:

    cmake -S SOURCE -B BUILD -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON && cmake --build BUILD --target llama

Every tiny model of tests/models/goldens, and of random configurations, gets a tokenizer of single bytes and goes through `ingot convert NAME x.gguf`; one that
GGUF has no field for is refused, and listed as such. llama.cpp then continues a prompt of ids by the most probable token, and `ingot logits` reads the same ids from
the checkpoint: each of those ids must be its first choice, too, and the logits within TOLERANCE. Exits with 1 where a model is
not opened, or differs. By hand, after a change to the export; needs g++ and numpy.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "models" / "goldens"
TOLERANCE = 5e-3  # of logits of about 1; ggml takes GELU from a table in f16
PROMPT, GREEDY = 12, 16  # beyond the windows and the trained contexts of the tiny models


def build_probe(source, build, folder):
    """Compiles tools/compare/llama_cpp_greedy.cpp. Returns (program, environment)."""
    program = folder / "llama_cpp_greedy"
    libraries = {path.parent for pattern in ("libllama.*", "libggml*") for path in build.rglob(pattern)}
    if not libraries:
        sys.exit(f"{build}: no libllama in it; build llama.cpp's target llama there with -DBUILD_SHARED_LIBS=ON")
    search = [argument for path in libraries for argument in ("-L" + str(path), "-Wl,-rpath-link," + str(path))]
    subprocess.run(["g++", "-std=c++20", "-O1", ROOT / "tools/compare/llama_cpp_greedy.cpp", "-I", source / "include", "-I",
                    source / "ggml/include", *search, "-lllama", "-o", program], check=True)
    return program, os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def last_line(text):
    return text.strip().splitlines()[-1] if text.strip() else "no message"


def with_tokenizer(ingot, checkpoint, directory):
    """A copy of the checkpoint, as a directory with a byte-level tokenizer.json of as many tokens as it has."""
    shutil.rmtree(directory, ignore_errors=True)
    if checkpoint.is_dir():
        shutil.copytree(checkpoint, directory)
    else:
        subprocess.run([ingot, "convert", checkpoint, directory], check=True, capture_output=True)
    config = json.loads((directory / "config.json").read_text())
    size = config.get("text_config", config)["vocab_size"]
    tokens = ["\u010a", "\u0120", "ab"] + [chr(code) for code in range(33, 127)]  # newline and space as ByteLevel writes them
    tokens = (tokens + [f"<{i}>" for i in range(size)])[:size]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": ["a b"] if size > 90 else []}
    (directory / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level, "model": model}))
    return directory


def checkpoints(ingot, models):
    """Directories of decoders, and the files of llama.cpp's converter. tools/check_encoder_gguf.py has the encoders."""
    listed = json.loads(subprocess.run([ingot, "models", "--json"], check=True, capture_output=True, text=True).stdout)
    others = {family["name"] for family in listed if "generate" not in family["tasks"]}
    found = {}
    for path in sorted([*GOLDENS.glob("*/model.safetensors"), *models.glob("*/model.safetensors")]):
        directory, config = path.parent, path.parent / "config.json"
        if not (directory / "expected.safetensors").exists() or not config.exists() or directory.name.endswith("legacy"):
            continue
        facts = json.loads(config.read_text())
        if facts.get("model_type") not in others and not facts.get("use_bidirectional_attention"):
            found[directory.name if directory.parent == GOLDENS else f"random_{directory.name}"] = directory
    return found | {f"gguf_{path.stem}": path for path in (GOLDENS / "gguf").glob("*.gguf")}


def compare(ingot, probe, environment, checkpoint, folder):
    """(verdict, whether it is a failure)."""
    model, rows = folder / "model.gguf", folder / "rows.f32"
    checkpoint = with_tokenizer(ingot, checkpoint, folder / "checkpoint")
    made = subprocess.run([ingot, "convert", checkpoint, model], capture_output=True, text=True)
    if made.returncode != 0:
        return f"refused: {last_line(made.stderr).split(': ', 3)[-1][:110]}", False
    ignored = re.search(r"applies no sliding window .* beyond (\d+) tokens", made.stderr)
    asked, count = PROMPT, GREEDY
    if ignored:  # and says so: what it gives up to there
        asked = (int(ignored.group(1)) + 1) // 2
        count = int(ignored.group(1)) - asked + 1
    prompt = [str((7 * i + 3) % 50) for i in range(asked)]
    theirs = subprocess.run([probe, model, rows, str(count), *prompt], capture_output=True, text=True, env=environment)
    if theirs.returncode != 0:
        errors = [line for line in theirs.stderr.splitlines() if "error" in line.lower() or "assert" in line.lower()]
        return f"NOT OPENED ({theirs.returncode}): {(errors or [last_line(theirs.stderr)])[0][:150]}", True
    ids = theirs.stdout.split()
    config = json.loads((checkpoint / "config.json").read_text())
    rope, original = config.get("rope_parameters") or {}, config.get("original_max_position_embeddings") or 0
    if rope.get("rope_type") == "longrope" and len(ids) <= original:
        return f"opened, not compared: llama.cpp takes the long factors in its context of 256, the model beyond {original} tokens", False
    subprocess.run([ingot, "logits", checkpoint, "--tokens", ",".join(ids[:-1]), "-o", folder / "logits.npy"], check=True,
                   capture_output=True)
    ours = numpy.load(folder / "logits.npy")
    expected = numpy.fromfile(rows, dtype=numpy.float32).reshape(len(ours), -1)[:, :ours.shape[1]]
    same = int((ours[asked - 1:].argmax(axis=1) == numpy.array(ids[asked:], dtype=int)).sum())
    difference = float(numpy.abs(ours - expected).max())
    failed = same < count or difference > TOLERANCE
    within = f", within its window of {ignored.group(1)} alone" if ignored else ""
    return f"{'DIFFERS' if failed else 'equal'}: {same} of {count} ids, logits within {difference:.1e}{within}", failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--ingot", default=ROOT / "build/bin/ingot")
    parser.add_argument("--models", type=pathlib.Path, default=GOLDENS / "random",
                        help="further models, as tools/goldens/random_models.py --write makes them")
    args = parser.parse_args()
    found, failures = checkpoints(args.ingot, args.models), 0
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        probe, environment = build_probe(args.source, args.build, folder)
        for name in args.names or sorted(found):
            verdict, failed = compare(args.ingot, probe, environment, found[name], folder)
            failures += failed
            print(f"{name:24} {verdict}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
