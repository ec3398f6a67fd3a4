# SPDX-License-Identifier: Apache-2.0
"""Checks a document against a schema of docs/schema/, with the JSON Schema keywords that ours use
(scripts/schemas.py). No package is needed."""
import functools
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "schema"
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def has_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def resolved(part):
    """Returns a part of a schema, or the part that it refers to: {"$ref": "plan.schema.json#/$defs/stages"}."""
    if "$ref" not in part:
        return part
    file, _, keys = part["$ref"].partition("#/")
    found = schema(file.removesuffix(".schema.json"))
    for key in keys.split("/") if keys else ():
        found = found[key]
    return resolved({**found, **{key: value for key, value in part.items() if key != "$ref"}})


def offences(schema, value, path="$"):
    """Returns the violations of `schema` in `value`, each with its path."""
    schema = resolved(schema)
    known = {"$schema", "$id", "title", "description", "default", "type", "enum", "const", "anyOf", "minimum", "maximum", "minItems", "items",
             "properties", "required", "additionalProperties", "$defs"}
    assert set(schema) <= known, f"{path}: words that this checker does not know: {set(schema) - known}"
    if "type" in schema and not has_type(value, schema["type"]):
        return [f"{path}: {json.dumps(value)[:60]} is no {schema['type']}"]
    out = []
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        out.append(f"{path}: {json.dumps(value)[:60]} is none of {schema.get('enum', [schema.get('const')])}")
    if "anyOf" in schema and all(offences(one, value, path) for one in schema["anyOf"]):
        out.append(f"{path}: {json.dumps(value)[:60]} fits no alternative: {[offences(one, value, path)[0] for one in schema['anyOf']]}")
    if has_type(value, "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        out.append(f"{path}: {value} is out of range")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            out.append(f"{path}: too few items")
        for i, item in enumerate(value):
            out += offences(schema.get("items", {}), item, f"{path}[{i}]")
    if isinstance(value, dict):
        out += [f"{path}: no \"{key}\"" for key in schema.get("required", []) if key not in value]
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in properties:
                out += offences(properties[key], item, f"{path}.{key}")
            elif others is False:
                out.append(f"{path}: unknown key \"{key}\"")
            elif others is not True:
                out += offences(others, item, f"{path}.{key}")
    return out


def with_file(part, file):
    """Returns a schema whose references to its own file name that file."""
    if isinstance(part, list):
        return [with_file(item, file) for item in part]
    if not isinstance(part, dict):
        return part
    return {key: file + value if key == "$ref" and value.startswith("#") else with_file(value, file) for key, value in part.items()}


@functools.cache
def schema(name):
    file = f"{name}.schema.json"
    return with_file(json.loads((FOLDER / file).read_text(encoding="utf-8")), file)
