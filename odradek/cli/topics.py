"""`odradek topics`: lists, creates, describes, deletes and alters topics."""

from collections.abc import Iterable, Mapping

import click

from odradek.protocol.errors import ErrorCode

from .clients import Client, Cluster, cluster_options, error_name
from .commands import group
from .completion import complete_topics
from .delete_records import delete_records
from .errors import CommandError, no_such_topic
from .options import json_option, parse_pairs
from .tables import show_json, show_table
from .topic_documents import Topic, document, show, summary
from .topics_plan import plan


@group()
def topics() -> None:
    """List, create, describe, change and delete topics of any Kafka cluster."""


topics.add_command(plan)
topics.add_command(delete_records)

config_option = click.option(
    "--config",
    "--set",
    "configs",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="A topic setting, such as retention.ms=60000; may be repeated.",
)


def parse_assignment(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> list[list[int]] | None:
    """A click callback for Kafka's spelling `1:2,2:3`: replicas by colon, partitions by comma."""
    if text is None:
        return None
    try:
        return [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 1:2,2:3", ctx, param) from None


assignment_option = click.option(
    "--assignment",
    "--replica-assignment",
    "assignment",
    metavar="B:B,B:B,…",
    callback=parse_assignment,
    help="Brokers of each (new) partition, the preferred leader first: 1:2,2:1.",
)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also Kafka's own topics.")
@click.option("-q", "--quiet", is_flag=True, help="Names only, one a line.")
@json_option
@cluster_options
def list_topics(cluster: Cluster, internal: bool, quiet: bool, as_json: bool) -> None:
    """List the topics."""
    with cluster.admin() as admin:
        found = sorted(admin.describe_topics(), key=lambda topic: str(topic["name"]))
    shown = [topic for topic in found if internal or not topic["is_internal"]]
    if quiet:
        for topic in shown:
            click.echo(topic["name"])
    elif as_json:
        show_json([summary(topic) for topic in shown])
    else:
        columns = ("TOPIC", "PARTITIONS", "REPLICAS")
        show_table(columns, [list(summary(topic).values())[:3] for topic in shown])


@topics.command("create")
@click.argument("names", metavar="TOPIC…", nargs=-1, required=True)
@click.option("-p", "--partitions", type=click.IntRange(1), help="Default: the cluster's.")
@click.option("-r", "--replication-factor", type=click.IntRange(1), help="Default: the cluster's.")
@assignment_option
@config_option
@click.option("--if-not-exists", is_flag=True, help="Accept topics that exist already.")
@click.option(
    "--dry-run", is_flag=True, help="Let the cluster check the request, but create nothing."
)
@cluster_options
def create(
    cluster: Cluster,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    assignment: list[list[int]] | None,
    configs: dict[str, str],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics."""
    if assignment is not None and (partitions is not None or replication_factor is not None):
        raise click.UsageError("--assignment already says partitions and replicas")
    wanted = {
        "num_partitions": partitions or -1,
        "replication_factor": replication_factor or -1,
        "assignments": dict(enumerate(assignment or [])),
        "configs": configs,
    }
    with cluster.admin() as admin:
        answer = admin.create_topics(
            dict.fromkeys(names, wanted), validate_only=dry_run, raise_errors=False
        )
    _report(
        answer["topics"],
        "would create" if dry_run else "created",
        if_not_exists and ErrorCode.TOPIC_ALREADY_EXISTS,
    )


@topics.command("delete")
@click.argument("names", metavar="TOPIC…", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Accept topics that do not exist.")
@cluster_options
def delete(cluster: Cluster, names: tuple[str, ...], if_exists: bool) -> None:
    """Delete topics with all their records."""
    with cluster.admin() as admin:
        answer = admin.delete_topics(list(names), raise_errors=False)
        if not if_exists:
            _report(answer["topics"], "deleted", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            _refuse_missing(admin, answer["topics"])
            return
    _report(answer["topics"], "deleted", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@topics.command("alter")
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@click.option("-p", "--partitions", type=click.IntRange(1), help="The new, larger number.")
@assignment_option
@config_option
@cluster_options
def alter(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    assignment: list[list[int]] | None,
    configs: dict[str, str],
) -> None:
    """Add partitions to a topic, or change its settings."""
    if partitions is None and not configs:
        raise click.UsageError("nothing to change: give --partitions or --config")
    if assignment is not None and partitions is None:
        raise click.UsageError("--assignment goes with --partitions")
    with cluster.admin() as admin:
        if partitions is not None:
            wanted: int | dict[str, object] = partitions
            if assignment is not None:
                wanted = {"count": partitions, "assignments": assignment}
            answer = admin.create_partitions({name: wanted}, raise_errors=False)
            results = [result.to_dict() for result in answer.results]
            _refuse_missing(admin, results)
            _report(results, "altered", False)
        if configs:
            _alter_configs(admin, name, configs)


@topics.command("describe")
@click.argument("names", metavar="[TOPIC…]", nargs=-1, shell_complete=complete_topics)
@click.option("--offsets", is_flag=True, help="Also the first and the next offset.")
@json_option
@cluster_options
def describe(cluster: Cluster, names: tuple[str, ...], offsets: bool, as_json: bool) -> None:
    """Show partitions, replicas and settings of topics; of all without a name."""
    with cluster.admin() as admin:
        found = sorted(admin.describe_topics(list(names) or None), key=lambda t: str(t["name"]))
        shown = [topic for topic in found if names or not topic["is_internal"]]
        _refuse_missing(admin, shown)
        _raise_first(shown)
        documents = [document(admin, topic, offsets) for topic in shown]
    if as_json:
        show_json(documents)
        return
    for index, described in enumerate(documents):
        if index:
            click.echo()
        show(described)


def _alter_configs(admin: Client, name: str, configs: Mapping[str, str]) -> None:
    from kafka.admin import ConfigResource

    resource = ConfigResource("TOPIC", name, dict(configs))
    answer = admin.alter_configs([resource], raise_on_unknown=False)
    outcome = answer["topic"][name]
    if outcome != "OK":
        raise CommandError(f"{name}: {outcome}")
    click.echo(f"configured {name}", err=True)


def _report(results: Iterable[Topic], done: str, forgiven: int | bool) -> None:
    """Print what was done to stderr; raises for the first error that is not `forgiven`."""
    results = list(results)
    for result in results:
        if result["error_code"] == 0:
            click.echo(f"{done} {result['name']}", err=True)
    _raise_first(result for result in results if result["error_code"] != forgiven)


def _refuse_missing(admin: Client, described: Iterable[Topic]) -> None:
    """Raise CommandError for a topic that is not there."""
    for topic in described:
        if topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_such_topic(topic["name"], (t["name"] for t in admin.describe_topics()))


def _raise_first(results: Iterable[Topic]) -> None:
    for result in results:
        if code := result["error_code"]:
            message = result.get("error_message") or "refused"
            raise CommandError(f"{result['name']}: {message} ({error_name(code)})")
