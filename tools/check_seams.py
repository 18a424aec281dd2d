#!/usr/bin/env python3
"""What the layers above nn must not know.

Whether a weight is dense or quantized, fused with another or adapted, is nn's business (nn/linear_weight.h): a model,
or a training task, that looks past a Linear would skip an adapter without a word. What a device is good at is asked of
its capabilities (core/backend.h) and of its kernels' traits (kernels/kernel_traits.h), not of its type.
"""
import argparse
import pathlib
import re
import sys

LAYERS = ("models", "train", "forecast", "rl")
# core and kernels are what devices are made of.
LAYERS_OF_DEVICES = ("core", "kernels")
RULES = (
    (re.compile(r"\bpacked\b"), "asks whether a weight is quantized; apply it through nn's Linear or ProjectionGroup"),
    (re.compile(r"\bRounding\b"), "decides how an input is quantized; nn's layers do"),
    (re.compile(r"\bweight\.dense\b"), "reads a matrix past its LinearWeight; effective() gives its values"),
)
DEVICE_RULES = ((re.compile(r"\bis_(cpu|cuda)\(\)"), "asks for a device's type; ask the capabilities of its backend"),)
# Literals and comments say nothing about what code does.
IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def blanked(match):
    return re.sub(r"[^\n]", " ", match.group())


def check(text, rules=RULES + DEVICE_RULES):
    """(line number, complaint) of what the text must not say."""
    for number, line in enumerate(IGNORED.sub(blanked, text).splitlines(), 1):
        for pattern, complaint in rules:
            if match := pattern.search(line):
                yield number, f"'{match.group().lstrip('.')}' {complaint}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    count = 0
    source = root / "src" / "ingot"
    for path in sorted(source.rglob("*")):
        layer = path.relative_to(source).parts[0]
        if path.suffix not in (".h", ".cpp") or layer in LAYERS_OF_DEVICES:
            continue
        for number, complaint in check(path.read_text(), RULES + DEVICE_RULES if layer in LAYERS else DEVICE_RULES):
            print(f"{path.relative_to(root)}:{number}: {complaint}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
