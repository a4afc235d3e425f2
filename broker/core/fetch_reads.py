"""One round of reads for a Fetch: what each partition can return, within its limits."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.storage.errors import StorageError
from odradek.storage.log.log import Log
from odradek.storage.log.span import Span
from odradek.storage.log.txn_index import AbortedTransaction

from .fetch_session import FetchContext, PartitionFetch
from .followers import FetchingReplica
from .partition import Partition
from .storage_errors import code_of

Lookup = Callable[[PartitionFetch], Partition]
"""Finds the requested partition.  Raises: Refused."""
Nearest = Callable[[Partition, int], int | None]
"""The follower from which a consumer should read a partition at an offset; None: this leader."""
HoldsBack = Callable[[Partition], bool]
"""Whether a partition must be held back from the fetching follower now."""

UNKNOWN = -1


class Read(NamedTuple):
    """What one partition returns; -1 for what is unknown because of an error."""

    fetch: PartitionFetch
    partition: Partition | None
    error: ErrorCode
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    span: Span | None = None
    aborted: Sequence[AbortedTransaction] = ()
    """The aborted transactions that a reader of committed records must leave out of the span."""
    diverging_epoch: tuple[int, int] | None = None
    """The last epoch (and its end) that both logs may share, if the fetcher's log diverges."""
    failure: StorageError | None = None
    """Without its traceback: that has frames which hold this, and so would never be freed."""
    preferred: int | None = None
    """The replica from which the consumer is to read instead."""

    @property
    def size_bytes(self) -> int:
        """The size of the records in bytes."""
        return 0 if self.span is None else self.span.size_bytes


def read_all(
    fetches: list[PartitionFetch],
    find: Lookup,
    size_bytes_max: int,
    *,
    committed: bool = False,
    at_any_replica: bool = False,
    nearest: Nearest | None = None,
    replica: FetchingReplica | None = None,
    is_news: bool = True,
    holds_back: HoldsBack | None = None,
) -> list[Read]:
    """Read the partitions in order until `size_bytes_max` is used up.

    `committed`: read only up to the last stable offset, and list the aborted transactions.
    `at_any_replica`: followers serve the read too, as far as they know what is committed; `nearest`
    says which replica to ask instead. `replica`: a follower reads, up to the log end. With
    `is_news` the request has just arrived, and the leader takes note of it.  A partition that is
    held back from the follower is answered without records.

    The first batch of the first partition that has any is returned even if it is larger than every
    limit, so that a consumer always makes progress (KIP-74). The caller releases the spans.
    """
    reads = []
    left_bytes = size_bytes_max
    at_least_one = True
    for fetch in fetches:
        if replica is None:
            read = read_one(
                fetch,
                find,
                left_bytes,
                at_least_one=at_least_one,
                committed=committed,
                at_any_replica=at_any_replica,
                nearest=nearest,
            )
        else:
            read = read_as_follower(
                fetch, find, left_bytes, replica, at_least_one=at_least_one, is_news=is_news
            )
            if holds_back is not None and read.span is not None:
                read = _held_back(read, holds_back)
        if read.span is not None:
            left_bytes = max(0, left_bytes - read.size_bytes)
            at_least_one = False
        reads.append(read)
    return reads


def read_one(
    fetch: PartitionFetch,
    find: Lookup,
    left_bytes: int,
    *,
    at_least_one: bool,
    committed: bool = False,
    at_any_replica: bool = False,
    nearest: Nearest | None = None,
) -> Read:
    """Read one partition."""
    partition = None
    try:
        partition = find(fetch)
        check_reader(partition, fetch, at_any_replica=at_any_replica)
        if nearest is not None:
            preferred = nearest(partition, fetch.fetch_offset)
            if preferred is not None:
                return _read_of(fetch, partition, preferred=preferred)
        log = partition.log
        diverging_epoch = _diverging_epoch(fetch, log)
        if diverging_epoch is not None:
            return _read_of(fetch, partition, diverging_epoch=diverging_epoch)
        span = log.read(
            fetch.fetch_offset,
            size_bytes_max=min(fetch.max_bytes, left_bytes),
            offset_end=log.last_stable_offset if committed else log.high_watermark,
            at_least_one=at_least_one,
        )
        aborted = () if span is None or not committed else _aborted(log, fetch.fetch_offset, span)
        return _read_of(fetch, partition, span, aborted)
    except Refused as refused:
        return Read(fetch, partition, refused.code)
    except StorageError as error:
        return Read(fetch, partition, code_of(error), failure=error.with_traceback(None))


def read_as_follower(
    fetch: PartitionFetch,
    find: Lookup,
    left_bytes: int,
    replica: FetchingReplica,
    *,
    at_least_one: bool,
    is_news: bool,
) -> Read:
    """Read one partition for a broker that has a replica of it.

    If the answer reports a divergence, the request says nothing about the follower's position.
    """
    partition = None
    try:
        partition = find(fetch)
        if fetch.settled_in is partition.state:
            quiet = _read_quiet(fetch, partition, replica, is_news=is_news)
            if quiet is not None:
                return quiet
        partition.check_leader(fetch.current_leader_epoch)
        partition.check_follower(replica.replica_id, fetch.current_leader_epoch)
        log = partition.log
        diverging_epoch = _diverging_epoch(fetch, log)
        if diverging_epoch is not None:
            return _read_of(fetch, partition, diverging_epoch=diverging_epoch)
        span = log.read(
            fetch.fetch_offset,
            size_bytes_max=min(fetch.max_bytes, left_bytes),
            offset_end=log.log_end_offset,
            at_least_one=at_least_one,
        )
        if is_news:
            partition.follower_fetched(replica, fetch.fetch_offset, fetch.log_start_offset)
        fetch.settled_in = partition.state if span is None else None
        return _read_of(fetch, partition, span)
    except Refused as refused:
        return Read(fetch, partition, refused.code)
    except StorageError as error:
        return Read(fetch, partition, code_of(error), failure=error.with_traceback(None))


def _read_quiet(
    fetch: PartitionFetch, partition: Partition, replica: FetchingReplica, *, is_news: bool
) -> Read | None:
    """Read for a follower in sync that had everything in this state, and still does.

    This fast path covers nearly all partitions of a session, nearly always.
    """
    log, end_offset = partition.log, fetch.fetch_offset
    if (
        log.log_end_offset != end_offset
        or log.high_watermark != fetch.told_high_watermark
        or log.log_start_offset != fetch.told_log_start_offset
        or replica.replica_id not in partition.in_sync.isr
    ):
        return None
    follower = partition.followers.get(replica.replica_id)
    if follower is None:  # another fetcher may use the session
        return None
    if is_news:
        follower.fetched(replica, end_offset, fetch.log_start_offset, end_offset)
    read = fetch.quiet
    if not isinstance(read, Read) or read.partition is not partition:
        read = fetch.quiet = _read_of(fetch, partition)
    return read


def is_quiet(read: Read) -> bool:
    """Whether there is nothing to answer: a follower's session already knows everything."""
    return read is read.fetch.quiet


def is_news(read: Read) -> bool:
    """Whether it must be answered although there are no records."""
    return bool(read.error) or read.diverging_epoch is not None or read.preferred is not None


def would_be_answered(fetch: FetchContext, read: Read) -> bool:
    """What `is_answered` will return; asking changes nothing."""
    return fetch.would_include(
        read.fetch,
        high_watermark=UNKNOWN if read.diverging_epoch is not None else read.high_watermark,
        log_start_offset=read.log_start_offset,
        records_size_bytes=read.size_bytes,
        has_news=is_news(read),
    )


def is_answered(fetch: FetchContext, read: Read) -> bool:
    """Whether the answer must contain it; call it once for each, in answer order.

    A fetcher that is told of a divergence truncates its log and ignores everything else, so the
    high watermark must be sent again.
    """
    return fetch.include(
        read.fetch,
        high_watermark=UNKNOWN if read.diverging_epoch is not None else read.high_watermark,
        log_start_offset=read.log_start_offset,
        records_size_bytes=read.size_bytes,
        has_news=is_news(read),
    )


def _held_back(read: Read, holds_back: HoldsBack) -> Read:
    if read.partition is None or not holds_back(read.partition):
        return read
    release_all([read])
    return read._replace(span=None)


def check_reader(partition: Partition, fetch: PartitionFetch, *, at_any_replica: bool) -> None:
    """Check that a consumer may read here.

    Raises: Refused (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH).
    """
    if at_any_replica:
        partition.check_epoch(fetch.current_leader_epoch)
    else:
        partition.check_leader(fetch.current_leader_epoch)


def _read_of(
    fetch: PartitionFetch,
    partition: Partition,
    span: Span | None = None,
    aborted: Sequence[AbortedTransaction] = (),
    *,
    diverging_epoch: tuple[int, int] | None = None,
    preferred: int | None = None,
) -> Read:
    """What to answer: records, another replica to read from, or that there are none."""
    log = partition.log
    return Read(
        fetch,
        partition,
        ErrorCode.NONE,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        span,
        aborted,
        diverging_epoch=diverging_epoch,
        preferred=preferred,
    )


def _aborted(log: Log, offset: int, span: Span) -> list[AbortedTransaction]:
    """Raises: StorageError."""
    try:
        return log.aborted_transactions(offset, span.next_offset)
    except StorageError:
        span.release()
        raise


def _diverging_epoch(fetch: PartitionFetch, log: Log) -> tuple[int, int] | None:
    """Where the log of a fetcher that names its last epoch diverges from ours, if so (KIP-595).

    Raises: Refused.
    """
    last_epoch = fetch.last_fetched_epoch
    if last_epoch < 0:
        return None
    is_in_log = log.log_start_offset <= fetch.fetch_offset <= log.log_end_offset
    if is_in_log and last_epoch == log.epochs.latest:
        return None  # by far the most frequent case
    epoch, end_offset = log.end_offset_for_epoch(last_epoch)
    if UNKNOWN in (epoch, end_offset) or fetch.fetch_offset < log.log_start_offset:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    diverges = epoch < last_epoch or end_offset < fetch.fetch_offset
    return (epoch, end_offset) if diverges else None


def release_all(reads: list[Read]) -> None:
    """Release the spans of reads that are not answered."""
    for read in reads:
        if read.span is not None:
            read.span.release()
