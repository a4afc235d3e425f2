"""Generates docs/configuration.md from the declarations.

python -m odradek.broker.settings.docs > docs/configuration.md
"""

import sys
from collections.abc import Iterable
from typing import Final

from .built import GROUPS
from .changes import FIXED_LISTENERS
from .declaration import INT16_MAX, INT32_MAX, INT64_MAX, Setting, Value, declared_in, text_of
from .groups import GROUP_CONFIGS
from .known import CHANGEABLE
from .later import COORDINATORS, LIMITS, LOG, REPLICATION, ZOOKEEPER
from .never import KRAFT, SHARE_GROUPS, THREADS_AND_JAVA, TIERED_STORAGE
from .security import AUTHORIZATION, SASL, SSL
from .topic_config import TOPIC_SETTINGS
from .topic_declaration import DEFAULT, STORED, TopicSetting

_INTRODUCTION: Final = """\
# Configuration

<!-- Made by `python -m odradek.broker.settings.docs > docs/configuration.md`; do not edit. -->

Settings have Kafka's names and, where nothing else is said, Kafka's defaults, so that a
`server.properties` of Kafka in ZooKeeper mode can be read as it is. A setting comes from, each
above the one before:

1. its default;
2. a properties file, in Java's format: `odradek serve --config server.properties`;
3. an environment variable: `ODRADEK_LOG_SEGMENT_BYTES` is `log.segment.bytes`, in capitals, with
   `_` for `.`; where this could mean several things, it means the setting that exists. For the
   settings that begin with `odradek.` the prefix is not doubled: `ODRADEK_FLUSH_BYTES` is
   `odradek.flush.bytes`;
4. the command line: `odradek serve --set log.segment.bytes=16777216`.

A value that is not allowed stops the start with a sentence that names it. A name that nobody knows
is ignored with a warning, as Kafka does. A setting of Kafka's that has no effect here is ignored
with a warning if it differs from its default, and stops the start where going on would be dangerous
(an authorizer, for example): nothing is taken and silently ignored.
"""

_RUNNING: Final = """\
## While the broker runs

Some settings can be changed by admin clients (`odradek configs alter`, `kafka-configs`): those of
topics, of groups, and the broker's settings that are marked *running* below, for one broker or for
all. A change counts at once and survives a restart. What is set for one broker counts more than
what is set for all, and that more than what the broker was started with; DescribeConfigs shows all
of them. A setting of Kafka's without an effect here is taken only at its default or at the value
that it has anyway; otherwise INVALID_CONFIG names it.

The levels of loggers can be changed too, with Kafka's names of levels (FATAL, ERROR, WARN, INFO,
DEBUG, TRACE) and Odradek's names of loggers, which are those of its modules
(`odradek.broker.net.connection`; `odradek` is above them all). As in Kafka they do not survive a
restart.
"""

_TOPICS: Final = """\
## Topics

A topic has these settings of its own, given when it is created or changed later. Those that it does
not set come from the broker's setting beside it (of several, the first that is set). *Stored*: when
the topic is created any legal value is taken, kept and shown, but not applied yet, and a warning
says so; later only the default is taken. *Default only*: other values are refused until they are
built.
"""

_GROUPS_OF_THEIR_OWN: Final = """\
## Groups

A group of the next-generation protocol (KIP-848) may have these settings of its own. The broker's
setting of the same name with `group.` before it counts for the others, and those with
`group.consumer.min.` and `group.consumer.max.` bound them.
"""

_UNBUILT: Final = """\
## Known, without effect

Tools that ask a broker for its configuration are shown these too, as Kafka shows them.
"""

_GROUP_TITLES: Final = (
    "Listeners and connections",
    "New topics and their defaults",
    "Data directories and logs",
    "Retention",
    "Compaction",
    "Durability, recovery and scrubbing",
    "Answers",
    "Groups and their offsets",
    "Brokers among each other",
    "Elections",
    "Replication",
    "Throttled replication",
    "ZooKeeper",
    "Odradek's own",
)

_UNBUILT_TITLES: Final = (
    ("Not built yet: logs", LOG),
    ("Not built yet: replication and cluster", REPLICATION),
    ("Not built yet: transactions and parts of groups", COORDINATORS),
    ("Not built yet: policies and quotas", LIMITS),
    ("Not built yet: ZooKeeper", ZOOKEEPER),
    ("Not built yet: authorization and secrets", AUTHORIZATION),
    ("Not built yet: TLS", SSL),
    ("Not built yet: SASL", SASL),
    ("Never: threads and Java", THREADS_AND_JAVA),
    ("Never: KRaft", KRAFT),
    ("Never: share groups", SHARE_GROUPS),
    ("Never: tiered storage", TIERED_STORAGE),
)

BUILT: Final = frozenset(name for group in GROUPS for name in declared_in(group))

_LARGEST: Final = {
    INT16_MAX: "largest short",
    INT32_MAX: "largest int",
    INT64_MAX: "largest long",
}


def configuration_markdown() -> str:
    """The whole page as Markdown."""
    parts = [_INTRODUCTION, _RUNNING]
    for title, group in zip(_GROUP_TITLES, GROUPS, strict=True):
        parts += [f"## {title}\n", _table(declared_in(group).values())]
    parts += [_TOPICS, _topic_table(TOPIC_SETTINGS.values())]
    parts += [_GROUPS_OF_THEIR_OWN, _table(GROUP_CONFIGS.values()), _UNBUILT]
    for title, settings in _UNBUILT_TITLES:
        parts += [f"### {title}\n", _table(settings)]
    return "\n".join(parts)


def _table(settings: Iterable[Setting[Value]]) -> str:
    rows: list[tuple[str, ...]] = [("Name", "Type", "Default", "Allowed", "Meaning")]
    rows += [(f"`{s.name}`", s.kind.name, _default(s), _allowed(s), _meaning(s)) for s in settings]
    return _markdown(rows)


def _meaning(setting: Setting[Value]) -> str:
    is_dynamic = setting.name in BUILT and setting.name in CHANGEABLE - FIXED_LISTENERS
    return f"{setting.doc} *Running.*" if is_dynamic else setting.doc


def _topic_table(settings: Iterable[TopicSetting[Value]]) -> str:
    rows: list[tuple[str, ...]] = [
        ("Name", "Type", "Broker's setting", "Allowed", "Effect", "Meaning")
    ]
    effects = {STORED: "stored", DEFAULT: "default only"}
    for setting in settings:
        synonyms = ", ".join(f"`{name}`" for name, _ in setting.synonyms)
        effect = effects.get(setting.effect, "")
        rows.append(
            (
                f"`{setting.name}`",
                setting.kind.name,
                synonyms or f"always {_default(setting)}",
                _allowed(setting),
                effect,
                setting.doc,
            )
        )
    return _markdown(rows)


def _default(setting: Setting[Value]) -> str:
    default = setting.default
    text = text_of(default)
    if text is None:
        return "unset"
    if isinstance(default, int) and default in _LARGEST:
        return _LARGEST[default]
    shown = f"`{text}`" if text else "empty"
    return f"{shown} (Kafka: {setting.kafka_default})" if setting.kafka_default else shown


def _allowed(setting: Setting[Value]) -> str:
    if setting.choices:
        text = ", ".join(setting.choices)
    elif setting.at_most is not None:
        text = f"{setting.at_least} to {setting.at_most}"
    elif setting.at_least is not None:
        text = f"at least {setting.at_least}"
    else:
        text = ""
    if setting.built:
        text += f"{'; ' if text else ''}so far only {setting.built_text()}"
    return text


def _markdown(rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(configuration_markdown())
