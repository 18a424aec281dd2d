#!/usr/bin/env python3
"""Writes a test in C that calls every function of the C API with zeros, and with made-up handles and zeroed memory.

Nothing may crash, and no call may say that it worked but those for which zeros mean something.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_abi  # noqa: E402

# NULL is the CPU, no options, no handle to close; a count may be unwanted, a time limit 0, one rank waits for nobody,
# and of a struct of size 0 no field is written.
MEANS_SOMETHING = re.compile(
    r"ingot_(\w+_close|device_\w+|initialize|plugin_count|plugin_info|world_\w+)$")
OPAQUE = re.compile(r"^\s*(?:const )?(Ingot\w+)\s*\*\s*\w*\s*$")


def parameters(declaration):
    inside = declaration[declaration.index("(") + 1:declaration.rindex(")")]
    parts = re.split(r",(?![^()]*\))", inside)
    return [] if inside.strip() in ("", "void") else parts


def main():
    declared = check_abi.functions()
    preprocessed = check_abi.preprocessed()
    defined = set(re.findall(r"}\s*(Ingot\w+);", preprocessed))  # structs that are not opaque
    print('#include "check.h"\n\nstatic char scratch[4096];\n')
    print("static void* zeros(void) {\n  memset(scratch, 0, sizeof scratch);\n  return scratch;\n}\n")
    print("static void every_function_survives_zeros_and_made_up_handles(void) {")
    print("  void* handle = (void*)(uintptr_t)0x123456789ab0; /* was never given out */")
    for name, declaration in sorted(declared.items()):
        if not declaration.startswith("IngotStatus"):
            continue
        parts = parameters(declaration)
        handles = []
        for part in parts:
            opaque = OPAQUE.match(part)
            is_handle = opaque is not None and opaque.group(1) not in defined
            handles.append("handle" if is_handle else "zeros()" if "*" in part else "0")
        works = MEANS_SOMETHING.match(name) is not None
        for arguments in (["0"] * len(parts), handles):
            called = f"{name}({', '.join(arguments)})"
            print(f"  {called};" if works else f"  CHECK({called} != INGOT_OK);")
    print("}\n")
    print('const TestCase zero_call_tests[] = {{"every function: survives zeros and made-up handles", '
          "every_function_survives_zeros_and_made_up_handles}, {NULL, NULL}};")


if __name__ == "__main__":
    main()
