"""A shard of transactional ids, with a log, markers and clocks that tests hold in their hands."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from odradek.broker.core.effects import Answer, AppendRecords, Caller, Effect, Producer
from odradek.broker.core.moment import Moment
from odradek.broker.core.partition_state import TopicPartition
from odradek.broker.core.transactions.journals import Journals
from odradek.broker.core.transactions.markers import SendMarkers
from odradek.broker.core.transactions.requests import AddPartitions, EndTransaction, InitProducer
from odradek.broker.core.transactions.settings import TransactionSettings
from odradek.broker.core.transactions.shard import TransactionShard
from odradek.broker.core.transactions.transaction import Snapshot, snapshot_of
from odradek.broker.core.transactions.transactional_id import Transaction
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.transaction_records import TransactionRecord, decode_record, encode_record

ID: Final = "id"
WALL_MS: Final = 1_700_000_000_000
TIMEOUT_MS: Final = 60_000
NOBODY: Final = Producer(-1, -1)
A: Final = ("t", 0)
B: Final = ("t", 1)
CALLER: Final = Caller("c", "/127.0.0.1", 5)


class Waiting:
    """A request of a client, and the answer once there is one."""

    def __init__(self, request: InitProducer | AddPartitions | EndTransaction) -> None:
        self.request = request
        self.code: ErrorCode | None = None
        self.producer = NOBODY

    @property
    def got(self) -> Producer:
        """The producer of an InitProducerId that succeeded."""
        assert self.code is ErrorCode.NONE, self.code
        return self.producer


class Append(NamedTuple):
    """An append that the high watermark has not passed."""

    offset_end: int
    key: str
    then: Callable[[ErrorCode], Sequence[Effect]]


class Running:
    """A shard, and what its shell does for it; appends are committed at once, unless it `holds`."""

    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.now_ms = 0
        self.wall_ms = WALL_MS
        self.log: list[TransactionRecord] = []
        self.committed = 0
        self.appends: deque[Append] = deque()
        self.holds = False
        self.refuse = ErrorCode.NONE
        """What the log refuses all appends with."""
        self.sent: list[SendMarkers] = []
        """Markers that are to be written."""
        self.next_id = 1_000
        self.has_ready_ids = True
        self.journals = Journals()
        self.shard = self._made()

    def _made(self) -> TransactionShard:
        return TransactionShard(0, lambda: self.settings, self.journals, self._ready_id)

    def _ready_id(self) -> int | None:
        if not self.has_ready_ids:
            return None
        self.next_id += 1
        return self.next_id - 1

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.wall_ms)

    # What the shell does.

    def run(self, key: str, effects: Sequence[Effect]) -> None:
        """Carry out effects in order, as `LedPartition` does."""
        for effect in effects:
            if isinstance(effect, Answer):
                self.answer(effect.reply, effect.response)
            elif isinstance(effect, AppendRecords):
                self._append(key, effect)
            else:
                assert isinstance(effect, SendMarkers)
                self.sent.append(effect)
        self.shard.settled(key)

    def answer(self, reply: object, response: Any) -> None:
        assert isinstance(reply, Waiting)
        assert reply.code is None, "answered twice"
        reply.code, reply.producer = response

    def _append(self, key: str, effect: AppendRecords) -> None:
        if self.refuse:
            self._then(key, effect.then, self.refuse)
            return
        self.log += [_read_back(record) for record in effect.records]
        self.appends.append(Append(len(self.log), key, effect.then))
        if not self.holds:
            self.commit()

    def _then(
        self, key: str, then: Callable[[ErrorCode], Sequence[Effect]], code: ErrorCode
    ) -> None:
        self.shard.set_clocks(key, self.moment)
        self.run(key, then(code))

    def commit(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Let the high watermark pass all that is in the log."""
        while self.appends:
            self.commit_next(code)

    def commit_next(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Let the high watermark pass the next append."""
        append = self.appends.popleft()
        self.committed = append.offset_end
        self._then(append.key, append.then, code)

    # Requests.

    def init(
        self, claimed: Producer | None = None, *, key: str = ID, timeout_ms: int = TIMEOUT_MS
    ) -> Waiting:
        new_id = None
        if self.shard.needs_producer_id(key, claimed):
            new_id, self.next_id = self.next_id, self.next_id + 1

        def respond(code: ErrorCode, producer: Producer) -> Any:
            return code, producer

        request = InitProducer(key, timeout_ms, claimed, new_id, respond)
        waiting = Waiting(request)
        self.run(key, self.shard.init_producer(request, CALLER, waiting, self.moment))
        return waiting

    def add(
        self,
        producer: Producer,
        *partitions: TopicPartition,
        key: str = ID,
        client_version: int = 0,
    ) -> Waiting:
        request = AddPartitions(key, producer, partitions, _plain, client_version)
        waiting = Waiting(request)
        self.run(key, self.shard.add_partitions(request, CALLER, waiting, self.moment))
        return waiting

    def end(
        self,
        producer: Producer,
        *,
        commits: bool = True,
        key: str = ID,
        client_version: int = 0,
    ) -> Waiting:
        new_id = None
        if self.shard.needs_producer_id_to_end(key, client_version):
            new_id, self.next_id = self.next_id, self.next_id + 1
        request = EndTransaction(key, producer, commits, _named, client_version, new_id)
        waiting = Waiting(request)
        self.run(key, self.shard.end(request, CALLER, waiting, self.moment))
        return waiting

    def verify(self, producer: Producer, *partitions: TopicPartition, key: str = ID) -> ErrorCode:
        """What a broker is told that asks whether partitions are in the transaction."""
        try:
            missing = self.shard.missing_partitions(key, producer, partitions)
        except Refused as refused:
            return refused.code
        return ErrorCode.TRANSACTION_ABORTABLE if missing else ErrorCode.NONE

    # What happens besides.

    def mark(self, *partitions: TopicPartition, markers: SendMarkers | None = None) -> None:
        """The markers in these partitions are written; without any, all that were sent last."""
        markers = markers or self.sent[-1]
        marked = partitions or markers.partitions
        key = markers.transactional_id
        self.run(key, self.shard.marked(markers, marked, self.moment))

    def pass_time(self, ms: int, *, wall_ms: int | None = None) -> None:
        """Let time go by, on the wall clock perhaps more or less; then ring."""
        self.now_ms += ms
        self.wall_ms += ms if wall_ms is None else wall_ms
        self.ring()

    def ring(self) -> None:
        """Call the shard for all that is due."""
        for key in list(self.shard.ids):
            wake_ms = self.shard.wake_ms(key)
            if wake_ms is not None and wake_ms <= self.now_ms:
                self.run(key, self.shard.on_time(key, self.moment))

    def lose(self, *, kept: int | None = None, told: bool = True) -> None:
        """Another coordinator takes over, with so many records; without a number with all.

        `told`: the former one notes it, and tells those who wait.
        """
        while self.appends and told:
            append = self.appends.popleft()
            self._then(append.key, append.then, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.appends.clear()
        self.shard.unload()
        del self.log[len(self.log) if kept is None else kept :]
        self.committed = len(self.log)
        self.shard = self._made()
        for record in self.log:
            self.shard.load(record)
        self.shard.loaded(self.moment)

    # What there is.

    def transaction(self, key: str = ID) -> Transaction:
        return self.shard._transactions[key]

    def known(self, key: str = ID) -> Snapshot:
        return self.transaction(key).known

    def replayed(self) -> dict[str, Snapshot]:
        """What the committed part of the log says."""
        last = {record.transactional_id: record.value for record in self.log[: self.committed]}
        return {key: snapshot_of(value) for key, value in last.items() if value is not None}


def _read_back(record: TransactionRecord) -> TransactionRecord:
    """A record as it is after it was bytes."""
    read = decode_record(*encode_record(record))
    assert read is not None
    return read


def _named(code: ErrorCode, producer: Producer) -> Any:
    return code, producer


def _plain(code: ErrorCode) -> Any:
    return code, NOBODY
