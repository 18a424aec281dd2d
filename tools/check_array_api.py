#!/usr/bin/env python3
"""Runs the array API standard's conformance suite (github.com/data-apis/array-api-tests, commit 55fcc601 of April 2026) over
ingot.array_api, without the dtypes that are not there. A copy of the suite runs, in which libraries without complex numbers load.

    PYTHONPATH=build/python python3 tools/check_array_api.py --suite array-api-tests [-k CASES] [--examples N]
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NOT_THERE = "uint16,uint32,uint64,complex64,complex128"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", required=True, type=Path, help="a checkout of the suite, with its submodule array-api")
    parser.add_argument("--examples", type=int, default=20, help="inputs that Hypothesis draws for each test")
    parser.add_argument("rest", nargs="*", default=["array_api_tests"], help="tests, and further arguments of pytest")
    options, more = parser.parse_known_args()
    if not (options.suite / "array-api" / "src").is_dir():
        sys.exit(f"{options.suite} has no array-api/src: git submodule update --init there")
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run(copy_of(options.suite, Path(folder) / "suite"), options, more))


def copy_of(suite, place):
    shutil.copytree(suite, place, ignore=shutil.ignore_patterns(".git"))
    helpers = place / "array_api_tests" / "dtype_helpers.py"
    helpers.write_text(helpers.read_text().replace("for dt in complex_dtypes]", "for dt in complex_dtypes or real_float_dtypes]"))
    return place


def run(suite, options, more):
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # the suite runs in a folder of its own
    environment = {**os.environ, "PYTHONPATH": path, "ARRAY_API_TESTS_MODULE": "ingot.array_api", "ARRAY_API_TESTS_VERSION": "2024.12", "ARRAY_API_TESTS_SKIP_DTYPES": NOT_THERE}
    command = [sys.executable, "-m", "pytest", "-q", "--disable-data-dependent-shapes", "--max-examples", str(options.examples)]
    command += ["-p", "no:cacheprovider", *options.rest, *more]
    return subprocess.run(command, cwd=suite, env=environment).returncode


if __name__ == "__main__":
    main()
