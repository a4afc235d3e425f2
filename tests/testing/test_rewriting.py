"""pytest rewrites the asserts of modules that come with a plugin, but not those of the broker."""

import sys
from importlib.machinery import SourceFileLoader

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from odradek import testing

NAME = "odradek.testing.records"


def test_the_broker_is_imported_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    [hook] = [each for each in sys.meta_path if isinstance(each, AssertionRewritingHook)]
    monkeypatch.setattr(hook, "_must_rewrite", {"odradek"})  # as for an installed wheel
    monkeypatch.setattr(hook, "_marked_for_rewrite_cache", {})
    assert hook.find_spec(NAME, testing.__path__) is not None
    found = [each.find_spec(NAME, testing.__path__) for each in sys.meta_path]
    first = next(spec for spec in found if spec is not None)
    assert type(first.loader) is SourceFileLoader
