#!/usr/bin/env python3
"""Writes docs/python-api.md, the reference of the Python package, from its docstrings; --check fails where it is out of date.

    PYTHONPATH=build/python python3 tools/docs/python_api.py [--check]
"""
import argparse
import importlib
import inspect
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"
MODULES = ["", "nn", "optim", "forecast", "tune", "rl", "mahjong", "display", "errors"]


def public(owner):
    """(name, object) of what a module offers, in the order of names."""
    module = inspect.ismodule(owner)
    for name in sorted(vars(owner)):
        value = vars(owner)[name]
        if name.startswith("_") or inspect.ismodule(value):
            continue
        home = getattr(value, "__module__", None) or ""
        if module and not home.startswith("ingot") and not isinstance(value, (list, dict)):
            continue
        if module and owner.__name__ != "ingot" and home != owner.__name__:
            continue
        yield name, value


def documentation(value):
    """Signatures and text of a function, method or property."""
    raw = inspect.unwrap(value.fget) if isinstance(value, property) else value
    raw = getattr(raw, "__func__", raw)
    signatures = getattr(raw, "__nb_signature__", None)
    text = inspect.getdoc(value) or inspect.getdoc(raw) or ""
    if signatures:
        lines = []
        for signature, _, *defaults in signatures:
            defaults = defaults[0] if defaults and isinstance(defaults[0], tuple) else defaults
            line = re.sub(r"\\(\d+)", lambda place: repr(defaults[int(place.group(1))]), signature)
            lines.append(line.removeprefix("def ").replace("ingot._core.", "").replace("builtins.", ""))
        told = [signature[1] for signature in signatures if signature[1]]
        return lines, inspect.cleandoc(told[0]) if told else text
    if isinstance(value, property):
        return [], text
    try:
        return [f"{raw.__name__}{inspect.signature(raw)}"], text
    except (TypeError, ValueError):
        return [], text


def paragraphs(text):
    """A docstring as Markdown: examples are code, roles and double back-quotes are single ones."""
    out, example = [], False
    for line in inspect.cleandoc(text).splitlines():
        starts = line.lstrip().startswith((">>>", "..."))
        if starts and not example:
            out.append("```python")
        if example and not starts:
            out.append("```")
        example = starts
        if starts:
            out.append(line.lstrip()[4:])
        else:
            out.append(markdown(line))
    if example:
        out.append("```")
    return "\n".join(out)


def markdown(line):
    line = re.sub(r":(?:class|func|meth|mod|data):`~?([^`]+)`", r"`\1`", line)
    return line.replace("``", "`")


def members(kind):
    for name in sorted(vars(kind)):
        value = vars(kind)[name]
        if name.startswith("_") or not (callable(value) or isinstance(value, (property, staticmethod, classmethod)) or hasattr(value, "fget") or inspect.isdatadescriptor(value)):
            continue
        yield name, value


def first_part(text):
    return markdown(" ".join(text.split("\n\n")[0].split())).replace("|", "\\|")


def row(name, value):
    lines, text = documentation(value)
    call = " ".join(lines[0].split()) if lines else name
    for before, after in (("(self, /, ", "("), ("(self, ", "("), ("(self)", "()"), ("ingot._core.", ""), ("typing.", ""), ("|", "\\|")):
        call = call.replace(before, after)
    return f"| `{call}` | {first_part(text)} |\n"


def about_class(name, kind):
    text = documentation(kind)[1]
    parts = [f"### {name}\n\n{paragraphs(text)}\n\n"]
    if name != "dtype":
        rows = [row(member, found) for member, found in members(kind)]
        parts += ["| member | |\n|---|---|\n", *rows, "\n"] if rows else []
    return "".join(parts)


def page():
    parts = [
        "# Python reference\n\nEvery public name of the package `ingot`, from its docstrings; `help(name)` says more. [Ingot in Python](python.md) shows how\n"
        "they are used. `ingot.array_api` has the names of the [array API standard](https://data-apis.org/array-api/2024.12/).\n\n"
        '```python\nimport ingot\n\nhelp(ingot.LLM)\n```\n\n'
    ]
    for short in MODULES:
        module = importlib.import_module(f"ingot.{short}" if short else "ingot")
        parts.append(f"## {module.__name__}\n\n" + (f"{paragraphs(module.__doc__ or '')}\n\n" if short else ""))
        names = [(name, value) for name, value in public(module) if callable(value)]
        errors = [(name, value) for name, value in names if inspect.isclass(value) and issubclass(value, Exception)]
        functions = [(name, value) for name, value in names if not inspect.isclass(value)]
        rows = [row(name, value) for name, value in functions]
        rows += [f"| `{name}` | {first_part(inspect.getdoc(value) or '')} |\n" for name, value in errors]
        parts += ["| name | |\n|---|---|\n", *rows, "\n"] if rows else []
        parts += [about_class(name, value) for name, value in names if inspect.isclass(value) and not issubclass(value, Exception)]
    return "".join(parts).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is another")
    options = parser.parse_args()
    wanted = page()
    if options.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
            sys.exit(f"{PAGE} is out of date: PYTHONPATH=build/python python3 tools/docs/python_api.py")
        return
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
