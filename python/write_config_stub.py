#!/usr/bin/env python3
"""Writes config.pyi and _settings.pyi, what editors and type checkers know of ingot.TrainConfig and of the settings of
ingot.forecast.Forecaster, from the library's tables of keys.

    PYTHONPATH=build/python python3 -P python/write_config_stub.py build/python/ingot
"""

import keyword
import re
import sys
from pathlib import Path

HEAD = '''"""Configurations as objects: their keys are those of the library's tables. Written by python/write_config_stub.py."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal

def keys(configuration: str) -> dict[str, dict[str, Any]]:
    """The rows of the table of ``"train"`` or ``"forecast"`` by key: section, aliases, kind, default, unit, doc."""

class TrainConfig:
    """What ``ingot train`` reads, as attributes; None: not given."""

'''
TAIL = '''    def to_dict(self) -> dict[str, Any]:
        """The keys that were given."""
    @classmethod
    def describe(cls, key: str) -> str:
        """What a key may be, its default and its meaning."""
'''
BEGINNINGS = {
    "true or false": "bool",
    "a whole number": "int",
    "a number": "float",
    "text": "str | PathLike[str]",
    "a name": "str",
    "a list of mappings": "Sequence[Mapping[str, Any]]",
    "a mapping": "Mapping[str, Any]",
}


def type_of(kind):
    """The type of a key, from the words that the table has for what it may be; Any where these are not only words."""
    inner = re.fullmatch(r"a list \((.+?)\)(, or .*)?", kind)
    if inner:
        return f"Sequence[{type_of(inner[1])}]{' | str' if inner[2] else ''}"
    for beginning, name in BEGINNINGS.items():
        if re.match(rf"{beginning}\b", kind):
            return name
    words = re.split(r", | or ", kind)
    if len(words) < 2 or not all(re.fullmatch(r"[\w.+-]+", word) for word in words):
        return "Any"
    texts = [f'"{word}"' for word in words if word not in ("true", "false")]
    kinds = (["bool"] if len(texts) < len(words) else []) + ([f"Literal[{', '.join(texts)}]"] if texts else [])
    return " | ".join(kinds)


def named(rows, aliases):
    """(name, type, what it means) of each key, and of its other names where these are wanted; of dotted paths the first part."""
    found = {}
    for key, row in rows.items():
        first, dotted = key.split(".")[0], "." in key
        meaning = f"{row['doc']} Default: {row['default'] or 'none'}."
        if not dotted:
            found.update((name, (type_of(row["kind"]), meaning)) for name in (key, *(row["aliases"] if aliases else ())))
        found.setdefault(first, ("Mapping[str, Any]", f"A mapping: ``TrainConfig.describe({first!r})`` tells its keys."))
    return [(name, *told) for name, told in found.items() if name.isidentifier() and not keyword.iskeyword(name)]


def stub(rows):
    arguments = "".join(f"        {name}: {kind} | None = ...,\n" for name, kind, _ in named(rows, aliases=True))
    members = []
    for name, kind, meaning in named(rows, aliases=False):
        text = " ".join(meaning.split()).replace("\\", "\\\\").replace('"', "'")
        members.append(f'    {name}: {kind} | None\n    """{text}"""\n')
    return f"{HEAD}    def __init__(\n        self,\n        *,\n{arguments}    ) -> None: ...\n{''.join(members)}{TAIL}"


SETTINGS = '''"""The settings of a forecaster, for type checkers alone. Written by python/write_config_stub.py."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

class ForecastSettings(TypedDict, total=False):
    """Arguments beside model and horizon."""

'''


def settings_stub(names, rows):
    """Of a forecaster: `names` has the key of each of its parameters."""
    arguments, attributes = [], []
    for name, key in names.items():
        kind = type_of(rows[key]["kind"])
        if name not in ("model", "horizon"):
            arguments.append(f"    {name}: {kind} | None\n")
        attributes.append(f"    {name}: {kind}{'' if name in ('model', 'horizon') else ' | None'}\n")
    return f'{SETTINGS}{"".join(arguments)}\nclass ForecastAttributes:\n    """The same as attributes; None: the model decides."""\n\n{"".join(attributes)}'


def main():
    from ingot import forecast
    from ingot.config import keys

    folder, rows = Path(sys.argv[1]), keys("forecast")
    names = {name: key for name, key in forecast._parameters().items() if name.isidentifier() and not keyword.iskeyword(name)}
    (folder / "config.pyi").write_text(stub(keys("train")), encoding="utf-8")
    (folder / "_settings.pyi").write_text(settings_stub(names, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
