"""No API is without an entry, and what is said of single resources is checked somewhere."""

from importlib import import_module
from typing import Any

import pytest

from odradek.broker.core.acls.terms import Operation, ResourceType
from odradek.broker.handlers import APIS, Api, Need
from odradek.broker.rights.needed import NEEDED
from odradek.broker.rights.rights import REFUSAL

OPEN = {17, 18, 36}
"""What a client needs before it can have any right."""
NOT_YET = {17, 36, 50, 51}
"""Have an entry before they are served."""
REFUSED_TO_ALL = {39, 40, 41}
RESOLVES_PATTERNS = {11}
"""What it does depends on rights to resources that it does not name."""


def module_of(api: Api) -> Any:
    return import_module(f"odradek.broker.handlers.{api.module}")


def test_each_api_has_its_entry() -> None:
    assert APIS.keys() <= NEEDED.keys()
    assert NEEDED.keys() - APIS.keys() <= NOT_YET


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_what_an_api_needs_is_checked(api: Api) -> None:
    needed = NEEDED[api.key]
    assert bool(needed.whole or needed.each) is (api.key not in OPEN | REFUSED_TO_ALL)
    is_guarded = bool(needed.each) or api.key in RESOLVES_PATTERNS
    assert hasattr(module_of(api), "guarded") is is_guarded
    for right in needed.whole:
        assert right.kind in REFUSAL
        fields = {field.name for field in api.request.FIELDS}
        assert right.kind is ResourceType.CLUSTER or right.field in fields
    if api.need is Need.BROKER:
        assert needed.whole == NEEDED[4].whole
        assert needed.whole[0].operation is Operation.CLUSTER_ACTION
