"""The OpenAPI 3.1 document of the API, written from the declared routes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from workbench.accounts.tokens import SCOPE_WORDS
from workbench.http.api import problems
from workbench.http.api.declared import LEFT_OUT, ROOT, Declared, File, Files, routes
from workbench.http.api.problems import Kind

_REF = "#/components/schemas/{model}"
_PROBLEM = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "description": "The kind of problem: where it is explained."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, which value, what is allowed."},
        "instance": {"type": "string", "description": "The path that was asked for."},
        "problems": {"type": "array", "items": {"type": "string"}, "description": "Single problems, as file:line."},
    },
}
_RETRY = {"retry-after": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "1 to 200 printable ASCII characters of your choice. The same request with the same key is carried "
    "out once; for 24 hours it is answered the same again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
_ETAG = {"etag": {"description": "The tag of this answer.", "schema": {"type": "string"}}}
_LEFT_OUT = {
    LEFT_OUT: {
        "description": "What the format could not hold, by kind and number; missing where it holds everything.",
        "schema": {"type": "string"},
    }
}
_LOCATION = {"location": {"description": "Where to follow it.", "schema": {"type": "string"}}}
_TAGS = {"type": "string", "maxLength": 4_000, "pattern": r'^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$'}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Tags of answers that you have, as the header ETag had them: if one still holds, the answer is 304.",
    "schema": _TAGS,
}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The ETag that it had when you read it: if it has changed since, nothing is done (412).",
    "schema": _TAGS,
}


@cache
def openapi() -> dict[str, Any]:
    """Return the document as JSON values."""
    models = _models()
    schemas, definitions = models_json_schema(list(models), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes():
        paths.setdefault(ROOT + route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "CrossNER workbench",
            "version": "1",
            "description": "Campaigns, sentences, gold, snapshots, runs, predictions and webhooks. Every request "
            "carries a personal token, which acts as its person: what the person may not do, the token may not.",
        },
        "paths": paths,
        "components": {
            "schemas": {**definitions.get("$defs", {}), "Problem": _PROBLEM},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "; ".join(f"{name}: {words}" for name, words in SCOPE_WORDS.items()),
                }
            },
        },
        "security": [{"token": []}],
    }


def parameters_of(route: Declared) -> list[dict[str, Any]]:
    """Return the parameters of a route's path and query as OpenAPI has them."""
    schema = TypeAdapter(route.inputs).json_schema(mode="validation")
    parameters = []
    for name, described in schema.get("properties", {}).items():
        plain = _without_null({key: value for key, value in described.items() if key not in ("title", "default")})
        description = plain.pop("description", "")
        if described.get("default") is not None:
            plain["default"] = described["default"]
        in_path = name in route.path_names
        parameters.append(
            {
                "name": name,
                "in": "path" if in_path else "query",
                "required": in_path or name in schema.get("required", ()),
                **({"description": description} if description else {}),
                "schema": plain,
            }
        )
    return parameters


def kinds_of(route: Declared) -> tuple[Kind, ...]:
    """Return the problems that a route can answer with."""
    wanted = {400, 401, 403, 404, 429, 503} | ({409} if route.method != "GET" else set())
    if route.body is not None:
        wanted |= {413, 415}
    if route.matches:
        wanted |= {412}
    return tuple(kind for kind in problems.KINDS if kind.status in wanted)


def _models() -> dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None]:
    models: dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None] = {}
    for route in routes():
        if route.answer not in (File, type(None)):
            models[route.answer, "serialization"] = None
        if route.later is not None:
            models[route.later, "serialization"] = None
        if route.body is not None and not route.takes_files:
            models[route.body, "validation"] = None
    return models


def _operation(route: Declared, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    roles = f"For {', '.join(route.roles)}. Scope: {route.scope}."
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.group],
        "summary": route.summary,
        "description": f"{route.description} {roles}".strip(),
        "parameters": parameters_of(route) + _headers(route),
        "responses": _responses(route, schemas),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _body(route, route.body, schemas)}
    return operation


def _headers(route: Declared) -> list[dict[str, Any]]:
    taken = {"creates": _KEY, "matches": _IF_MATCH, "is_read": _IF_NONE_MATCH}
    return [header for name, header in taken.items() if getattr(route, name)]


def _body(route: Declared, body: type[BaseModel], schemas: Mapping[Any, Any]) -> dict[str, Any]:
    if not issubclass(body, Files):
        return {"application/json": {"schema": schemas[body, "validation"]}}
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    form = {
        "type": "object",
        "required": ["files"],
        "additionalProperties": False,
        "properties": {"files": {"type": "array", "minItems": 1, "items": file}},
    }
    return {"multipart/form-data": {"schema": form}}


def _responses(route: Declared, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    if route.answer is File:
        good: dict[str, Any] = {"description": "The file.", "content": {"application/octet-stream": {}}}
    elif route.answer is type(None):
        good = {"description": "Done."}
    else:
        schema = schemas[route.answer, "serialization"]
        good = {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    answers: dict[str, Any] = {str(route.status): good}
    if route.later is not None:
        content = {"application/json": {"schema": schemas[route.later, "serialization"]}}
        answers["202"] = {"description": "The worker does it.", "headers": _LOCATION, "content": content}
    if route.is_read or (route.matches and route.answer is not type(None)):
        good["headers"] = _ETAG | (_LEFT_OUT if route.answer is File else {})
    if route.is_read:
        answers["304"] = {"description": "You have this answer.", "headers": _ETAG}
    by_status: dict[int, list[str]] = {}
    for kind in kinds_of(route):
        by_status.setdefault(kind.status, []).append(kind.title)
    for status, titles in sorted(by_status.items()):
        content = {problems.MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
        answers[str(status)] = {"description": ", or: ".join(dict.fromkeys(titles)) + ".", "content": content}
        if status in (429, 503):
            answers[str(status)]["headers"] = _RETRY
    return answers


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter: one that is left out has no value, so that null is none of its values."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return schema
    return {**{key: value for key, value in schema.items() if key != "anyOf"}, **choices[0]}
