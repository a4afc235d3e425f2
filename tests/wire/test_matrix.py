"""What any client writes, every client reads back: keys, values, headers and timestamps, byte for
byte, with each codec.

Each writer fills one partition per codec of a topic of its own, once; each reader then reads the
whole topic of each writer.
"""

import functools
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.brokers import UniqueName, create_topic
from tests.wire.clients import READERS, WRITERS, read_kcat_raw
from tests.wire.records import CODECS, Sent, samples, writable_by
from tests.wire.servers import Server

Written = Callable[[str], tuple[str, dict[int, list[Sent]]]]


def client(name: str) -> object:
    """A parameter that carries the marker of the component that the client needs."""
    return pytest.param(name, marks=[pytest.mark.java] if name.startswith("java") else [])


@pytest.fixture(scope="module")
def written(server: Server, admin: AdminClient, unique_name: UniqueName) -> Written:
    """A function from a writer's name to its topic and the records of each partition."""

    @functools.cache
    def write(writer: str) -> tuple[str, dict[int, list[Sent]]]:
        topic = unique_name(f"matrix-{writer}")
        create_topic(server.bootstrap_servers, topic, partitions=len(CODECS), admin=admin)
        records = {p: writable_by(writer, samples(seed=p)) for p in range(len(CODECS))}
        batches = [(partition, CODECS[partition], records[partition]) for partition in records]
        WRITERS[writer](server.bootstrap_servers, topic, batches)
        return topic, records

    return write


@pytest.mark.parametrize("reader", [client(name) for name in READERS])
@pytest.mark.parametrize("writer", [client(name) for name in WRITERS])
def test_every_client_reads_what_every_client_wrote(
    server: Server, written: Written, writer: str, reader: str
) -> None:
    topic, records = written(writer)
    found = READERS[reader](
        server.bootstrap_servers, topic, {partition: len(r) for partition, r in records.items()}
    )
    for partition, codec in enumerate(CODECS):
        assert found[partition] == records[partition], codec


@pytest.mark.kcat
@pytest.mark.parametrize("writer", [client(name) for name in WRITERS])
def test_kcat_reads_what_every_client_wrote(server: Server, written: Written, writer: str) -> None:
    topic, records = written(writer)
    for partition, codec in enumerate(CODECS):
        found = read_kcat_raw(server.bootstrap_servers, topic, partition, len(records[partition]))
        assert found == [as_kcat_prints(record) for record in records[partition]], codec


def as_kcat_prints(record: Sent) -> tuple[bytes, ...]:
    headers = b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value.partition(b"\0")[0])
        for name, value in record.headers
    )
    key = b"NULL" if record.key is None else record.key
    value = b"NULL" if record.value is None else record.value
    return (str(record.timestamp).encode(), headers, key, value)
