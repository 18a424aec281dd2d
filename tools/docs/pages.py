#!/usr/bin/env python3
"""Puts the pages of the documentation into one folder: docs/, those that the binary tells about itself, and
the results of benchmarks.

Links that lead out of docs/ (to sources, examples, the README) become plain text: the site has no such pages.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

import benchmarks
from commands import Commands

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cuda_coverage

# Marks of commands (tools/docs/commands.py), as readers see them.
RUNS = re.compile(r"^( *)<!-- runs as written -->$", re.MULTILINE)
NEEDS = re.compile(r"^( *)<!-- needs: (.+) -->$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)]+)\)")
PAGE_LINK = re.compile(r"\[([\w-]+\.md)\](?=\(\1)")  # named by its file


def run(binary, *arguments):
    return subprocess.run([binary, *arguments], capture_output=True, text=True, check=True).stdout


def commands(binary):
    parts = ["# Commands\n\nEvery command and option, as `ingot COMMAND --help` tells them.\n\n```sh\ningot help forecast fit\n```\n"]
    parts += [f"## {' '.join(('ingot', *path))}\n\n```\n{text.strip()}\n```\n" for path, text in Commands(binary).walk() if path]
    return "\n".join(parts)


def formats(binary):
    """Formats of prepacked weights by device: what the matmuls of each run on. The CPU's implementations are those of the binary, a GPU's those of
    the sources, which a build without CUDA does not have."""
    on_gpu = cuda_coverage.coverage(pathlib.Path(__file__).resolve().parents[2])
    rows = json.loads(run(binary, "devices", "--json"))["formats"]
    lines = ["## Weight formats by device\n", "Formats of prepacked weights that `--format` takes for language models, and what their matmuls run on: implementations of the "
             "kernel, the fastest first, of which the processor's instruction set chooses. [Quantization quality](quality.md) has their errors.\n",
             "| format | bits per weight | kernel | CPU | NVIDIA GPU |", "|---|---|---|---|---|"]
    lines += [f"| `{row['format']}` | {row['bits_per_weight']:g} | `{row['kernel']}` | {', '.join(row['implementations'])} | "
              f"{', '.join(on_gpu[row['kernel']]) or 'no'} |" for row in rows]
    only_cpu = [f"`{name}` ({found[0].removeprefix('CPU only: ')})" for name, found in on_gpu.items() if found and found[0].startswith("CPU only")]
    lines += ["\n## Kernels by device\n", f"Families run on every device: of {len(on_gpu)} kernels, each of which has an implementation on CPUs, "
              f"{len(on_gpu) - len(only_cpu)} have one on NVIDIA GPUs. On CPUs only:\n", *(f"- {kernel}" for kernel in only_cpu)]
    return lines


# What families of prepacked weights do: language models and encoders. The networks of other tasks are small and stay dense.
QUANTIZED = {"generate", "embed"}


def gguf(family):
    if not family.get("gguf"):
        return ""
    return f"`{family['gguf']}`" + ("" if family["gguf_written"] else ", read")


def models(binary):
    families = json.loads(run(binary, "models", "--json"))
    parts = ["# Models and formats\n\nWhich models Ingot opens, what it does with them, and in which weight formats.\n\n```sh\ningot models qwen3\n```\n\nThe families that `ingot models` lists; quantized ones run in every weight "
             "format below.\n", "| family | what it is | run | train | GGUF, read and written | NVIDIA GPU | quantized | variants | for instance |",
             "|---|---|---|---|---|---|---|---|---|"]
    # A kernel without an implementation there would be empty; those of CPUs alone have something else in their place.
    on_gpu = "yes" if all(cuda_coverage.coverage(pathlib.Path(__file__).resolve().parents[2]).values()) else "in part"
    for family in families:
        tasks = family.get("tasks", [])
        cells = [f"`{family['name']}`", family.get("summary", ""), ", ".join(task for task in tasks if task != "train"),
                 "yes" if "train" in tasks else "", gguf(family), on_gpu,
                 "yes" if QUANTIZED & set(tasks) else "",
                 ", ".join(family.get("variants", [])), ", ".join(f"`{r}`" for r in family.get("repositories", [])[:2])]
        parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    parts += ["", *formats(binary)]
    return "\n".join(parts) + "\n"


def configuration(binary):
    parts = ["# Configuration keys\n\nEvery key of every configuration file.\n\n```sh\ningot train --keys lora\n```\n\nThis is what `ingot train --keys`, `ingot forecast fit --keys`, `ingot serve --keys`, `ingot tune --keys` and `ingot mahjong train --keys` say.\n"]
    for title, command in (("Training", ("train",)), ("Forecasting", ("forecast", "fit")), ("Serving", ("serve",)),
                           ("Tuning", ("tune",)), ("Self-play", ("mahjong", "train"))):
        parts.append(f"## {title}\n")
        for section in json.loads(run(binary, *command, "--keys", "--json")):
            parts += [f"### {title}: {section['section']}\n", "| key | value | default | meaning |", "|---|---|---|---|"]
            for key in section["keys"]:
                names = ", ".join(f"`{name}`" for name in [key["key"], *key.get("aliases", [])])
                kind = key["kind"] + (f", in {key['unit']}" if "unit" in key else "")
                cells = [names, kind, key["default"], key["doc"]]
                parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
            parts.append("")
    return "\n".join(parts) + "\n"


def titles(root):
    """File of a page: its title in the navigation."""
    return {name: title for title, name in re.findall(r"^ +- ([^:\n]+): ([\w-]+\.md)$", (root / "mkdocs.yml").read_text(), re.MULTILINE)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the binary ingot")
    parser.add_argument("pages", type=pathlib.Path, help="the folder to write to")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    shutil.rmtree(arguments.pages, ignore_errors=True)
    shutil.copytree(root / "docs", arguments.pages, ignore=shutil.ignore_patterns("Doxyfile"))
    title_of = titles(root)
    for page in arguments.pages.glob("*.md"):
        text = LINK.sub(r"\1", page.read_text())
        text = PAGE_LINK.sub(lambda match: f"[{title_of.get(match.group(1), match.group(1))}]", text)
        text = RUNS.sub(r'\1<p class="mark runs">Runs as written, from the top of the repository; a test does it.</p>\n', text)
        page.write_text(NEEDS.sub(r'\1<p class="mark">Needs \2.</p>\n', text))
    (arguments.pages / "commands.md").write_text(commands(arguments.binary))
    (arguments.pages / "configuration.md").write_text(configuration(arguments.binary))
    (arguments.pages / "models.md").write_text(models(arguments.binary))
    for name, text in benchmarks.pages():
        (arguments.pages / name).write_text(text)


if __name__ == "__main__":
    main()
