"""The table of routes, and the document that is made from it."""

import json

import pytest
from openapi_spec_validator import validate

from odradek.broker.admin_api.problems import Problem
from odradek.broker.admin_api.routes import PREFIX, TABLE, all_routes, find
from tests.broker.admin_api.asking import DOCUMENT


@pytest.mark.slow
def test_the_document_is_valid_openapi() -> None:
    validate(json.loads(json.dumps(DOCUMENT)))


def test_every_route_is_in_the_document_once_and_says_what_it_does() -> None:
    described = {
        (method.upper(), path.removeprefix(PREFIX)): operation
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
    }
    assert list(described) == [(route.method, route.template) for route in TABLE]
    assert all(operation["summary"].endswith(".") for operation in described.values())


def test_every_route_is_found_by_its_path() -> None:
    for route in all_routes():
        path = route.template
        for name in route.parameters:
            path = path.replace(f"{{{name}}}", "a%2Fb")
        found, arguments = find(route.method, PREFIX + path)
        assert found == route
        assert arguments == dict.fromkeys(route.parameters, "a/b")


@pytest.mark.parametrize("path", ["/admin/v1/topics/%ff", "/admin/v2/topics", "/admin/v1topics"])
def test_other_paths_are_not_found(path: str) -> None:
    with pytest.raises(Problem) as refused:
        find("GET", path)
    assert refused.value.status == 404
