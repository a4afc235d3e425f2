"""The header that says where a record came from."""

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.marks import HEADER, Mark, check_name, encoded, mark_of


@pytest.mark.parametrize("mark", [Mark("t", 0, 0), Mark("a.b_c-d", 12, 1 << 40, "again.2")])
def test_a_mark_is_read_as_it_was_written(mark: Mark) -> None:
    assert mark_of([("x", b"y"), (HEADER, encoded(mark))]) == mark


def test_the_last_mark_counts() -> None:
    headers = [(HEADER, b"a/0/1"), (HEADER, b"b/2/3"), ("later", None)]
    assert mark_of(headers) == Mark("b", 2, 3)


@pytest.mark.parametrize("value", [None, b"", b"t/0", b"t/x/1", b"t/0/1#", b"\xff/0/1", b"t/0/-1"])
def test_what_is_no_mark_is_none(value: bytes | None) -> None:
    assert mark_of([(HEADER, value)]) is None


def test_records_without_headers_have_no_mark() -> None:
    assert mark_of([]) is None


@pytest.mark.parametrize("name", ["a b", "a/b", "a#b", "ä", "x" * 101])
def test_names_that_could_not_be_read_back_are_refused(name: str) -> None:
    with pytest.raises(PipelineError, match="cannot name"):
        check_name(name)
