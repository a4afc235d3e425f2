"""The recorded session is what the commands print today."""

import pytest

from .session import TRANSCRIPT, commands, typed


@pytest.mark.soak
@pytest.mark.wire
def test_each_command_prints_what_was_recorded() -> None:
    recorded = TRANSCRIPT.read_text().split("\n$ ")
    with typed() as shell:
        printed = "\n".join(shell.run(command) for command in commands()).split("\n$ ")
    for then, now in zip(recorded, printed, strict=True):
        assert now.strip() == then.strip()
