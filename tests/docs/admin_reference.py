"""The reference of the admin API: docs/reference-admin-api.md, and its OpenAPI document."""

import inspect
import json
from typing import Final

from odradek.broker.admin_api.fields import Field
from odradek.broker.admin_api.openapi import document
from odradek.broker.admin_api.routes import PREFIX, Route, all_routes

INTRODUCTION: Final = """\
# Routes of the admin API

{made}

All paths are below `{prefix}`. [admin-api.md](admin-api.md) explains how to use them;
[admin-api.json](admin-api.json) is the same in OpenAPI, with the answers, and so is
`GET {prefix}/openapi.json`. The fields of a POST are JSON in its body, those of GET and DELETE are
in the query.
"""


def admin_json() -> str:
    """The OpenAPI document."""
    return json.dumps(document(all_routes(), PREFIX), indent=1) + "\n"


def admin_markdown(made: str) -> str:
    """Every route with its fields."""
    parts = [INTRODUCTION.format(made=made, prefix=PREFIX)]
    for route in all_routes():
        summary = (inspect.getdoc(route.resource) or "").partition("\n\n")[0]
        parts += [f"## {_title(route)}\n", " ".join(summary.split()).replace("*", "\\*") + "\n"]
        parts += [_field(field) for field in route.fields]
        parts += [""] if route.fields else []
    return "\n".join(parts).rstrip() + "\n"


def _title(route: Route) -> str:
    return f"{route.method} `{route.template}`"


def _field(field: Field) -> str:
    need = ", required" if field.is_required else ""
    return f"- `{field.name}` ({field.kind.noun}{need}): {field.doc}"
