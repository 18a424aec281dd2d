#!/usr/bin/env python3
"""Compares the C API with what the minor version promised: functions, structs, constants.

The headers' functions get empty bodies, in a library that takes a moment to build; abidiff (of libabigail) compares it with
tests/c_api/abi/VERSION.abi. Constants, which debug information lacks where no function takes their enum, stand in
VERSION.constants. Something that a program built before would miss, find at another offset or by another number, is an error,
and so is a function of the headers that libingot.so lacks. --update accepts additions, and describes a new minor version.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUNCTION = re.compile(r'__attribute__\(\(visibility\("default"\)\)\)\s+([^;{}]*?\b(ingot_\w+)\s*\([^;{}]*\))\s*;')


def version():
    return re.search(r"project\(ingot VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def preprocessed(headers=ROOT / "src"):
    return run(os.environ.get("CC", "gcc"), "-E", "-P", "-I", headers, "-x", "c", headers / "ingot/ingot.h")


def functions(headers=ROOT / "src"):
    """{name: declaration} of the public headers."""
    return {name: declaration for declaration, name in FUNCTION.findall(preprocessed(headers))}


def constants(folder, headers):
    """{name: value} of the enumerators of the public headers."""
    bodies = re.findall(r"\benum\b[^{;]*\{([^}]*)\}", preprocessed(headers))
    names = [entry.split("=")[0].strip() for body in bodies for entry in body.split(",") if entry.strip()]
    source, program = folder / "constants.c", folder / "constants"
    lines = "".join(f'  printf("{name} %lld\\n", (long long){name});\n' for name in names)
    source.write_text(f"#include <ingot/ingot.h>\n#include <stdio.h>\nint main(void) {{\n{lines}  return 0;\n}}\n")
    run(os.environ.get("CC", "gcc"), "-std=c11", "-I", headers, source, "-o", program)
    return dict(line.split() for line in run(program).splitlines())


def changed_constants(before, now):
    """What programs built before would read otherwise, in words; and what is new."""
    wrong = [f"the constant {name} was {value} and is {now.get(name, 'gone')}" for name, value in before.items() if now.get(name) != value]
    return wrong + [f"the constant {name} = {now[name]} is new" for name in now if name not in before]


def build_library(folder, declared, headers):
    bodies = "".join(f"{declaration} {{ {'' if declaration.startswith('void ') else 'return 0;'} }}\n"
                     for _, declaration in sorted(declared.items()))
    source = folder / "ingot.c"
    source.write_text("#include <ingot/ingot.h>\n" + bodies)
    library = folder / "libingot.so"
    run(os.environ.get("CC", "gcc"), "-std=c11", "-w", "-g", "-O0", "-fPIC", "-shared", "-I", headers, source, "-Wl,-soname,libingot.so",
        f"-Wl,--version-script={ROOT / 'cmake/c_api.map'}", "-o", library)
    return library


def missing(library, declared):
    """Functions of the headers that a library does not export."""
    exported = set(re.findall(r" T (ingot_\w+)@@", run("nm", "-D", "--with-symbol-versions", library)))
    return sorted(set(declared) - exported)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=pathlib.Path, help="libingot.so, which has to export every function")
    parser.add_argument("--update", action="store_true", help="write the description of the ABI as it is now")
    parser.add_argument("--headers", type=pathlib.Path, default=ROOT / "src", help="the folder of ingot/ingot.h (src)")
    options = parser.parse_args()
    declared = functions(options.headers)
    for name in missing(options.library, declared) if options.library else []:
        print(f"src/ingot/c_api: {name} is declared, and {options.library.name} does not export it with a version")
        return 1
    baseline = ROOT / "tests/c_api/abi" / f"{version()}.abi"
    numbers = baseline.with_suffix(".constants")
    with tempfile.TemporaryDirectory() as temporary:
        library = build_library(pathlib.Path(temporary), declared, options.headers)
        now = constants(pathlib.Path(temporary), options.headers)
        if options.update:
            baseline.parent.mkdir(parents=True, exist_ok=True)
            numbers.write_text("".join(f"{name} {value}\n" for name, value in now.items()))
            run("abidw", "--no-comp-dir-path", "--no-corpus-path", "--no-show-locs", "--out-file", baseline, library)
            return 0
        for path in (baseline, numbers):
            if not path.is_file():
                print(f"{path.relative_to(ROOT)}: is missing; write it with tools/check_abi.py --update")
                return 1
        done = subprocess.run(["abidiff", str(baseline), str(library)], capture_output=True, text=True)
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        moved = changed_constants(dict(line.split() for line in numbers.read_text().splitlines()), now)
        for told in moved:
            print(told)
        if done.returncode != 0 or moved:
            print(f"{baseline.relative_to(ROOT)}:1: the C API is not what it was. Additions: accept them with tools/check_abi.py "
                  "--update. Anything else breaks programs that were built before: undo it, or make it a new minor version")
        return 1 if done.returncode != 0 or moved else 0


if __name__ == "__main__":
    sys.exit(main())
