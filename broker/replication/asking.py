"""A follower's Fetch request, built from what its session has to say."""

from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

from ..config import Config
from ..core.fetch_topics import part_of
from .session import Key, Telling, Wanted


def fetch_request(
    telling: Telling,
    told: Wanted,
    config: Config,
    *,
    max_wait_ms: int,
    broker_id: int,
    broker_epoch: int,
) -> FetchRequest:
    """A request that names the partitions in `telling`, with what is `told` of each."""
    return FetchRequest(
        replica_id=broker_id,
        replica_state=ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        session_id=telling.session_id,
        session_epoch=telling.epoch,
        topics=_topics(telling.partitions, told),
        forgotten_topics_data=_forgotten(telling.forgotten),
    )


def _topics(keys: list[Key], told: Wanted) -> list[FetchTopic]:
    topics: dict[str | bytes, FetchTopic] = {}
    for key in keys:
        name, index = key
        epoch, offset, last_epoch, start_offset, bytes_max = told[key]
        part_of(topics, name, FetchTopic).partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=start_offset,
                partition_max_bytes=bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(keys: list[Key]) -> list[ForgottenTopic]:
    topics: dict[str | bytes, ForgottenTopic] = {}
    for name, index in keys:
        part_of(topics, name, ForgottenTopic).partitions.append(index)
    return list(topics.values())
