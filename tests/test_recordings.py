"""A stale recording is named, with the command that records anew; a whole run fails over it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.recordings import mark_stale, stale_recordings

NAME = "tests/wire/test_x.py::test_a[recorded-it]"


def asked(name: str) -> Any:
    return SimpleNamespace(node=SimpleNamespace(nodeid=name, user_properties=[]))


def report(request: Any) -> pytest.TestReport:
    where = ("test_x.py", 1, "x")
    found = pytest.TestReport(request.node.nodeid, where, {}, "passed", None, "call")
    found.user_properties += request.node.user_properties
    return found


def test_a_whole_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    request = asked(NAME)
    monkeypatch.setenv("ODRADEK_REQUIRE", "all")
    with pytest.raises(pytest.fail.Exception) as failure:
        mark_stale(request)
    assert str(failure.value).endswith(f"python -m pytest --record -m 'not soak' '{NAME}'")
    assert list(stale_recordings([report(request)]))


def test_the_end_of_a_run_says_how_to_record_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODRADEK_REQUIRE", raising=False)
    requests = [asked(f"tests/wire/test_x.py::{number}") for number in range(6)]
    assert list(stale_recordings(map(report, requests))) == []
    for request in requests:
        mark_stale(request)
    few, many = (list(stale_recordings(map(report, part))) for part in (requests[:2], requests))
    assert few[1].endswith(" tests/wire/test_x.py::0 tests/wire/test_x.py::1")
    assert many[0].endswith(": 6. Record anew:") and many[1].endswith(" tests/wire/test_x.py")
