"""What clients do in the situations for which their own tests use a mock of Kafka.

`situations.json` is the table, and `clients/` has a program for each client: they make the rules
through the admin API themselves. docs/situations.md shows the table.
"""

from collections.abc import Iterator

import pytest

from odradek.testing import Broker

from .programs import ALL, NotFetched, Program
from .situations import Situation, situations

pytestmark = [pytest.mark.wire, pytest.mark.slow]

ONE = "new leader"
QUICK = ("Java", "kafka-python", "KafkaJS", "franz-go")
"""`make test` tries one situation with these, one of each language."""


def marks(client: str, situation: Situation) -> list[pytest.MarkDecorator]:
    found = [pytest.mark.java] if client == "Java" else []
    if situation.name != ONE or client not in QUICK:
        found.append(pytest.mark.soak)
    return found


CASES = [
    pytest.param(
        client,
        situation,
        id=f"{client}-{situation.name.replace(' ', '_')}",
        marks=marks(client, situation),
    )
    for client in ALL
    for situation in situations()
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(in_process=True) as running:
        yield running


class Programs:
    """The program of one client, which runs until another client is asked for."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._name = ""
        self._program: Program | None = None

    def of(self, client: str) -> Program:
        if self._program is None or self._name != client:
            self.close()
            self._name = client
            self._program = Program(ALL[client].prepare(), self._broker)
        return self._program

    def close(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.close()


@pytest.fixture(scope="module")
def programs(broker: Broker) -> Iterator[Programs]:
    running = Programs(broker)
    yield running
    running.close()


@pytest.mark.parametrize(("client", "situation"), CASES)
def test_situation(client: str, situation: Situation, broker: Broker, programs: Programs) -> None:
    command = ALL[client].missing()
    if command is not None:
        pytest.skip(f"there is no {command}")
    try:
        program = programs.of(client)
    except NotFetched as error:
        pytest.skip(str(error))
    try:
        seen = situation.try_on(program, broker)
    except BaseException:
        programs.close()  # its outcome may still come, and would be taken for the next one's
        raise
    assert seen == situation.expected(client)


def test_there_are_forty_situations_with_names_of_their_own() -> None:
    names = [each.name for each in situations()]
    assert len(set(names)) == len(names) >= 40
    assert {name for each in situations() for name in each.instead} <= set(ALL)
