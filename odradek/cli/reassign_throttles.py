"""Throttles for a reassignment, in the settings where Kafka's own tool keeps them.

Topic settings say which replicas are throttled, broker settings at which rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.broker.settings.resources import ResourceType
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from .brokers import Brokers, refusal
from .cluster_view import TopicPartition
from .errors import CommandError

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
SET, DELETE = 0, 1
SOURCES_FIRST: Final = 1
DYNAMIC_SOURCES: Final = {ResourceType.TOPIC: 1, ResourceType.BROKER: 2}

Replicas = Sequence[int]


class Rates(NamedTuple):
    """Bytes per second; None: leave the setting as it is."""

    between_brokers: int | None
    between_log_dirs: int | None

    @property
    def configs(self) -> dict[str, str]:
        """The settings for a broker."""
        rates = {
            LEADER_RATE: self.between_brokers,
            FOLLOWER_RATE: self.between_brokers,
            LOG_DIRS_RATE: self.between_log_dirs,
        }
        return {name: str(rate) for name, rate in rates.items() if rate is not None}


class Throttled(NamedTuple):
    """What is throttled: lists of `PARTITION:BROKER` by topic, and the brokers."""

    leaders: dict[str, str]
    followers: dict[str, str]
    brokers: list[int]


def throttled(moves: Mapping[TopicPartition, tuple[Replicas, Replicas]]) -> Throttled:
    """What to throttle for moves (replicas before, replicas after).

    Leaders are throttled on all brokers that have a replica, followers on those that get one.
    """
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    brokers: set[int] = set()
    for (topic, partition), (before, after) in moves.items():
        leaders.setdefault(topic, set()).update(f"{partition}:{b}" for b in before)
        added = [b for b in after if b not in before]
        followers.setdefault(topic, set()).update(f"{partition}:{b}" for b in added)
        brokers.update(before, after)
    return Throttled(_joined(leaders), _joined(followers), sorted(brokers))


def _joined(parts: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {topic: ",".join(sorted(texts)) for topic, texts in parts.items()}


def set_throttles(brokers: Brokers, asked: Throttled, rates: Rates) -> None:
    """Set the throttles, if every broker accepts its own.  Raises: CommandError."""
    configs = rates.configs
    limits = {b: [_resource(ResourceType.BROKER, str(b), configs)] for b in asked.brokers}
    for broker, limit in limits.items():
        try:
            _alter(brokers, limit, node_id=broker, validate_only=True)
        except CommandError as error:
            raise CommandError(f"{error.message}: nothing was begun") from None
    if rates.between_brokers is not None:
        topics = [
            _resource(
                ResourceType.TOPIC,
                topic,
                {LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: asked.followers[topic]},
            )
            for topic, leaders in asked.leaders.items()
        ]
        _alter(brokers, topics)
    for broker, limit in limits.items():
        _alter(brokers, limit, node_id=broker)


def take_throttles_away(
    brokers: Brokers, topics: Sequence[str], broker_ids: Sequence[int]
) -> list[str]:
    """Remove existing throttles; returns what had any.  Raises: CommandError."""
    names = {topic: f"topic {topic}" for topic in topics}
    removed = _remove(brokers, ResourceType.TOPIC, names, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    for broker in broker_ids:
        named = {str(broker): f"broker {broker}"}
        rates = LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE
        removed += _remove(brokers, ResourceType.BROKER, named, rates, node_id=broker)
    return removed


def _remove(
    brokers: Brokers,
    kind: ResourceType,
    names: Mapping[str, str],
    configs: Sequence[str],
    *,
    node_id: int | None = None,
) -> list[str]:
    if not names:
        return []
    resources = [
        DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=list(configs)
        )
        for name in names
    ]
    answer = brokers.ask(
        DescribeConfigsRequest(resources=resources),
        DescribeConfigsResponse,
        node_id=node_id,
        first=SOURCES_FIRST,
    )
    found = []
    for result in answer.results:
        if result.error_code:
            raise refusal(names[result.resource_name], result.error_code, result.error_message)
        own = [c.name for c in result.configs if c.config_source == DYNAMIC_SOURCES[kind]]
        if own:
            found.append(_resource(kind, result.resource_name, dict.fromkeys(own)))
    _alter(brokers, found, node_id=node_id)
    return [names[resource.resource_name] for resource in found]


def _resource(
    kind: ResourceType, name: str, values: Mapping[str, str | None]
) -> AlterConfigsResource:
    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in values.items()
    ]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def _alter(
    brokers: Brokers,
    resources: list[AlterConfigsResource],
    *,
    node_id: int | None = None,
    validate_only: bool = False,
) -> None:
    if not resources:
        return
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    answer = brokers.ask(request, IncrementalAlterConfigsResponse, node_id=node_id)
    for result in answer.responses:
        if result.error_code:
            kind = "broker" if result.resource_type == ResourceType.BROKER else "topic"
            what = f"no throttle for {kind} {result.resource_name}"
            raise refusal(what, result.error_code, result.error_message)
