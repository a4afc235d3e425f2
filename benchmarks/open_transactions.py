"""`python -m benchmarks.open_transactions`: what open transactions cost on the event loop.

Opens 10,000 transactions, each with one record, at a broker in this process.  Prints the longest
callbacks of its event loop, in ms of its thread's time: while nothing is asked of it, with one open
transaction and with all of them, and when it starts after all have reached their timeout.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdResponse
from odradek.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from odradek.testing import Broker
from tests.broker.transaction_requests import add_partitions, init_producer
from tests.support.brokers import create_topic
from tests.support.connections import RawConnection
from tests.support.messages import batch_of, produce_request
from tests.support.waiting import until

TOPIC: Final = "t"
PARTITIONS: Final = 10
IDLE_S: Final = 20.0
SETTINGS: Final = {
    "producer.id.expiration.check.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "transaction.state.log.num.partitions": "10",
}
LONGEST: Final = 8


class CallbackTimes:
    """The durations of all callbacks of the event loops of this process, while it is entered."""

    def __init__(self) -> None:
        self.took: list[tuple[float, str]] = []
        """Seconds of thread time, and what ran."""

    def longest(self) -> str:
        """The kinds that took longest: how long at most, in ms."""
        took: dict[str, float] = {}
        for took_s, name in sorted(self.took):
            took[name] = took_s
        kinds = sorted(took, key=lambda name: took[name], reverse=True)[:LONGEST]
        return ", ".join(f"{name} {1000 * took[name]:.2f}" for name in kinds)


@contextmanager
def timed_callbacks() -> Iterator[CallbackTimes]:
    """Measure the callbacks of asyncio."""
    times = CallbackTimes()
    run = asyncio.Handle._run

    def timed_run(handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        run(handle)
        times.took.append((time.thread_time() - began_s, name_of(handle)))

    asyncio.Handle._run = timed_run  # type: ignore[assignment, method-assign]
    try:
        yield times
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


def name_of(handle: asyncio.Handle) -> str:
    """The function or task that a callback of asyncio runs."""
    callback: Any = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        name = owner.get_name()
        is_given = not name.startswith("Task-")
        return name if is_given else getattr(owner.get_coro(), "__qualname__", name)
    return getattr(callback, "__qualname__", type(callback).__name__)


def create_coordinator(address: tuple[str, int]) -> None:
    """Have `__transaction_state` created, and wait until this broker leads it."""
    find = FindCoordinatorRequest(coordinator_keys=["x0"], key_type=1)
    with RawConnection(*address) as connection:
        until(lambda: connection.exchange(find, 4).coordinators[0].error_code == 0)
        until(lambda: connection.exchange(init_producer("x0"), 4).error_code == 0)


def open_all(address: tuple[str, int], numbers: range, timeout_ms: int) -> None:
    """Begin transactions with these numbers, and write one record in each."""
    with RawConnection(*address) as connection:
        for number in numbers:
            transactional_id, partition = f"x{number}", number % PARTITIONS
            request = init_producer(transactional_id, timeout_ms=timeout_ms)
            answer = connection.exchange(request, 4)
            assert isinstance(answer, InitProducerIdResponse)
            assert answer.error_code == 0, answer
            producer = answer.producer_id, answer.producer_epoch
            connection.exchange(add_partitions(transactional_id, producer, TOPIC, partition), 3)
            batch = batch_of(
                b"value",
                timestamp=int(time.time() * 1000),
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=0,
                is_transactional=True,
            )
            written = produce_request(TOPIC, {partition: batch})
            written.transactional_id = transactional_id
            code = connection.exchange(written, 9).responses[0].partition_responses[0].error_code
            assert code == 0, code


def all_ended(address: tuple[str, int], count: int) -> bool:
    """Whether a hundred of the transactions, from all parts, have their end."""
    ids = [f"x{number}" for number in range(0, count, max(1, count // 100))]
    with RawConnection(*address) as connection:
        answer = connection.exchange(DescribeTransactionsRequest(transactional_ids=ids), 0)
    return {each.transaction_state for each in answer.transaction_states} == {"CompleteAbort"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.open_transactions", description=__doc__
    )
    parser.add_argument("--count", type=int, default=10_000)
    count: int = parser.parse_args().count
    timeout_ms = int(3_000 * IDLE_S) + 10 * count
    with tempfile.TemporaryDirectory() as directory:
        with Broker(settings=SETTINGS, data_dir=directory, in_process=True) as broker:
            host, port = broker.bootstrap_servers.split(":")
            create_topic(broker.bootstrap_servers, TOPIC, partitions=PARTITIONS)
            create_coordinator((host, int(port)))
            open_all((host, int(port)), range(1), timeout_ms)
            with timed_callbacks() as idle:
                time.sleep(IDLE_S)
            print(f"1 open, idle: {idle.longest()}")
            began_s = time.monotonic()
            open_all((host, int(port)), range(1, count), timeout_ms)
            opened_s = time.monotonic()
            print(f"{count} opened in {opened_s - began_s:.1f} s")
            with timed_callbacks() as idle:
                time.sleep(IDLE_S)
            print(f"{count} open, idle: {idle.longest()}")
        time.sleep(max(0.0, opened_s + timeout_ms / 1000 - time.monotonic()))
        with (
            timed_callbacks() as aborts,
            Broker(settings=SETTINGS, data_dir=directory, in_process=True) as broker,
        ):
            host, port = broker.bootstrap_servers.split(":")
            while not all_ended((host, int(port)), count):
                time.sleep(0.1)
        print(f"{count} loaded after their timeout, and aborted: {aborts.longest()}")


if __name__ == "__main__":
    main()
