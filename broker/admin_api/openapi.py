"""The OpenAPI document of the admin API, made from the table of its routes."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from odradek import __version__

from .controls import Controls
from .fields import Field, Json, object_schema
from .routes import PREFIX, Route, all_routes
from .schemas import ERROR, Schema

DOCUMENT: Final[Schema] = {"type": "object"}
VERSION: Final = "3.1.0"
_JSON: Final = "application/json"
_ERROR: Final = {"$ref": "#/components/responses/Error"}
_DESCRIPTION: Final = (
    "Drives the brokers of one process. Every POST must have Content-Type: application/json. "
    "Durations are seconds, or texts such as 250ms, 60s, 5m."
)


def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Describe this API in OpenAPI."""
    return document(all_routes(), PREFIX)


def document(routes: Iterable[Route], prefix: str) -> dict[str, Any]:
    """Describe these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operations = paths.setdefault(prefix + route.template, {})
        operations[route.method.lower()] = _operation(route)
    return {
        "openapi": VERSION,
        "info": {"title": "Odradek", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "security": [{}, {"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {
                    "description": "The request is refused; error is one sentence.",
                    "content": {_JSON: {"schema": ERROR}},
                }
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": (inspect.getdoc(route.resource) or "").partition("\n")[0],
        "responses": {
            str(route.status): {
                "description": "It is done.",
                "content": {_JSON: {"schema": route.answer}},
            },
            "4XX": _ERROR,
            "5XX": _ERROR,
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in route.parameters
    ]
    if route.method == "POST":
        operation["requestBody"] = _body(route.fields)
    else:
        parameters += [_parameter(field) for field in route.fields]
    if parameters:
        operation["parameters"] = parameters
    return operation


def _parameter(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "in": "query",
        "required": field.is_required,
        "description": field.doc,
        "schema": field.kind.schema,
    }


def _body(fields: Sequence[Field]) -> dict[str, Any]:
    is_required = any(field.is_required for field in fields)
    return {"required": is_required, "content": {_JSON: {"schema": object_schema(fields)}}}
