"""Makes the reference pages from the code: `python -m tests.docs.reference` writes them all.

docs/configuration.md is made from the settings' declarations (odradek/broker/settings/docs.py),
docs/reference-apis.md from the table of APIs and the messages, docs/reference-commands.md from the
commands themselves, docs/reference-admin-api.md and docs/admin-api.json from the routes of the
admin API, docs/situations.md from the table of tests/situations.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from odradek.broker.handlers import APIS, Api, Need
from odradek.broker.handlers.k18_api_versions import CONSUMER_GROUPS, NOT_BESIDE_KAFKA
from odradek.broker.handlers.releases import CHANGES
from odradek.broker.settings.docs import configuration_markdown
from odradek.cli import COMMANDS, main
from odradek.cli.examples import EXAMPLES
from tests.docs.admin_reference import admin_json, admin_markdown
from tests.docs.pages import DOCS, ROOT, slug
from tests.docs.situations_page import situations_markdown

KAFKA_VERSIONS: Final = ROOT / "tests" / "vectors" / "kafka_3.9.2_api_versions.tsv"
MADE: Final = "<!-- Made by `make docs`; do not edit. -->"
SENDERS: Final = {
    Need.NOTHING: "clients",
    Need.BROKER: "brokers",
    Need.BROKER_TO_BATCH: "clients; from v4 on brokers",
    Need.BROKER_TO_FOLLOW: "clients; followers are brokers",
}
NOT_SERVED: Final = {
    57: "UpdateFeatures",
    58: "Envelope",
}
"""APIs of Apache Kafka 3.9 in ZooKeeper mode that Odradek does not serve."""
APIS_INTRODUCTION: Final = """\
# APIs and versions

{made}

A broker answers ApiVersions with the API keys and version ranges of this table. *Flexible* is the
first version with compact types and tagged fields. *Kafka 3.9.2* is the range that Apache Kafka
3.9.2 with ZooKeeper advertises. Versions in parentheses are served and advertised only with
`odradek.transaction.version=2`; they are those of Apache Kafka 4.

A broker accepts requests marked *brokers* only on a listener for brokers. On other listeners it
answers CLUSTER_AUTHORIZATION_FAILED, and TOPIC_AUTHORIZATION_FAILED to the Fetch of a follower:
[which connections count as brokers](clusters.md#which-connections-count-as-brokers).

A broker answers an ApiVersions request of an unknown version with UNSUPPORTED_VERSION and version
0. It closes the connection after any other unknown API key or version, as Kafka does. Some old
versions are read and refused with an error code: [differences.md](differences.md).
"""
LIKE: Final = """\
## Like another release

With `odradek.compatibility` a broker serves clients those versions of the first table that the
release had, too, except on a listener for brokers. These are the versions that each release had
itself, as its own classes tell: with ZooKeeper or with KRaft, and without unstable ones. Kafka 4
shows Produce from 0, but refuses it below 3, and so does Odradek.
"""
COMMANDS_INTRODUCTION: Final = """\
# Commands

{made}

This page lists every command with its options and examples, as `--help` prints them.
[cli.md](cli.md) explains the commands.

| Command | What it does |
|---|---|
"""
CLUSTER_OPTIONS: Final = ("bootstrap_servers", "context", "command_config", "properties", "verbose")
"""What odradek.cli.clients.cluster_options adds to a command."""


def pages() -> Mapping[Path, Callable[[], str]]:
    """Each generated page and what makes its text."""
    return {
        DOCS / "configuration.md": configuration_markdown,
        DOCS / "reference-apis.md": apis_markdown,
        DOCS / "reference-commands.md": commands_markdown,
        DOCS / "reference-admin-api.md": lambda: admin_markdown(MADE),
        DOCS / "admin-api.json": admin_json,
        DOCS / "situations.md": lambda: situations_markdown(MADE),
    }


def apis_markdown() -> str:
    """The table of APIs, and what of Kafka's is not there."""
    kafka = kafka_versions()
    head = ("Key", "API", "Versions", "Flexible", "Sent by", "Kafka 3.9.2", "The request")
    advertised = [api for api in APIS.values() if api.is_advertised]
    private = [api for api in APIS.values() if not api.is_advertised]
    rows = [
        (*_api_cells(api), kafka.get(api.key, "none"), _first_sentence(api)) for api in advertised
    ]
    own = [(*_api_cells(api), _first_sentence(api)) for api in private]
    absent = [(str(key), name, kafka[key]) for key, name in NOT_SERVED.items()]
    return "\n".join(
        [
            APIS_INTRODUCTION.format(made=MADE),
            table(head, rows),
            "With `group.coordinator.rebalance.protocols=classic` a broker does not advertise",
            f"{_names(CONSUMER_GROUPS)}. With `zookeeper.connect` it does not advertise",
            f"{_names(NOT_BESIDE_KAFKA)}.\n",
            "## Odradek's own\n",
            "ApiVersions does not list these: brokers, `odradek groups explain` and",
            "`odradek transactions explain` use them.\n",
            table((*head[:5], head[-1]), own),
            "## Not served\n",
            "Apache Kafka 3.9.2 with ZooKeeper advertises these APIs, too. Odradek does not.\n",
            table(("Key", "API", "Kafka 3.9.2"), absent),
            LIKE,
            table(
                ("Key", "API", "Versions since"),
                [(str(key), APIS[key].name, changes) for key, changes in CHANGES.items()],
            ),
        ]
    )


def kafka_versions() -> dict[int, str]:
    """The version ranges that Apache Kafka 3.9.2 advertises, by API key."""
    lines = KAFKA_VERSIONS.read_text().splitlines()
    numbers = [line.split("\t") for line in lines if not line.startswith("#")]
    return {int(key): _range(int(first), int(last)) for key, first, last in numbers}


def commands_markdown() -> str:
    """Every command with its options and examples."""
    parts = [COMMANDS_INTRODUCTION.format(made=MADE).rstrip()]
    context = click.Context(main, info_name="odradek")
    parts += [f"| [`{name}`](#{slug(name)}) | {text} |" for name, text in COMMANDS.items()]
    parts += ["", "## Options that name a cluster", "", "Commands that take them say so below.", ""]
    some_command = _command("topics list")
    parts.append(table(("Option", "Meaning"), _option_rows(some_command, context, is_cluster=True)))
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        parts.append(f"## {name}\n")
        if not isinstance(command, click.Group):
            parts += _command_parts(name, command)
            continue
        parts.append(f"{COMMANDS[name]}\n")
        for path, inner in _leaves(name, command, context):
            parts += [f"### {path}\n", *_command_parts(path, inner)]
    return "\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells) + "\n"


def _api_cells(api: Api) -> tuple[str, ...]:
    versions = api.request.VERSIONS
    assert (versions.first, versions.last) == (api.first, api.last_of_v2), api.name
    flexible = str(api.flexible) if api.flexible <= api.last else "none"
    served = _range(api.first, api.last)
    if api.last_of_v2 > api.last:
        served += f" ({api.last_of_v2})"
    return str(api.key), api.name, served, flexible, SENDERS[api.need]


def _first_sentence(api: Api) -> str:
    return inspect.cleandoc(api.request.__doc__ or "").splitlines()[0]


def _names(keys: Iterable[int]) -> str:
    return " and ".join(APIS[key].name for key in keys)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _command(path: str) -> click.Command:
    found: click.Command = main
    for name in path.split():
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), name)
        assert inner is not None
        found = inner
    return found


def _leaves(
    path: str, group: click.Group, parent: click.Context
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=group.name, parent=parent)
    for name in group.list_commands(context):
        inner = group.get_command(context, name)
        assert inner is not None
        yield f"{path} {name}", inner


def _command_parts(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    yield f"```\nodradek {path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield _prose(inspect.cleandoc(command.help or "").replace("\b\n", "")) + "\n"
    if rows := _option_rows(command, context, is_cluster=False):
        yield table(("Option", "Meaning"), rows)
    if _takes_cluster(command):
        yield "Takes the [options that name a cluster](#options-that-name-a-cluster).\n"
    if examples := EXAMPLES.get(path):
        yield "```\n" + "\n".join(f"odradek {path} {example}" for example in examples) + "\n```\n"


def _takes_cluster(command: click.Command) -> bool:
    return {*CLUSTER_OPTIONS} <= {parameter.name for parameter in command.params}


def _option_rows(
    command: click.Command, context: click.Context, *, is_cluster: bool
) -> list[tuple[str, str]]:
    shared = CLUSTER_OPTIONS if _takes_cluster(command) else ()
    records = [
        parameter.get_help_record(context)
        for parameter in command.params
        if isinstance(parameter, click.Option) and (parameter.name in shared) == is_cluster
    ]
    return [(f"`{_cell(record[0])}`", _prose(_cell(record[1]))) for record in records if record]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _prose(text: str) -> str:
    return text.replace("*", "\\*").replace("<", "\\<")


def write_pages() -> None:
    """Write every generated page anew."""
    for path, make in pages().items():
        path.write_text(make())


if __name__ == "__main__":
    write_pages()
