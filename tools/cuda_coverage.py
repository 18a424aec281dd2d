#!/usr/bin/env python3
"""Writes the table of docs/cuda-backend.md, which kernels have a CUDA implementation, or (--check) fails where it is out of date
or a kernel has none.

Kernels are the `inline Kernel<...> name("name")` of src/ingot/kernels/*.h; each has an implementation on the CPU, the
reference. Those on CUDA are the `name.add(DeviceType::cuda, {"implementation"` of src/ingot/kernels/cuda, .cu and .cpp.
`// CPU only: why` behind a kernel says that it needs none.
"""
import argparse
import pathlib
import re
import sys

KERNEL = re.compile(r'^inline Kernel<\w+>\s+(\w+)\("\w+"\);(?:  // (CPU only: .*))?', re.MULTILINE)
CUDA = re.compile(r'\b(\w+)\.add\(\s*DeviceType::cuda,\s*\{"(\w+)"')
BEGIN, END = "<!-- coverage: begin -->\n", "<!-- coverage: end -->\n"


def coverage(root):
    """{kernel: [its implementations on CUDA]}, by name."""
    kernels = root / "src" / "ingot" / "kernels"
    found = {name: [why] if why else [] for path in kernels.glob("*.h") for name, why in KERNEL.findall(path.read_text())}
    for path in sorted((kernels / "cuda").rglob("*.c[up]*")):
        for name, implementation in CUDA.findall(path.read_text()):
            if name not in found:
                raise SystemExit(f"{path}: {name} is not a kernel of {kernels}")
            found[name].append(implementation)
    return dict(sorted(found.items()))


def table(found):
    wanted = [names for names in found.values() if not (names and names[0].startswith("CPU only"))]
    there = sum(1 for names in wanted if names)
    lines = [f"{there} of {len(wanted)} kernels.", "", "| kernel | on CUDA |", "|---|---|"]
    lines += [f"| `{name}` | {', '.join(names) if names else '**missing**'} |" for name, names in found.items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="fail where the page is out of date or a kernel is missing, change nothing")
    arguments = parser.parse_args()
    page = arguments.root / "docs" / "cuda-backend.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    found = coverage(arguments.root)
    made = before + BEGIN + table(found) + END + rest.split(END)[1]
    missing = [name for name, names in found.items() if not names]
    if arguments.check and missing:
        print(f"docs/cuda-backend.md:1: without a CUDA implementation: {', '.join(missing)}; write one in src/ingot/kernels/cuda")
        return 1
    if made == text:
        return 0
    if arguments.check:
        print("docs/cuda-backend.md:1: the table of kernels is out of date; run tools/cuda_coverage.py")
        return 1
    page.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
