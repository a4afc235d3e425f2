"""Children of tests do not outlive them."""

import signal
import subprocess

import pytest

from tests.kafka.process import killed_at_the_end


def test_a_child_that_would_never_end_is_killed_when_its_test_fails() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    with pytest.raises(AssertionError, match="failed"), killed_at_the_end(child):
        raise AssertionError("failed")
    assert child.returncode == -signal.SIGKILL
