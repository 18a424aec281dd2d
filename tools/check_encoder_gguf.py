#!/usr/bin/env python3
"""Opens GGUF files of encoders that Ingot writes in llama.cpp, and compares the vectors of texts.

    python3 tools/check_encoder_gguf.py [NAME...] [--dtype q8_0] [--ingot build/bin/ingot]

Every tiny encoder of tests/models/goldens that llama.cpp has an architecture for gets a WordPiece tokenizer of single letters and
goes through `ingot convert`; then `ingot embed` on the directory, `ingot embed` on the file and llama.cpp's server give vectors, which
have to agree. With --dtype the file's weights are rounded, and the two that read it have to agree. By hand, after a change to the export. Needs
a build of llama.cpp: pip install numpy==2.4.6 xllamacpp==2026.10.11549
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import xllamacpp

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "models" / "goldens"
NAMES = ("bert_masked_lm", "bert_legacy", "roberta_masked_lm", "xlm_roberta", "camembert_masked_lm", "distilbert_masked_lm",
         "nomic_bert_masked_lm", "nomic_bert_release", "modernbert_masked_lm")
TEXTS = ("a b c", "hello world", "the quick brown fox, jumped!", "z")
SAME = 1e-5  # of our own two: the same arithmetic
TOLERANCE = 5e-3  # of unit vectors; ggml takes GELU from a table in f16 and by tanh


def with_tokenizer(golden, directory):
    shutil.copytree(golden, directory)
    size = json.loads((directory / "config.json").read_text())["vocab_size"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + x for x in letters)]
    tokens = (tokens + [f"[unused{i}]" for i in range(size)])[:size]
    (directory / "vocab.txt").write_text("\n".join(tokens) + "\n")
    (directory / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    modules = [{"type": "sentence_transformers.models." + kind, "path": place}
               for kind, place in (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))]
    (directory / "modules.json").write_text(json.dumps(modules))


def ours(ingot, model):
    arguments = [part for text in TEXTS for part in ("-t", text)]
    ran = subprocess.run([ingot, "embed", model, *arguments, "--json"], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    found = json.loads(ran.stdout)
    return numpy.array([row["embedding"] if isinstance(row, dict) else row for row in (found if isinstance(found, list) else found["embeddings"])])


def llama_cpp(model):
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.embedding = True
    params.n_ctx = 64
    params.n_parallel = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    answer = server.handle_embeddings({"input": list(TEXTS)})
    return numpy.array([row["embedding"] for row in sorted(answer["data"], key=lambda row: row["index"])])


def check(ingot, name, folder, dtype):
    directory, file = folder / name, folder / (name + ".gguf")
    with_tokenizer(GOLDENS / name, directory)
    subprocess.run([ingot, "convert", directory, file, *(["--dtype", dtype] if dtype else [])], check=True, capture_output=True, text=True)
    wanted, found, theirs = ours(ingot, directory), ours(ingot, file), llama_cpp(file)
    rounded = float(numpy.abs(found - wanted).max())
    near = float(numpy.abs(theirs - (found if dtype else wanted)).max())
    return f"file within {rounded:.1e}, llama.cpp within {near:.1e}", near > TOLERANCE or (rounded > SAME and not dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot", default=str(ROOT / "build" / "bin" / "ingot"))
    parser.add_argument("--dtype", help="what convert stores the weights in: f16, bf16, q8_0 (f16 in rows of 24, which the tiny models have) ...; default: as they are")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    failures = 0
    for name in arguments.names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdict, failed = check(arguments.ingot, name, pathlib.Path(folder), arguments.dtype)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                verdict, failed = str(getattr(error, "stderr", None) or error).strip(), True
        failures += failed
        print(f"{'FAILED ' if failed else ''}{name}: {verdict}", flush=True)
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
