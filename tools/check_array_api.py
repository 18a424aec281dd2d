#!/usr/bin/env python3
"""Runs the array API standard's conformance suite (github.com/data-apis/array-api-tests, commit 55fcc601 of April 2026) over
ingot.array_api, without the dtypes and the names that are not there: it tells their number. A copy of the suite runs, in which
libraries without complex numbers load.

    PYTHONPATH=build/python python3 tools/check_array_api.py --suite array-api-tests [-k CASES] [--examples N]
"""
import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EXTENSIONS = ("linalg", "fft")
# What there is and does less than the standard asks for.
LIMITS = (
    "test_reshape", "test_broadcast_to", "test_clip",  # a shape has at most six axes
    "test_setitem",  # backwards slices are not written to, and a mask is not an index: where()
    "test_getitem_arrays_and_ints",  # an index is a tensor, or whole numbers and slices, not both
    "test_abs[__abs__]", "__iadd__(x1, x2)", "__isub__(x1, x2)",  # of small whole numbers: functions take them, methods not
    "test_empty_arrays[mean]", "test_empty_arrays[std]", "test_empty_arrays[var]",  # an error, and not NaN
)
NOT_THERE = "uint16,uint32,uint64,complex64,complex128"


def names_of_the_standard(suite):
    """The functions of the standard, and the methods of its array."""
    functions, methods = set(), set()
    for path in (suite / "array-api" / "src" / "array_api_stubs" / "_2024_12").glob("*.py"):
        if path.stem in (*EXTENSIONS, "info", "_types"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                functions.add(node.name)
            elif isinstance(node, ast.ClassDef) and path.stem == "array_object":
                methods.update(each.name for each in node.body if isinstance(each, ast.FunctionDef))
    return functions, methods


def is_of(identity, names):
    """Whether a test, as "test_unary[acos(x_i) is NaN -> NaN]" or "test_has_names[elementwise-acos]", is about one of these names."""
    test, _, case = identity.partition("[")
    return any(word in names for word in [test.removeprefix("test_"), *re.findall("[a-z0-9]+(?:_[a-z0-9]+)*", case)[:2]])


def pytest_collection_modifyitems(config, items):
    """As a plugin of pytest, in the suite's process: leaves out the tests of what is not there."""
    import ingot
    import ingot.array_api as xp

    functions, methods = names_of_the_standard(Path.cwd())
    missing = {name for name in functions if not hasattr(xp, name)} | {name for name in methods if not hasattr(ingot.Tensor, name)}
    missing = {way + name.strip("_") for name in missing for way in ("", "i", "r")}  # __imod__ and __rmod__, too

    def left_out(item):
        identity = item.nodeid.rsplit("::", 1)[1]
        extension = any(f"{mark}{name}{end}" in item.nodeid for name in EXTENSIONS for mark, end in (("[", "-"), ("[", "."), ("test_", ".py")))
        complex_case = re.search(r"\b(real|imag)\(", identity)
        return extension or complex_case or is_of(identity, missing) or any(limit in identity for limit in LIMITS)

    gone = [item for item in items if left_out(item)]
    items[:] = [item for item in items if item not in set(gone)]
    config.hook.pytest_deselected(items=gone)


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
    command += ["-p", "no:cacheprovider", "-p", "check_array_api", *options.rest, *more]
    return subprocess.run(command, cwd=suite, env=environment).returncode


if __name__ == "__main__":
    main()
