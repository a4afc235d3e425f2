"""Kafka's settings that have no effect here, and which settings may change at run time.

Imported only when it is needed.
"""

from collections.abc import Mapping
from typing import Final

from .declaration import Setting, Value
from .later import LATER
from .never import NEVER
from .of_listener import of_listener
from .security import SECURITY
from .throttles import RATES

UNBUILT: Final[dict[str, Setting[Value]]] = {s.name: s for s in LATER + SECURITY + NEVER}

_NEVER_NAMES: Final = frozenset(setting.name for setting in NEVER)
_LISTENER_PREFIX: Final = "listener.name."

# The settings that may change while a broker runs. DescribeConfigs shows all others as read-only.
_DYNAMIC_NAMES: Final = """
advertised.listeners background.threads compression.gzip.level compression.lz4.level
compression.type compression.zstd.level listener.security.protocol.map listeners
log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads
log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms
log.message.downconversion.enable log.message.timestamp.after.max.ms
log.message.timestamp.before.max.ms log.message.timestamp.difference.max.ms
log.message.timestamp.type log.preallocate log.retention.bytes log.retention.ms
log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
max.connection.creation.rate max.connections max.connections.per.ip
max.connections.per.ip.overrides message.max.bytes metric.reporters min.insync.replicas
num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers
principal.builder.class producer.id.expiration.ms remote.fetch.max.wait.ms
remote.log.index.file.cache.total.size.bytes remote.log.manager.copy.max.bytes.per.second
remote.log.manager.fetch.max.bytes.per.second sasl.enabled.mechanisms sasl.jaas.config
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.mechanism.inter.broker.protocol ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
ssl.truststore.location ssl.truststore.password ssl.truststore.type
transaction.partition.verification.enable unclean.leader.election.enable
"""
DYNAMIC: Final = frozenset(_DYNAMIC_NAMES.split())
CHANGEABLE: Final = DYNAMIC | RATES

_PER_LISTENER_NAMES: Final = """
ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type
"""
PER_LISTENER: Final = frozenset(_PER_LISTENER_NAMES.split())
"""Those that may be changed only for a single listener, by its prefix."""

PER_BROKER: Final = frozenset(
    name
    for name in DYNAMIC
    if name.startswith(("ssl.", "sasl.", "listener", "advertised.", "principal."))
)
"""Those that may be changed only for a single broker."""


_CLASSES_OF_LISTENER: Final = ("principal.builder.class", "ssl.engine.factory.class")
"""Of the settings without which no broker starts, those that Kafka reads for a single listener."""


def refused_of_listener(name: str) -> Setting[Value] | None:
    """The setting without which no broker starts, if `name` sets it for a single listener."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    return next((UNBUILT[each] for each in _CLASSES_OF_LISTENER if name.endswith(f".{each}")), None)


def unbuilt_warning(setting: Setting[Value], text: str) -> str:
    """The warning for a known setting whose value has no effect."""
    shown = "" if setting.is_sensitive else f"={text}"
    effect = "has no effect in Odradek" if setting.name in _NEVER_NAMES else "has no effect yet"
    return f"setting {setting.name}{shown} {effect}"


def unknown_warning(name: str, built: Mapping[str, Setting[Value]]) -> str:
    """The warning for an unknown setting, with a suggestion if there is a similar one."""
    if name.startswith(_LISTENER_PREFIX):
        if of_listener(name.lower()) is not None:
            return f"setting {name} has no effect: it must be in small letters, {name.lower()}"
        has = "a single listener has only those of TLS and SASL, and limits"
        return f"setting {name} has no effect yet: {has}"
    from odradek.spelling import did_you_mean  # rarely needed

    hint = did_you_mean(name, [*built, *UNBUILT], cutoff=0.75)
    return f"unknown setting {name} is ignored{hint}"
