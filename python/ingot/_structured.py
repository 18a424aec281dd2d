"""What a text has to be, from what people have at hand: pydantic models, types, JSON Schemas, expressions, grammars."""

import json
from collections.abc import Callable
from typing import Any

def _type_adapter(schema):
    try:
        import pydantic
    except ImportError:
        raise TypeError(
            f"json_schema={schema!r}: a type needs pydantic, which is not installed; give a JSON Schema as a dict or text"
        ) from None
    return pydantic.TypeAdapter(schema)


def _closed(schema):
    """Objects of a type have its fields alone: what pydantic would ignore, or a model make up, is not written."""
    if isinstance(schema, dict):
        closed = {key: _closed(value) for key, value in schema.items()}
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            closed.setdefault("additionalProperties", False)
        return closed
    return [_closed(part) for part in schema] if isinstance(schema, list) else schema


def _schema(schema) -> tuple[str, Callable[[str], Any]]:
    """The text of a JSON Schema, and what reads a text that satisfies it."""
    if isinstance(schema, (dict, bool)):
        return json.dumps(schema), json.loads
    if isinstance(schema, str):
        return schema, json.loads
    if hasattr(schema, "model_json_schema"):
        return json.dumps(_closed(schema.model_json_schema())), schema.model_validate_json
    adapter = _type_adapter(schema)
    return json.dumps(_closed(adapter.json_schema())), adapter.validate_json


def constrain(options: dict) -> tuple[dict, Callable[[str], Any] | None]:
    """The options as the library takes them, and what makes a value of the text; None: nothing is asked for."""
    if options.get("json_schema") is not None:
        text, parse = _schema(options["json_schema"])
        return {**options, "json_schema": text}, parse
    if options.get("json_object"):
        return options, json.loads
    return options, str if any(options.get(kind) is not None for kind in ("regex", "choice", "grammar")) else None
