"""What conversations about administration share: short ways to ask, and to wait for an effect."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from odradek.protocol.messages import k33_alter_configs as alter_configs
from odradek.protocol.messages import k44_incremental_alter_configs as incremental
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.support.messages import produce_request
from tests.support.waiting import NotYet, until
from tests.wire.talk import DEADLINE_S, Talk, batch

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
PRODUCE_VERSION: Final = 11
DESCRIBE_VERSION: Final = 4

Conversation = Callable[[Talk], None]


class Op(NamedTuple):
    """One change of IncrementalAlterConfigs."""

    key: str
    value: str | None
    operation: int = SET


class Resource(NamedTuple):
    """Whose settings are changed."""

    kind: int
    name: str
    ops: Sequence[Op]


def named(name: str, conversation: Conversation) -> Conversation:
    """The conversation under a name of its own, by which its test and its rules are called."""

    def run(talk: Talk) -> None:
        conversation(talk)

    run.__name__ = name
    return run


def change(
    talk: Talk, label: str, *resources: Resource, version: int = 1, validate_only: bool = False
) -> None:
    """IncrementalAlterConfigs; the answer is noted."""
    talk.ask(label, _incremental(resources, validate_only), version)


def change_quietly(talk: Talk, *resources: Resource) -> None:
    """The same; it must succeed, and nothing is noted."""
    answer = talk.exchange(_incremental(resources, False), 1)
    assert all(response.error_code == 0 for response in answer.responses), answer


def _incremental(
    resources: Iterable[Resource], validate_only: bool
) -> incremental.IncrementalAlterConfigsRequest:
    return incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=key, value=value, config_operation=operation)
                    for key, value, operation in ops
                ],
            )
            for kind, name, ops in resources
        ],
        validate_only=validate_only,
    )


def replace(
    talk: Talk, label: str, *resources: Resource, version: int = 2, validate_only: bool = False
) -> None:
    """AlterConfigs, which knows no operations; the answer is noted."""
    request = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=op.key, value=op.value) for op in ops],
            )
            for kind, name, ops in resources
        ],
        validate_only=validate_only,
    )
    talk.ask(label, request, version)


def show(talk: Talk, label: str, kind: int, name: str, *keys: str) -> None:
    """DescribeConfigs with synonyms; the answer is noted."""
    talk.ask(label, _describe(kind, name, keys), DESCRIBE_VERSION)


def _describe(kind: int, name: str, keys: Sequence[str]) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def value_of(talk: Talk, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """A setting's value and where it comes from."""
    answer = talk.exchange(_describe(kind, name, [key]), DESCRIBE_VERSION)
    (config,) = answer.results[0].configs
    return config.value, config.config_source


def wait_for(talk: Talk, kind: int, name: str, key: str, value: str, source: int) -> None:
    """Return once a setting is shown so: Kafka's brokers hear of changes a little later."""
    eventually(lambda: value_of(talk, kind, name, key) == (value, source))


def eventually(condition: Callable[[], object]) -> None:
    """Return once it holds, or when it has taken too long: the comparison will say what is so."""
    with suppress(NotYet):
        until(condition, timeout_s=DEADLINE_S)


def produce(talk: Talk, topic: str, *values: bytes | None, acks: int = -1, **more: Any) -> int:
    """Append one batch; the error code."""
    request = produce_request(topic, {0: batch(*values, **more)}, acks=acks)
    code: int = (
        talk.exchange(request, PRODUCE_VERSION).responses[0].partition_responses[0].error_code
    )
    return code
