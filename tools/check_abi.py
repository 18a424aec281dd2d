#!/usr/bin/env python3
"""Compares the C API with what the minor version promised: functions, structs, constants.

The headers' functions get empty bodies, in a library that takes a moment to build; abidiff (of libabigail) compares it with
tests/c_api/abi/VERSION.abi. Something that a program built before would miss, or find at another offset, is an error, and so
is a function of the headers that libingot.so lacks. --update accepts additions, and describes a new minor version.
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


def preprocessed():
    return run(os.environ.get("CC", "gcc"), "-E", "-P", "-I", ROOT / "src", "-x", "c", ROOT / "src/ingot/ingot.h")


def functions():
    """{name: declaration} of the public headers."""
    return {name: declaration for declaration, name in FUNCTION.findall(preprocessed())}


def build_library(folder, declared):
    bodies = "".join(f"{declaration} {{ {'' if declaration.startswith('void ') else 'return 0;'} }}\n"
                     for _, declaration in sorted(declared.items()))
    source = folder / "ingot.c"
    source.write_text("#include <ingot/ingot.h>\n" + bodies)
    library = folder / "libingot.so"
    run(os.environ.get("CC", "gcc"), "-std=c11", "-w", "-g", "-O0", "-fPIC", "-shared", "-I", ROOT / "src", source, "-Wl,-soname,libingot.so",
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
    options = parser.parse_args()
    declared = functions()
    for name in missing(options.library, declared) if options.library else []:
        print(f"src/ingot/c_api: {name} is declared, and {options.library.name} does not export it with a version")
        return 1
    baseline = ROOT / "tests/c_api/abi" / f"{version()}.abi"
    with tempfile.TemporaryDirectory() as temporary:
        library = build_library(pathlib.Path(temporary), declared)
        if options.update:
            baseline.parent.mkdir(parents=True, exist_ok=True)
            run("abidw", "--no-comp-dir-path", "--no-corpus-path", "--no-show-locs", "--out-file", baseline, library)
            return 0
        done = subprocess.run(["abidiff", str(baseline), str(library)], capture_output=True, text=True)
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        if done.returncode != 0:
            print(f"{baseline.relative_to(ROOT)}:1: the C API is not what it was. Additions: accept them with tools/check_abi.py "
                  "--update. Anything else breaks programs that were built before: undo it, or make it a new minor version")
        return 0 if done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
