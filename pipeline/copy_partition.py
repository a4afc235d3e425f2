"""What a Spark task does in a copy: turns Arrow batches into records and produces them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

from .copy_task import (
    DELIVERY_TIMEOUT_MS,
    LEASE_S,
    NO_TIME_MS,
    CopyTask,
    Lease,
    Pace,
    Record,
    RecordWriter,
    Tally,
)
from .errors import PipelineError
from .kafka import client_errors
from .properties import client_settings

NEVER_MS: Final = 3_600_000
REQUEST_BYTES_MAX: Final = 1 << 30
COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
RESULT_SCHEMA: Final = (
    "topic string, partition int, next_offset bigint, written bigint, skipped bigint,"
    " oldest_ms bigint, error string"
)
RESULT_NAMES: Final = [column.split()[0] for column in RESULT_SCHEMA.split(",")]
RESULT_TYPES: Final = ("string", "int32", "int64", "int64", "int64", "int64", "string")


def write_partition(task: CopyTask, batches: Iterator[Any]) -> Iterator[Any]:
    """Write one Spark task's Arrow batches of `COLUMNS`; yields rows of `RESULT_SCHEMA`.

    An error is a row, too: if it were raised, Spark would retry the task and lose the message.
    """
    tallies: Mapping[tuple[str, int], Tally] = {}
    error: str | None = None
    try:
        _check_first_attempt()
        with client_errors(task.bootstrap_servers):
            tallies = _write_all(task, batches)
    except PipelineError as failure:
        error = str(failure)
    yield _result(tallies, error)


def _write_all(task: CopyTask, batches: Iterator[Any]) -> Mapping[tuple[str, int], Tally]:
    writer: RecordWriter | None = None
    with ExitStack() as open_clients:
        for batch in batches:
            for record in records_of(batch):
                if writer is None:
                    writer = _writer(task, record, open_clients)
                writer.write(record)
            if writer is not None:
                writer.flush()
    return writer.tallies if writer is not None else {}


def _writer(task: CopyTask, first: Record, open_clients: ExitStack) -> RecordWriter:
    rate = task.rates.get((first.topic, first.partition))
    lease = Lease(task)
    open_clients.callback(lease.close)
    producer = _producer(task, lease)
    open_clients.callback(_abandon, producer)
    return RecordWriter(task.lanes, producer, Pace(rate) if rate else None, lease)


def _result(tallies: Mapping[tuple[str, int], Tally], error: str | None) -> Any:
    import pyarrow

    rows: list[tuple[object, ...]] = [
        (topic, partition, t.next_offset, t.written, t.skipped, t.oldest_ms, None)
        for (topic, partition), t in tallies.items()
    ]
    if error is not None:
        rows.append((None, None, 0, 0, 0, NO_TIME_MS, error))
    columns = list(zip(*rows, strict=True)) or [()] * len(RESULT_TYPES)
    arrays = [
        pyarrow.array(column, getattr(pyarrow, kind)())
        for column, kind in zip(columns, RESULT_TYPES, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, RESULT_NAMES)


def records_of(batch: Any) -> Iterator[Record]:
    """The records of an Arrow batch."""
    columns = [batch.column(name).to_pylist() for name in COLUMNS]
    for topic, partition, offset, timestamp_ms, key, value, headers in zip(*columns, strict=True):
        pairs = [(header["key"], header["value"]) for header in headers or ()]
        yield Record(topic, partition, offset, timestamp_ms, key, value, pairs)


def _check_first_attempt() -> None:
    """Refuse a task that Spark retries.  Raises: PipelineError.

    The driver lost the executor of the first attempt, but that may still run and write for the same
    owner.  The next start of the job has another owner, which such a task notices.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        raise PipelineError(
            "a task of the copy was lost with its executor, and is not tried again, because it may"
            " still be writing: start the same command again, it goes on"
        )


def _producer(task: CopyTask, lease: Lease | None = None) -> Any:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        **{
            **client_settings(task.bootstrap_servers, task.properties),
            "acks": "all",
            "enable_idempotence": True,
            "max_in_flight_requests_per_connection": 1,
            # A batch goes out when its round ends, not before: see copy_task.py.
            "linger_ms": NEVER_MS,
            "compression_type": task.compression,
            "batch_size": REQUEST_BYTES_MAX,
            "max_request_size": REQUEST_BYTES_MAX,
            "delivery_timeout_ms": NEVER_MS + DELIVERY_TIMEOUT_MS,
            "max_block_ms": DELIVERY_TIMEOUT_MS,
            "metrics_enabled": False,
        }
    )
    if lease is not None:
        _hold(producer._accumulator, lease)
    return producer


def _hold(accumulator: Any, lease: Lease) -> None:
    """Keep a producer from sending while its task does not hold the lease.

    Otherwise it would retry failed batches even if nothing calls `flush`, and would apply the
    timeout of a flush to each of its batches.
    """
    ready = accumulator.ready

    def ready_if_held(cluster: Any, now: float | None = None) -> Any:
        if lease.is_held:
            return ready(cluster, now=now)
        return set(), LEASE_S, False  # no nodes to send to, when to ask again, no leaders to find

    accumulator.ready = ready_if_held


def _abandon(producer: Any) -> None:
    """Stop a producer from sending anything more.

    Its own `close` would wait for undelivered batches and then go on in the background, and Spark
    reuses the process.
    """
    producer._sender.force_close()
    producer._sender.join(timeout=DELIVERY_TIMEOUT_MS / 1000)
    producer._closed = True
