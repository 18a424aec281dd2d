#!/usr/bin/env python3
"""Checks every #include of src/ingot against the layer table.

The table is the ingot_layer(NAME DEPENDS ...) calls of src/ingot/CMakeLists.txt. A file may include headers of its
own layer and of the layers its own DEPENDS on, directly or through others. The leaves (kernels/cpu, kernels/cuda,
...) are closed: only their own folder, and the layer that registers them, may include from one.
"""
import argparse
import pathlib
import re
import sys

REGISTERS_LEAVES = {"runtime"}
LEAF_PARENTS = {"kernels"}
ROOT_LAYER = "c_api"  # of the headers right in src/ingot
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}

CALL = re.compile(r"^[ \t]*ingot_layer\(([^)]*)\)", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]')
KEYWORDS = {"DEPENDS", "OPTIONAL", "LIBS"}


class TableError(Exception):
    pass


def parse_table(text):
    """{layer: [layers it names in DEPENDS]} in the order of the file."""
    text = re.sub(r"#[^\n]*", "", text)
    table = {}
    for call in CALL.finditer(text):
        words = call.group(1).split()
        if not words:
            raise TableError("ingot_layer() without a name")
        name, keyword, depends = words[0], None, []
        for word in words[1:]:
            if word in KEYWORDS:
                keyword = word
            elif keyword in ("DEPENDS", "OPTIONAL"):
                depends.append(word)
        if name in table:
            raise TableError(f"layer {name} is declared twice")
        table[name] = depends
    for name, depends in table.items():
        for other in depends:
            if other not in table:
                raise TableError(f"layer {name} depends on {other}, which is not declared")
    return table


def closure(table):
    """{layer: every layer reachable from it}; a cycle is an error."""
    reach = {}

    def visit(layer, path):
        if layer in path:
            raise TableError("layers depend on each other in a circle: " + " -> ".join(path + [layer]))
        if layer not in reach:
            reached = set()
            for other in table[layer]:
                reached |= {other} | visit(other, path + [layer])
            reach[layer] = reached
        return reach[layer]

    for layer in table:
        visit(layer, [])
    return reach


def is_leaf(layer):
    return "/" in layer and layer.split("/")[0] in LEAF_PARENTS


def layer_of(path, table):
    """The declared layer that owns a path below src/ingot: the longest one that is a folder of it."""
    folders = path.split("/")[:-1] or [ROOT_LAYER]
    for length in range(len(folders), 0, -1):
        name = "/".join(folders[:length])
        if name in table:
            return name
    return None


def check(root):
    """Complaints, as 'file:line: text'."""
    root = pathlib.Path(root)
    base = root / "src" / "ingot"
    table_file = base / "CMakeLists.txt"
    try:
        table = parse_table(table_file.read_text())
        reach = closure(table)
    except TableError as error:
        return [f"{table_file.relative_to(root)}:1: {error}"]
    complaints = []
    for path in sorted(p for p in base.rglob("*") if p.suffix in SUFFIXES):
        inside = path.relative_to(base).as_posix()
        shown = path.relative_to(root).as_posix()
        own = layer_of(inside, table)
        if own is None:
            complaints.append(f"{shown}:1: lies in no layer; declare one with ingot_layer() in "
                              f"{table_file.relative_to(root)}")
            continue
        # A leaf is reached by linking, not by including: having it in one's closure opens nothing.
        allowed = {own} | {other for other in reach[own] if not is_leaf(other) or own in REGISTERS_LEAVES}
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            where = f"{shown}:{number}: {own} includes {target}"
            if not target.startswith("ingot/"):
                if quote == '"' and (path.parent / target).exists():
                    complaints.append(f"{where}: write it from the root, as \"ingot/...\"")
                continue
            if quote != '"':
                complaints.append(f'{where}: our own headers are included with quotes, as "{target}"')
            other = layer_of(target[len("ingot/"):], table)
            if other is None:
                complaints.append(f"{where}, which lies in no layer")
            elif other not in allowed:
                if is_leaf(other):
                    may = sorted({other} | (REGISTERS_LEAVES & set(table)))
                    complaints.append(f"{where} of the leaf {other}: only {', '.join(may)} may")
                else:
                    complaints.append(f"{where} of layer {other}; allowed: {', '.join(sorted(allowed))}")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    complaints = check(parser.parse_args().root)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
