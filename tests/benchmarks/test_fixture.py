"""What is timed is what the fixture does."""

import pytest

from benchmarks.fixture import IN_PROCESS, SEED_TOPICS, run, touching


@pytest.mark.slow
def test_the_time_around_a_test_is_without_start_and_stop() -> None:
    timed = run(touching(3, tests=4), IN_PROCESS, seed=SEED_TOPICS)
    assert (len(timed.setups_s), len(timed.around_s)) == (4, 3)
    assert max(timed.around_s) < timed.setups_s[0]


@pytest.mark.slow
def test_a_test_that_fails_ends_the_measurement() -> None:
    with pytest.raises(SystemExit, match="assert 1 == 2"):
        run("def test(): assert 1 == 2\n")
