"""No broker there: one sentence, soon."""

import pytest

from tests.kafka.process import free_port

from .conftest import run_odradek


@pytest.mark.wire  # it takes the five seconds that it announces
@pytest.mark.parametrize("command", [["topics", "list"], ["produce", "t"]])
def test_nobody_listens(command: list[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = run_odradek(*command, "-b", address, stdin=b"x")
    assert (done.returncode, done.stdout) == (1, b"")
    expected = f"Error: no Kafka broker answered at {address} within 5 s\n"
    assert done.stderr.decode() == expected
