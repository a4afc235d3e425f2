"""`odradek configs`: describes and alters settings of topics, brokers, groups and loggers."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import click

from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from .brokers import BrokerLacks, brokers_of, refusal
from .clients import Cluster, cluster_options
from .commands import group
from .errors import CommandError
from .options import json_option, parse_pairs
from .tables import NOTHING, show_json, show_table

SOURCES: Final = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
TYPES: Final = (
    "UNKNOWN",
    "BOOLEAN",
    "STRING",
    "INT",
    "SHORT",
    "LONG",
    "DOUBLE",
    "LIST",
    "CLASS",
    "PASSWORD",
)
TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32  # types of resources
SOURCES_FIRST: Final = 1  # DescribeConfigs v0 has no sources of values
SET, DELETE, APPEND, SUBTRACT = range(4)


class Resource(NamedTuple):
    """A resource that has settings."""

    type: int
    name: str
    own_source: str
    """The source, as in SOURCES, of settings made for this very resource."""
    node_id: int | None = None
    """The only broker that can answer; None: any."""

    def __str__(self) -> str:
        kinds = {TOPIC: "topic", BROKER: "broker", BROKER_LOGGER: "broker logger", GROUP: "group"}
        kind = kinds[self.type]
        return f"{kind} {self.name}" if self.name else "the default of brokers"


def resource_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --topic, --broker, … to a command, which gets the chosen one as `resource`."""

    @click.option("--topic", metavar="NAME", help="Settings of a topic.")
    @click.option("--broker", type=click.IntRange(0), metavar="ID", help="Settings of a broker.")
    @click.option("--broker-default", is_flag=True, help="Settings that apply to all brokers.")
    @click.option("--group", metavar="ID", help="Settings of a consumer group.")
    @click.option(
        "--broker-logger", type=click.IntRange(0), metavar="ID", help="Log levels of a broker."
    )
    @functools.wraps(command)
    def with_resource(
        topic: str | None,
        broker: int | None,
        broker_default: bool,
        group: str | None,
        broker_logger: int | None,
        **rest: object,
    ) -> None:
        chosen = []
        if topic is not None:
            chosen.append(Resource(TOPIC, topic, "DYNAMIC_TOPIC_CONFIG"))
        if broker is not None:
            chosen.append(Resource(BROKER, str(broker), "DYNAMIC_BROKER_CONFIG", broker))
        if broker_default:
            chosen.append(Resource(BROKER, "", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
        if group is not None:
            chosen.append(Resource(GROUP, group, "DYNAMIC_GROUP_CONFIG"))
        if broker_logger is not None:
            source = "DYNAMIC_BROKER_LOGGER_CONFIG"
            chosen.append(Resource(BROKER_LOGGER, str(broker_logger), source, broker_logger))
        if len(chosen) != 1:
            raise click.UsageError(
                "name one of --topic, --broker, --broker-default, --group, --broker-logger"
            )
        command(resource=chosen[0], **rest)

    return with_resource


@group()
def configs() -> None:
    """Describe and change settings of topics, brokers and groups of any Kafka cluster."""


@configs.command("describe")
@resource_options
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also settings that have their default or the broker's value.",
)
@json_option
@cluster_options
def describe(cluster: Cluster, resource: Resource, everything: bool, as_json: bool) -> None:
    """Show the settings that were made for a topic, broker or group; with --all, every one."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.type, resource_name=resource.name, configuration_keys=None
            )
        ],
        include_synonyms=True,
    )
    with brokers_of(cluster) as brokers:
        answer = brokers.ask(
            request, DescribeConfigsResponse, node_id=resource.node_id, first=SOURCES_FIRST
        )
    (result,) = answer.results
    if result.error_code:
        raise refusal(str(resource), result.error_code, result.error_message)
    shown = [
        _document(config)
        for config in sorted(result.configs, key=lambda config: config.name)
        if everything or _source(config.config_source) == resource.own_source
    ]
    if as_json:
        show_json(shown)
    else:
        _show(shown, everything)


def _document(config: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": _source(config.config_source),
        "type": TYPES[config.config_type] if 0 <= config.config_type < len(TYPES) else "UNKNOWN",
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": _source(synonym.source)}
            for synonym in config.synonyms
        ],
    }


def _source(number: int) -> str:
    return SOURCES.get(number, f"SOURCE_{number}")


def _show(documents: Sequence[dict[str, Any]], everything: bool) -> None:
    columns = ["name", "value", "source"] + (["type", "read_only"] if everything else [])
    rows = [[_cell(document, column) for column in columns] for document in documents]
    if rows:
        show_table([column.replace("_", "-").upper() for column in columns], rows)


def _cell(document: dict[str, Any], column: str) -> object:
    cell = document[column]
    if column == "value" and cell is None:
        return "(hidden)" if document["sensitive"] else NOTHING
    return ("yes" if cell else "no") if isinstance(cell, bool) else cell


@configs.command("alter")
@resource_options
@click.option(
    "--set",
    "--config",
    "to_set",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Give a setting a value; may be repeated, like the options below.",
)
@click.option(
    "--delete", "to_delete", metavar="NAME", multiple=True, help="Reset a setting to its default."
)
@click.option(
    "--append",
    "to_append",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Add an entry to a list.",
)
@click.option(
    "--subtract",
    "to_subtract",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Remove an entry from a list.",
)
@click.option(
    "--dry-run", is_flag=True, help="Let the cluster check the request, but change nothing."
)
@cluster_options
def alter(cluster: Cluster, resource: Resource, dry_run: bool, **changes: Any) -> None:
    """Change settings of a topic, broker or group, and leave the others as they are."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=_changes(**changes),
            )
        ],
        validate_only=dry_run,
    )
    with brokers_of(cluster) as brokers:
        try:
            answer = brokers.ask(request, IncrementalAlterConfigsResponse, node_id=resource.node_id)
        except BrokerLacks as error:
            raise CommandError(
                "the broker cannot change single settings (IncrementalAlterConfigs, Kafka 2.3)"
            ) from error
    (result,) = answer.responses
    if result.error_code:
        raise refusal(str(resource), result.error_code, result.error_message)
    click.echo(f"{'would configure' if dry_run else 'configured'} {resource}", err=True)


def _changes(
    *,
    to_set: dict[str, str],
    to_delete: tuple[str, ...],
    to_append: dict[str, str],
    to_subtract: dict[str, str],
) -> list[AlterableConfig]:
    changes = [
        AlterableConfig(name=name, config_operation=operation, value=value)
        for operation, pairs in ((SET, to_set), (APPEND, to_append), (SUBTRACT, to_subtract))
        for name, value in pairs.items()
    ]
    changes += [
        AlterableConfig(name=name, config_operation=DELETE, value=None) for name in to_delete
    ]
    if not changes:
        raise click.UsageError("nothing to change: give --set, --delete, --append or --subtract")
    names = [change.name for change in changes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise click.UsageError(f"more than one change of {', '.join(twice)}")
    return changes
