"""Records that are copied in transactions are copied once, whoever is ended meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.seeds import Repeats, repeated
from tests.support.brokers import StartServer
from tests.support.killing import InTurn, Stopped, Victim, kill_again_and_again
from tests.wire.copying import SETTINGS, Copiers, Copying
from tests.wire.servers import Server

JAVA: Final = pytest.param("java-3.9.2", marks=pytest.mark.java)
VICTIMS: Final[dict[str, Callable[[Server, Copiers], Victim]]] = {
    "in turn": lambda server, copiers: InTurn([server, copiers]),
    "brokers hard": lambda server, copiers: server,
    "brokers clean": lambda server, copiers: Stopped(server),
    "clients hard": lambda server, copiers: copiers,
    "clients clean": lambda server, copiers: Stopped(copiers),
}


def copy(
    server: Server,
    directory: Path,
    repeats: Repeats,
    *,
    client: str,
    victims: str,
    records: int,
    partitions: int,
) -> None:
    """With a copier for each partition, but two for three."""
    copiers = Copiers(client, server.bootstrap_servers, min(partitions, 2), directory)
    copying = Copying(server, copiers, records=records, partitions=partitions, kills=repeats.count)
    kill_again_and_again(VICTIMS[victims](server, copiers), copying, repeats)


@repeated(in_test=2, in_soak=2)
def test_a_broker_and_a_client_are_killed(
    start_server: StartServer, tmp_path: Path, repeats: Repeats
) -> None:
    server = start_server(SETTINGS)
    copy(
        server,
        tmp_path,
        repeats,
        client="librdkafka",
        victims="in turn",
        records=5_000,
        partitions=1,
    )


@repeated(in_soak=10, each_s=60)
@pytest.mark.parametrize("client", ["librdkafka", JAVA])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("victims", [name for name in VICTIMS if name != "in turn"])
def test_whoever_is_ended(
    start_server: StartServer,
    tmp_path: Path,
    repeats: Repeats,
    client: str,
    victims: str,
    partitions: int,
) -> None:
    server = start_server(SETTINGS)
    copy(
        server,
        tmp_path,
        repeats,
        client=client,
        victims=victims,
        records=100_000,
        partitions=partitions,
    )
