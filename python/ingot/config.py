"""Configurations as objects: their keys, defaults and descriptions are those of the library's tables."""

from functools import cache
from typing import Any

from . import _core


@cache
def keys(configuration: str) -> dict[str, dict[str, Any]]:
    """The rows of the table of ``"train"`` or ``"forecast"`` by key: section, aliases, kind, default, unit, doc."""
    return {row["key"]: row for row in _core._config_keys(configuration)}


class TrainConfig:
    """What ``ingot train`` reads, as attributes: ``dir()`` and an editor's completion list the keys.

    A key that was not given is None: its default holds. A name that is not a key is an AttributeError that suggests the
    nearest; values are checked by :class:`ingot.Trainer`.

    >>> config = ingot.TrainConfig(base_model="model.gguf", adapter="qlora", output_dir="out")
    >>> config.learning_rate = 1e-4
    >>> print(config.describe("learning_rate"))
    >>> ingot.Trainer(config).train()
    """

    def __init__(self, **values):
        for name, value in values.items():
            setattr(self, name, value)

    @classmethod
    def _names(cls) -> dict[str, str]:
        """The key of each name that may be an attribute; of dotted paths the first part."""
        names = {}
        for key, row in keys("train").items():
            first = key.split(".")[0]
            names[first] = first
            if "." not in key:
                names.update(dict.fromkeys(row["aliases"], key))
        return names

    def __setattr__(self, name, value):
        known = self._names()
        if name not in known:
            raise self._not_a_key(name, known)
        if value is None:
            vars(self).pop(known[name], None)
        else:
            vars(self)[known[name]] = value

    def __getattr__(self, name):  # of what was not given under this name
        known = self._names()
        if name not in known:
            raise self._not_a_key(name, known)
        return vars(self).get(known[name])

    @staticmethod
    def _not_a_key(name, known):
        import difflib  # which an import of the package does without

        near = difflib.get_close_matches(name, known, 1)
        return AttributeError(f"'{name}' is not a key of ingot train" + (f"; did you mean '{near[0]}'?" if near else ""))

    def __dir__(self):
        return [*super().__dir__(), *self._names()]

    def to_dict(self) -> dict[str, Any]:
        """The keys that were given."""
        return dict(vars(self))

    @classmethod
    def describe(cls, key: str) -> str:
        """What a key may be, its default and its meaning; of ``"datasets"`` and its like, all that it has."""
        key = cls._names().get(key, key)
        found = [row for path, row in keys("train").items() if path == key or path.startswith(key + ".")]
        if not found:
            raise KeyError(f"'{key}' is not a key of ingot train")
        return "\n".join(f"{row['key']}: {row['kind']}; default {row['default'] or 'none'}\n    {row['doc']}" for row in found)

    def __eq__(self, other):
        return isinstance(other, TrainConfig) and vars(self) == vars(other)

    def __repr__(self):
        return f"TrainConfig({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
