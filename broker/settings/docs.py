"""Generates docs/configuration.md from the declarations.

python -m odradek.broker.settings.docs > docs/configuration.md
"""

import re
import sys
from collections.abc import Iterable
from typing import Final

from .built import GROUPS
from .changes import FIXED
from .declaration import INT16_MAX, INT32_MAX, INT64_MAX, Setting, Value, declared_in, text_of
from .groups import GROUP_CONFIGS
from .known import CHANGEABLE
from .later import COORDINATORS, LIMITS, LOG, REPLICATION, ZOOKEEPER
from .never import KRAFT, SHARE_GROUPS, THREADS_AND_JAVA, TIERED_STORAGE
from .oauthbearer import OAuthBearerSettings
from .sasl import SaslSettings
from .security import AUTHORIZATION, SASL, SSL
from .tls import TlsSettings
from .topic_config import TOPIC_SETTINGS
from .topic_declaration import DEFAULT, STORED, TopicSetting

_INTRODUCTION: Final = """\
# Configuration

<!-- Made by `python -m odradek.broker.settings.docs > docs/configuration.md`; do not edit. -->

Settings have Kafka's names. Their defaults are Kafka's unless the table names another one. A broker
reads the `server.properties` of a Kafka broker in ZooKeeper mode unchanged.

A value comes from one of four places. Each overrides the ones above it:

1. the default;
2. a properties file in Java's format: `odradek serve --config server.properties`;
3. an environment variable: `ODRADEK_LOG_SEGMENT_BYTES` sets `log.segment.bytes`. The name is in
   capitals, with `_` for `.`. If a variable could name several settings, it names the one that
   exists. For settings that begin with `odradek.` the prefix is not doubled: `ODRADEK_FLUSH_BYTES`
   sets `odradek.flush.bytes`;
4. the command line: `odradek serve --set log.segment.bytes=16777216`.

A value that is not allowed stops the start with a sentence that names the setting. An unknown name
is ignored with a warning, as in Kafka. Some settings of Kafka have no effect here. If such a
setting differs from its default, the broker warns. If ignoring it would be dangerous, the broker
does not start.
"""

_RUNNING: Final = """\
## While the broker runs

Some settings can be changed by admin clients (`odradek configs alter`, `kafka-configs`): those of
topics, of groups, and the broker's settings that are marked *running* below, for one broker or for
all. A change takes effect at once and survives a restart. A value for one broker overrides the
value for all brokers. That one overrides what the broker was started with. DescribeConfigs shows
all of them. A setting of Kafka's without an effect here is accepted only at its default or at its
present value. Any other value is refused: INVALID_CONFIG names the setting.

The levels of loggers can be changed too, with Kafka's names of levels (FATAL, ERROR, WARN, INFO,
DEBUG, TRACE) and Odradek's names of loggers, which are those of its modules
(`odradek.broker.net.connection`; `odradek` is above them all). As in Kafka they do not survive a
restart.
"""

_TLS: Final = """\
These settings apply to every listener with the security protocol SSL. With the prefix
`listener.name.<listener>.` (the listener's name in small letters) they apply to that listener only,
and override the ones without it: `listener.name.external.ssl.client.auth=required`. Those with the
prefix can be changed while the broker runs, for a single broker. Any change of a broker's own
settings, even to the same value, also reads stores again whose files have changed. New connections
then use the new certificates. A store that cannot be used, or that has other names than the one
before (`ssl.allow.dn.changes`, `ssl.allow.san.changes`), is refused. Passwords need
`password.encoder.secret`.

Stores are PEM, or PKCS12 with the extra `tls` (`pip install 'odradek[tls]'`). A truststore has no
private key. JKS is refused with the command that converts it. A broker connects to other brokers
with the stores of its own listener for brokers, as Kafka does.
"""

_SASL: Final = """\
Clients of a listener with the security protocol SASL_PLAINTEXT or SASL_SSL must log in. Before
that, they can ask for nothing but ApiVersions. The name by which a client has logged in is its
principal: `User:alice`. With SASL_PLAINTEXT, the network sees the passwords of PLAIN: use SASL_SSL.

- `sasl.enabled.mechanisms`, `sasl.server.max.receive.size` and `connections.max.reauth.ms` can have
  the prefix `listener.name.<listener>.` (in small letters), for one listener.
- `listener.name.<listener>.<mechanism>.sasl.jaas.config` (in small letters) names the users of
  PLAIN: `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";`.
  Clients that log in by SCRAM need no such setting.
- On a listener for brokers, the same login module also has the broker's own `username` and
  `password`, with which it logs in to others by `sasl.mechanism.inter.broker.protocol`.
- Users of SCRAM are stored as Kafka stores them. [`odradek users`](cli.md#odradek-users) adds the
  first ones before a broker runs. It, `kafka-configs --entity-type users` and other
  clients with AlterUserScramCredentials add and delete them while the broker runs.

With [OAUTHBEARER](#oauthbearer), clients show a token instead of a password.

These settings are read at the start, from the properties file, the environment or the command line.
No admin client can change them. Not built: GSSAPI, delegation tokens.
"""

_OAUTHBEARER: Final = """\
With the mechanism OAUTHBEARER, a client shows a token (JWT). The token's user becomes its
principal, and the login ends when the token does, or after `connections.max.reauth.ms`; clients log
in again before. As in Kafka, there are two ways to check tokens:

- **Signed tokens** of an identity provider, with the extra `oauth`
  (`pip install 'odradek[oauth]'`):

      sasl.enabled.mechanisms=OAUTHBEARER
      listener.name.<listener>.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
      listener.name.<listener>.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=https://provider.example/keys
      listener.name.<listener>.oauthbearer.sasl.oauthbearer.expected.audience=kafka
      org.apache.kafka.sasl.oauthbearer.allowed.urls=https://provider.example/keys

  The keys are read when the broker starts, which fails if they cannot be read, and again from time
  to time. A token with an unknown key is refused, and has them read again, at most once in 10 s.
  They must come within 10 s and have at most 1 MiB; no redirect is followed, and no proxy used.
  Tokens need `exp`, `iat` and a user, and are signed by RS, PS or ES 256, 384 or 512, or by EdDSA
  (Ed25519). Keys of RSA have at least 2048 bits. Set the expected audience: otherwise tokens for
  other services let clients in, too. Which authorities https trusts can be said by
  `ssl.truststore.location`, `.password` or `.certificates`, as options of the login module in
  `listener.name.<listener>.oauthbearer.sasl.jaas.config`.
- **Unsecured tokens**, which nobody signs: **anybody can log in as anybody, so use them only in
  tests**. They are Kafka's default for OAUTHBEARER. Here they also need a login module, and the
  broker warns of them at each start:

      listener.name.<listener>.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;

  Its options are Kafka's: `unsecuredValidatorPrincipalClaimName`, `…ScopeClaimName`,
  `…RequiredScope` and `…AllowableClockSkewMs`.

Brokers log in to each other by OAUTHBEARER (`sasl.mechanism.inter.broker.protocol=OAUTHBEARER`) in
one of three ways:

- Tokens of an identity provider, which the broker gets by its client id and secret (RFC 6749, 4.4;
  KIP-768):

      listener.name.<listener>.oauthbearer.sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler
      listener.name.<listener>.oauthbearer.sasl.oauthbearer.token.endpoint.url=https://provider.example/token
      listener.name.<listener>.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="broker" clientSecret="secret" scope="kafka";
      org.apache.kafka.sasl.oauthbearer.allowed.urls=https://provider.example/keys,https://provider.example/token

  `scope` may be missing. `extension_NAME="VALUE"` goes with the token to the other broker, and
  `ssl.truststore.*` are as above. A broker that gets no token does not start. It renews the token
  before it ends. If that fails, it shows the old one while it lasts, and asks again every 10 s. A
  request is repeated if there is no answer, or one with status 408, 425, 429 or 5xx (but not 501 and
  505); others would fail again. No message shows the secret. Answers have at most 128 KiB; no
  redirect is followed, and no proxy used. Tokens need `exp` and a user.
- A token in a file, which the broker reads for each login, and something else renews:

      listener.name.<listener>.oauthbearer.sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler
      listener.name.<listener>.oauthbearer.sasl.oauthbearer.token.endpoint.url=file:///run/secrets/token
      org.apache.kafka.sasl.oauthbearer.allowed.urls=https://provider.example/keys,file:///run/secrets/token

- Unsecured tokens, in tests: the login module has `unsecuredLoginStringClaim_sub="broker"`, and may
  have Kafka's other options, `unsecuredLogin…`.

Each of these settings, but for the last in the table, can have the prefix
`listener.name.<listener>.oauthbearer.` in small letters. No admin client can change them.
"""  # noqa: E501

_TOPICS: Final = """\
## Topics

A topic can have these settings of its own. Clients give them when they create the topic, or change
them later. For a setting that the topic does not have, the broker's setting beside it is used: of
several, the first that is set.

*Stored*: CreateTopics accepts, keeps and shows any legal value. The value has no effect yet, and a
warning says so. Later changes accept only the default. *Default only*: the broker refuses any other
value.
"""

_GROUPS_OF_THEIR_OWN: Final = """\
## Groups

A group of the next-generation protocol (KIP-848) can have these settings of its own. For other
groups the broker's setting of the same name with the prefix `group.` is used. The broker's settings
with the prefixes `group.consumer.min.` and `group.consumer.max.` bound them.
"""

_UNBUILT: Final = """\
## Known, without effect

DescribeConfigs shows these settings too, as Kafka does.
"""

_GROUP_TITLES: Final = (
    "Listeners and connections",
    "TLS",
    "SASL",
    "OAUTHBEARER",
    "Passwords that change while the broker runs",
    "New topics and their defaults",
    "Data directories and logs",
    "Retention",
    "Compaction",
    "Durability, recovery and scrubbing",
    "Answers",
    "Groups and their offsets",
    "Transactions",
    "Brokers among each other",
    "Elections",
    "Replication",
    "Quotas and throttled replication",
    "ZooKeeper",
    "Authorization",
    "The admin API",
    "Like another release of Kafka",
    "Odradek's own",
)

_UNBUILT_TITLES: Final = (
    ("Not built yet: logs", LOG),
    ("Not built yet: replication and cluster", REPLICATION),
    ("Not built yet: parts of groups and transactions", COORDINATORS),
    ("Not built yet: policies and quotas", LIMITS),
    ("Not built yet: ZooKeeper", ZOOKEEPER),
    ("Not built yet: principals and tokens", AUTHORIZATION),
    ("Not built yet: more of TLS", SSL),
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
    parts = [_INTRODUCTION, _contents(), _RUNNING]
    for title, group in zip(_GROUP_TITLES, GROUPS, strict=True):
        parts.append(f"## {title}\n")
        if group in _TEXTS:
            parts.append(_TEXTS[group])
        parts.append(_table(declared_in(group).values()))
    parts += [_TOPICS, _topic_table(TOPIC_SETTINGS.values())]
    parts += [_GROUPS_OF_THEIR_OWN, _table(GROUP_CONFIGS.values()), _UNBUILT]
    for title, settings in _UNBUILT_TITLES:
        parts += [f"### {title}\n", _table(settings)]
    return "\n".join(parts)


_TEXTS: Final[dict[type, str]] = {
    TlsSettings: _TLS,
    SaslSettings: _SASL,
    OAuthBearerSettings: _OAUTHBEARER,
}


def _contents() -> str:
    unbuilt = [f"  {_entry(title)}" for title, _ in _UNBUILT_TITLES]
    headings = (
        "While the broker runs",
        *_GROUP_TITLES,
        "Topics",
        "Groups",
        "Known, without effect",
    )
    return "\n".join(["## Contents\n", *map(_entry, headings), *unbuilt]) + "\n"


def _entry(title: str) -> str:
    """A line of the contents, with the anchor that Markdown gives to the heading."""
    anchor = re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
    return f"- [{title}](#{anchor})"


def _table(settings: Iterable[Setting[Value]]) -> str:
    rows: list[tuple[str, ...]] = [("Name", "Type", "Default", "Allowed", "Meaning")]
    rows += [(f"`{s.name}`", s.kind.name, _default(s), _allowed(s), _meaning(s)) for s in settings]
    return _markdown(rows)


def _meaning(setting: Setting[Value]) -> str:
    is_dynamic = setting.name in BUILT and setting.name in CHANGEABLE - FIXED
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
