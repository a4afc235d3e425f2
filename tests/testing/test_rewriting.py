"""pytest rewrites the asserts of modules that come with a plugin, but not those of the broker."""

from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

import _odradek_pytest
from odradek import testing

NAME = "odradek.testing.records"


def test_the_broker_is_imported_as_it_is(pytestconfig: pytest.Config) -> None:
    hook = AssertionRewritingHook(pytestconfig)
    hook._must_rewrite.add("odradek")  # as for an installed wheel
    assert hook.find_spec(NAME, testing.__path__) is not None
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(rewrite_hook=hook))
    _odradek_pytest._leave_asserts_alone(config)
    hook._marked_for_rewrite_cache.clear()
    assert hook.find_spec(NAME, testing.__path__) is None
