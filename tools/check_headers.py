#!/usr/bin/env python3
"""Keeps headers light: no heavy library in any header, and a budget of preprocessed lines for those of core.

Compile time is paid per translation unit: a header that drags in 100 000 lines costs most of a second in every file
that includes it. core/view.h, which every kernel sees, stays under 25 000 lines (20 000 of them are <array> and
<string>); other headers of core under 60 000.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HEAVY = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]"
                   r"((?:nlohmann(?!/json_fwd)|fmt|spdlog|yaml-cpp|google/protobuf|hwy|oneapi/dnnl|dnnl|boost|CLI)[/.][^>\"]*)")
BUDGETS = {"core/view.h": 25_000}
CORE_BUDGET = 60_000
# Highway's own way to write one kernel for several instruction sets: such a file is not a header, it is included again
# for every target.
EXEMPT_SUFFIX = "-inl.h"


def heavy_includes(root):
    complaints = []
    for path in sorted((root / "src" / "ingot").rglob("*.h")):
        if path.name.endswith(EXEMPT_SUFFIX):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = HEAVY.match(line)
            if match:
                complaints.append(f"{path.relative_to(root)}:{number}: a header must not include <{match.group(1)}>; "
                                  "move what needs it into the .cpp")
    return complaints


def preprocessed_lines(root, path):
    """Lines that are left after preprocessing, without blank ones and line markers."""
    compiler = os.environ.get("CXX", "c++")
    done = subprocess.run([compiler, "-std=c++20", "-E", "-x", "c++", "-I", str(root / "src"), str(path)],
                          capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise RuntimeError(f"{path.relative_to(root)}:1: cannot be preprocessed on its own:\n{done.stderr}")
    return sum(1 for line in done.stdout.splitlines() if line.strip() and not line.startswith("#"))


def over_budget(root):
    base = root / "src" / "ingot"
    headers = sorted((base / "core").rglob("*.h"))

    def check(path):
        budget = BUDGETS.get(path.relative_to(base).as_posix(), CORE_BUDGET)
        try:
            lines = preprocessed_lines(root, path)
        except RuntimeError as error:
            return str(error)
        if lines > budget:
            return f"{path.relative_to(root)}:1: preprocesses to {lines} lines; its budget is {budget}"
        return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [complaint for complaint in pool.map(check, headers) if complaint]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    complaints = heavy_includes(root) + over_budget(root)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
