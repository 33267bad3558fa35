"""Checks the JSON of a span's attributes against OpenTelemetry's published schemas (`tests/schemas`)."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

FOLDER = Path(__file__).parent / "schemas"
ATTRIBUTES = {
    "gen_ai.input.messages": "input-messages", "gen_ai.output.messages": "output-messages",
    "gen_ai.system_instructions": "system-instructions", "gen_ai.tool.definitions": "tool-definitions",
    "gen_ai.retrieval.documents": "retrieval-documents",
}  # fmt: skip


@functools.cache
def _schema(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"gen-ai-{name}.json").read_text(encoding="utf-8"))
    return content


def violations(attributes: Mapping[str, Any]) -> list[str]:
    """Returns what OpenTelemetry's schemas object to in the attributes of a span or an event.

    The schemas accept a part of any type with any fields, so a part of a type that they define is compared with the
    definition of that type as well."""
    errors: list[str] = []
    for attribute, name in ATTRIBUTES.items():
        if attribute in attributes:
            value = attributes[attribute]
            value = (
                json.loads(value, parse_constant=_refuse) if isinstance(value, str) else json.loads(json.dumps(value))
            )
            schema = _schema(name)
            errors += [f"{attribute}: {e.message}" for e in jsonschema.Draft202012Validator(schema).iter_errors(value)]
            for definition in _typed(value):
                errors += _violations_of_type(attribute, schema, definition)
    return errors


def _typed(value: Any) -> list[dict[str, Any]]:
    """All parts and definitions of a list of messages, parts or tools."""
    return [part for item in value for part in item.get("parts", [item]) if "type" in part]


def _violations_of_type(attribute: str, schema: dict[str, Any], part: dict[str, Any]) -> list[str]:
    for definition in schema["$defs"].values():
        if definition.get("properties", {}).get("type", {}).get("const") == part["type"]:
            whole = {**definition, "$defs": schema["$defs"]}
            return [f"{attribute}: {e.message}" for e in jsonschema.Draft202012Validator(whole).iter_errors(part)]
    return []


def _refuse(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")
