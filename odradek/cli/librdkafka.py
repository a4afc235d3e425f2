"""librdkafka's consumer and producer: how they are made, and what they report as sentences."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from .client_sasl import TOKEN_PROPERTIES, has_own_tokens, is_librdkafkas
from .clients import CLIENT_ID, CONNECT_TIMEOUT, Cluster
from .errors import CommandError
from .positions import Partition

# confluent-kafka has no types for its C part: its objects are `Any`.
Consumer = Any
Producer = Any
KafkaError = Any

ANSWER_TIMEOUT_S: Final = 10.0
_PROPERTY: Final = re.compile(r'configuration property:? "([^"]*)"', re.IGNORECASE)

_log = logging.getLogger("librdkafka")


class Reports:
    """What librdkafka reports beside records: the brokers are away, or it can't go on.

    librdkafka calls it from within poll, consume and flush.
    """

    def __init__(self) -> None:
        self._away = False
        self._final: str | None = None
        self._reason = ""

    def __call__(self, error: KafkaError) -> None:
        """Take an error that librdkafka reports."""
        code = error.code()
        if code in (error._AUTHENTICATION, error._SSL):
            self._final = sentence(error)
        elif code in (error._TRANSPORT, error._RESOLVE):
            self._reason = f" ({sentence(error)})"
        elif code == error._ALL_BROKERS_DOWN and not self._away:
            self._away = True
            click.echo(f"no broker answers{self._reason}: waiting for one", err=True)

    def check(self) -> None:
        """Raise CommandError if nothing more can come."""
        if self._final is not None:
            raise CommandError(self._final)

    def arrived(self) -> None:
        """Something came from a broker."""
        if self._away:
            self._away = False
            click.echo("a broker answers again", err=True)


def make_consumer(
    cluster: Cluster, reports: Reports, *, own: Mapping[str, object], defaults: Mapping[str, object]
) -> Consumer:
    """A consumer, once a broker has answered.

    The user's properties go before `defaults`; those that the command sets itself are `own`.
    Raises: CommandError.
    """
    return _make("Consumer", cluster, reports, own, defaults)


def make_producer(
    cluster: Cluster, reports: Reports, *, own: Mapping[str, object], defaults: Mapping[str, object]
) -> Producer:
    """A producer, made as `make_consumer` makes consumers.  Raises: CommandError."""
    return _make("Producer", cluster, reports, own, defaults)


def properties_for(kind: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties for librdkafka's Consumer, Producer or AdminClient.

    Java's request.timeout.ms is how long any answer may take, which is socket.timeout.ms here, and
    for a producer also how long the leader may wait for its followers.
    """
    unknown = {CONNECT_TIMEOUT}
    if not is_librdkafkas(properties):
        unknown |= TOKEN_PROPERTIES
    chosen = {name: value for name, value in properties.items() if name not in unknown}
    if "request.timeout.ms" in chosen:
        chosen.setdefault("socket.timeout.ms", chosen["request.timeout.ms"])
        if kind != "Producer":
            del chosen["request.timeout.ms"]
    return chosen


def topics_of(client: Any, topic: str | None = None) -> dict[str, Any]:
    """Metadata of topics by name, or of one.  Raises: CommandError."""
    from confluent_kafka import KafkaException

    try:
        metadata = client.list_topics(topic, timeout=ANSWER_TIMEOUT_S)
    except KafkaException as error:
        raise CommandError(sentence(error.args[0])) from None
    topics: dict[str, Any] = metadata.topics
    return topics


def offsets_at(
    consumer: Consumer, partitions: Sequence[Partition], time_ms: int
) -> dict[Partition, int]:
    """The first offset of each partition from a time on; -1 where there is none.

    Raises: CommandError.
    """
    from confluent_kafka import KafkaException, TopicPartition

    asked = [TopicPartition(topic, number, time_ms) for topic, number in partitions]
    try:
        found = consumer.offsets_for_times(asked, timeout=ANSWER_TIMEOUT_S)
    except KafkaException as error:
        raise CommandError(sentence(error.args[0])) from None
    for answer in found:
        if answer.error is not None:
            where = f"{answer.topic}-{answer.partition}"
            raise CommandError(f"{where} has no offsets: {sentence(answer.error)}")
    return {(answer.topic, answer.partition): answer.offset for answer in found}


def sentence(error: KafkaError) -> str:
    """What librdkafka says of an error, without the part that says who found it."""
    text: str = error.str() or error.name()
    for who in ("Local: ", "Broker: "):
        text = text.replace(who, "")
    return text


def _make(
    kind: str,
    cluster: Cluster,
    reports: Reports,
    own: Mapping[str, object],
    defaults: Mapping[str, object],
) -> Any:
    library = _import_library()
    for name in sorted(cluster.properties.keys() & own.keys()):
        if cluster.insists_on(name):
            raise cluster.told(name, "this command sets it itself")
        _log.info("%s has no effect: this command sets it itself", name)
    config: dict[str, object] = {
        "client.id": CLIENT_ID,
        **defaults,
        **properties_for(kind, cluster.properties),
        **_tokens(cluster.properties),
        **own,
        "error_cb": reports,
        "logger": _log,
    }
    cluster.check_reachable()
    while True:
        try:
            return getattr(library, kind)(config)
        except library.KafkaException as error:
            reason = sentence(error.args[0])
        named = _PROPERTY.search(reason)
        name = named[1] if named else ""
        if not reason.startswith("No such configuration property"):
            raise cluster.told(name, reason) if name in cluster.properties else CommandError(reason)
        if cluster.insists_on(name):
            raise cluster.told(name, "no such property of librdkafka")
        _log.info("%s has no effect on this command", name)
        del config[name]


def _tokens(properties: Mapping[str, str]) -> Mapping[str, object]:
    if not has_own_tokens(properties):
        return {}
    from .client_tokens import for_librdkafka

    return for_librdkafka(properties)


def _import_library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise CommandError(
            "this command needs confluent-kafka: pip install 'odradek[cli]'"
        ) from None
    return confluent_kafka
