"""A conversation about transactions: producers by their transactional ids, and what became of them.

A Prepare state lasts as long as its markers can't be written: in a topic with a dead replica whose
`min.insync.replicas` is 2, until `release`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from odradek.protocol.messages.k00_produce import ProduceRequest
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from odradek.protocol.records import iter_batches, iter_records
from odradek.protocol.schema import Message
from odradek.protocol.transaction_records import TransactionRecord, decode_record
from tests.broker.transaction_requests import (
    NOBODY,
    Identity,
    add_offsets,
    add_partitions,
    end,
    init_producer,
)
from tests.support.frames import request_bytes
from tests.support.messages import RECORDS_BYTES_MAX, fetch_request, produce_request
from tests.support.waiting import until
from tests.wire.group_talk import GroupTalk, wait_until_groups_are_served
from tests.wire.servers import Server
from tests.wire.talk import Plain, batch, shown_time

FIND_COORDINATOR: Final = 10
TRANSACTIONS: Final = 1
CONCURRENT_TRANSACTIONS: Final = 51
NOT_READY: Final = frozenset({14, 15, 16})
PRODUCE_LAST, FETCH_LAST, INIT_LAST, ADD_LAST, OFFSETS_LAST, END_LAST = 11, 12, 5, 3, 4, 4
COMMIT_LAST: Final = 4
TRANSACTION_PARTITIONS: Final = 4
ALTER_TOPIC, SET = 2, 0
DEAD: Final = 7
MOMENTS: Final = frozenset(
    {
        "last_timestamp",
        "transaction_last_update_timestamp_ms",
        "transaction_start_time_ms",
        "transaction_start_timestamp_ms",
    }
)
HASHED: Final = frozenset(
    {
        "active_producers",
        "markers",
        "results_by_partition",
        "results_by_topic_v3_and_below",
        "results_by_transaction",
        "topic_results",
        "topics",
        "transaction_partitions",
        "transaction_states",
        "unknown_state_filters",
    }
)
"""Kafka keeps these in hash maps; others are named in `talk.UNORDERED`."""


class TransactionTalk(GroupTalk):
    """A conversation with one broker about transactions."""

    def __init__(self, server: Server, topic_prefix: str) -> None:
        super().__init__(server, topic_prefix)
        self._producer_names: dict[int, str] = {}
        self._stuck: str | None = None

    def producer(self, stem: str = "id") -> "Transactional":
        """Someone with a transactional id of this conversation."""
        return Transactional(self, self.topic(stem))

    def name_producer(self, producer_id: int, name: str) -> None:
        """From now on show this producer id as that of a transactional id."""
        if producer_id >= 0 and producer_id not in self._producer_names:
            count = sum(known.startswith(f"{name}'s") for known in self._producer_names.values())
            self._producer_names[producer_id] = f"{name}'s" + (f" {count + 1}" if count else "")

    def exchange_as(self, client_id: str, request: Message, version: int) -> None:
        """Send a request as a client of that name; any answer will do."""
        frame = request_bytes(request, version, next(self._correlation_ids), client_id)
        assert self.ask_frame(frame) is not None

    def names(self, producer_id: int) -> bool:
        """Whether a producer of this conversation has this id."""
        return producer_id in self._producer_names

    # Transactional ids as they are seen from outside.

    def described(self, transactional_id: str) -> Any:
        """What DescribeTransactions says of one."""
        answer = self.exchange(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
        return answer.transaction_states[0]

    def wait_for(self, transactional_id: str, *states: str) -> None:
        """Wait until it is in one of these states."""
        until(
            lambda: self.described(transactional_id).transaction_state in states,
            lambda: self.described(transactional_id),
        )

    def note_settled(self, label: str, transactional_id: str) -> None:
        """Note its state, once the markers are written if they can be."""

        def settled() -> bool:
            found = self.described(transactional_id)
            is_ending = found.transaction_state.startswith("Prepare")
            return not is_ending or [each.topic for each in found.topics] == [self._stuck]

        until(settled)
        self.note(label, self.plain(self.described(transactional_id), 0))

    def note_producers(self, label: str, topic: str, *partitions: int) -> None:
        """Note what DescribeProducers says of partitions."""
        asked = TopicRequest(name=topic, partition_indexes=list(partitions or (0,)))
        self.ask(label, DescribeProducersRequest(topics=[asked]), 0)

    def note_log(self, label: str, topic: str, partition: int = 0) -> None:
        """Note a partition's batches, and what of it may be read by readers of both kinds."""
        for isolation in (0, 1):
            asked = fetch_request(topic, 0, partition=partition, isolation_level=isolation)
            self.ask(f"{label}, isolation {isolation}", asked, FETCH_LAST)

    def restart_transactions(self, end_it: Callable[[], None]) -> None:
        """End the broker with `end_it`, start it, and wait for its coordinators."""
        self.close()
        end_it()
        self.server.start()
        wait_until_transactions_are_served(self.server)

    def continue_with(self, server: Server) -> None:
        """Go on with another broker on the same files."""
        self.close()
        self.server = server

    def committed_offset(self, group_id: str, topic: str) -> int:
        """What a group has committed for partition 0."""
        wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=[wanted])]
        answer = self.exchange(OffsetFetchRequest(groups=groups), 8)
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return offset

    # Topics in which no marker can be written.

    def stuck(self) -> str:
        """The topic of this conversation that takes no marker before `release`."""
        if self._stuck is None:
            self._stuck = self.topic("stuck")
            topic = CreatableTopic(
                name=self._stuck,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[0, DEAD])],
                configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
            )
            answer = self.exchange(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 6)
            assert answer.topics[0].error_code == 0, answer
            asked = fetch_request(self._stuck)
            until(lambda: _code_of_fetch(self.exchange(asked, FETCH_LAST)) == 0)
        return self._stuck

    def release(self) -> None:
        """Let the markers be written."""
        change = AlterableConfig(name="min.insync.replicas", config_operation=SET, value="1")
        resource = AlterConfigsResource(
            resource_type=ALTER_TOPIC, resource_name=self._stuck or "", configs=[change]
        )
        answer = self.exchange(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, answer
        self._stuck = None

    # Answers as plain data.

    def _field(self, name: str, value: Any, version: int) -> Plain:
        if name in ("producer_id", "previous_producer_id", "next_producer_id"):
            return self._producer_names.get(value, "(set)" if value >= 0 else value)
        if name in MOMENTS:
            return shown_time(value)
        if name in HASHED and isinstance(value, list):
            return sorted((self._field("", one, version) for one in value), key=repr)
        if name in ("partitions", "partition_ids") and value and isinstance(value[0], int):
            return sorted(value)
        return super()._field(name, value, version)

    # Records on disk.

    def note_states_on_disk(self, label: str) -> None:
        """Note the records of this conversation's transactional ids, in the order of each id."""
        found: dict[str, list[Plain]] = {}
        for partition in range(TRANSACTION_PARTITIONS):
            log_dir = self.server.data_dir / f"__transaction_state-{partition}"
            for record in transaction_records(log_dir):
                if record.transactional_id.startswith(f"{self.topic_prefix}-"):
                    shown = None if record.value is None else self.plain(record.value, 0)
                    found.setdefault(record.transactional_id, []).append(shown)
        for transactional_id, records in sorted(found.items()):
            self.note(f"{label}: {transactional_id}", records)


def transaction_records(log_dir: Path) -> Iterator[TransactionRecord]:
    """The records of a partition of `__transaction_state`."""
    for path in sorted(log_dir.glob("*.log")):
        view = memoryview(path.read_bytes())
        for position, header in iter_batches(view):
            body = view[position : position + header.size_bytes]
            for record in iter_records(body, header, size_bytes_max=RECORDS_BYTES_MAX):
                value = None if record.value is None else bytes(record.value)
                decoded = decode_record(bytes(record.key or b""), value)
                assert decoded is not None
                yield decoded


class Transactional:
    """A transactional id as its producer uses it; methods without a label must succeed."""

    def __init__(self, talk: TransactionTalk, transactional_id: str) -> None:
        self.talk = talk
        self.id = transactional_id
        self.identity: Identity = NOBODY
        self._sequences: dict[tuple[str, int], int] = {}

    @property
    def old(self) -> Identity:
        """The same producer with the epoch before."""
        return self.identity[0], self.identity[1] - 1

    def _done(self, request: Any, version: int) -> Any:
        answers: list[Any] = []

        def is_done() -> bool:
            answers.append(self.talk.exchange(request, version))
            return bool(answers[-1].error_code != CONCURRENT_TRANSACTIONS)

        until(is_done)
        assert answers[-1].error_code == 0, (request, answers[-1])
        return answers[-1]

    def init(self, claimed: Identity = NOBODY, *, timeout_ms: int = 60_000) -> "Transactional":
        """Get the next epoch."""
        request = init_producer(self.id, claimed, timeout_ms=timeout_ms)
        self._learn(self._done(request, INIT_LAST))
        return self

    def ask_init(
        self,
        label: str,
        claimed: Identity = NOBODY,
        version: int = INIT_LAST,
        *,
        timeout_ms: int = 60_000,
    ) -> Any:
        """Ask for an epoch, and use it if there is one."""
        request = init_producer(self.id, claimed, timeout_ms=timeout_ms)
        answer = self.talk.exchange(request, version)
        if answer is not None and answer.error_code == 0:
            self._learn(answer)
        self.talk.note(label, self.talk.plain(answer, version))
        return answer

    def _learn(self, answer: Any) -> None:
        self.identity = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        self.talk.name_producer(answer.producer_id, self.id)

    def add(self, topic: str, *partitions: int) -> "Transactional":
        """Add partitions to the transaction."""
        request = add_partitions(self.id, self.identity, topic, *(partitions or (0,)))

        def codes() -> set[int]:
            answer = self.talk.exchange(request, ADD_LAST)
            (found,) = answer.results_by_topic_v3_and_below
            return {each.partition_error_code for each in found.results_by_partition}

        until(lambda: codes() == {0}, codes)
        return self

    def add_group(self, group_id: str) -> "Transactional":
        """Add the offsets of a group to the transaction."""
        self._done(add_offsets(self.id, self.identity, group_id), OFFSETS_LAST)
        return self

    def batch(self, topic: str, *values: bytes, partition: int = 0) -> bytearray:
        """The next batch of a partition."""
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + len(values)
        return transactional_batch(self.identity, sequence, *values)

    def request(self, topic: str, data: bytearray | bytes, partition: int = 0) -> ProduceRequest:
        """A Produce of this transactional id."""
        request = produce_request(topic, {partition: data}, acks=1)
        request.transactional_id = self.id
        return request

    def send(self, topic: str, *values: bytes, partition: int = 0) -> "Transactional":
        """Write a batch to a partition."""
        data = self.batch(topic, *(values or (b"v",)), partition=partition)
        answer = self.talk.exchange(self.request(topic, data, partition), PRODUCE_LAST)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        return self

    def commit_offsets(
        self, group_id: str, topic: str, offsets: Mapping[int, int]
    ) -> "Transactional":
        """Commit offsets of partitions of a topic."""
        request = commit_request(self, group_id, topic, offsets)
        answer = self.talk.exchange(request, COMMIT_LAST)
        codes = {each.error_code for found in answer.topics for each in found.partitions}
        assert codes == {0}, answer
        return self

    def end(self, *, commits: bool = True) -> "Transactional":
        """End the transaction, and wait until its markers are written."""
        self._done(end(self.id, self.identity, commits=commits), END_LAST)
        self.talk.wait_for(self.id, "CompleteCommit" if commits else "CompleteAbort")
        return self

    def begin_end(self, *, commits: bool = True) -> "Transactional":
        """Decide how the transaction ends."""
        self._done(end(self.id, self.identity, commits=commits), END_LAST)
        self.talk.wait_for(self.id, "PrepareCommit" if commits else "PrepareAbort")
        return self


def transactional_batch(identity: Identity, sequence: int, *values: bytes) -> bytearray:
    """A batch of a producer in a transaction."""
    return batch(
        *(values or (b"v",)),
        producer_id=identity[0],
        producer_epoch=identity[1],
        base_sequence=sequence,
        is_transactional=True,
    )


def commit_request(
    producer: Transactional,
    group_id: str,
    topic: str,
    offsets: Mapping[int, int] | None = None,
    identity: Identity | None = None,
    **more: Any,
) -> TxnOffsetCommitRequest:
    """TxnOffsetCommit of offsets of partitions of a topic; by default 10 of partition 0."""
    producer_id, producer_epoch = producer.identity if identity is None else identity
    positions = [
        TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata="m"
        )
        for partition, offset in (offsets or {0: 10}).items()
    ]
    return TxnOffsetCommitRequest(
        transactional_id=producer.id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=positions)],
        **more,
    )


def wait_until_transactions_are_served(server: Server) -> None:
    """Return when both coordinators have loaded all that they lead."""
    wait_until_groups_are_served(server)
    talk = TransactionTalk(server, "ready")
    try:
        find = FindCoordinatorRequest(key="t", key_type=TRANSACTIONS)
        until(lambda: talk.exchange(find, 2).error_code == 0)
        for transactional_id in "dabc":  # Java's hash of one letter is its code
            until(partial(_is_loaded, talk, transactional_id))
        until(lambda: talk.exchange(init_producer(None), INIT_LAST).error_code == 0)
    finally:
        talk.close()


def _is_loaded(talk: TransactionTalk, transactional_id: str) -> bool:
    return talk.described(transactional_id).error_code not in NOT_READY


def _code_of_fetch(answer: Any) -> int:
    code: int = answer.responses[0].partitions[0].error_code
    return code
