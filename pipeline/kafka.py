"""A Kafka cluster as the jobs use it: topics, offsets, settings, commits.  Uses kafka-python."""

import base64
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from .errors import PipelineError
from .offsets import TopicPartition
from .properties import check_ssl_files, client_settings

CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 10_000
CLIENT_ID: Final = "odradek-pipeline"
NO_ID: Final = uuid.UUID(int=0)
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")

# kafka-python has no types of its own: its clients are `Any` here.
Admin = Any

logger = logging.getLogger(__name__)


class Unreachable(PipelineError):
    """No broker answers, or none is ready; a retry may succeed."""


class SettingsHidden(PipelineError):
    """The user is not allowed to read a topic's settings."""


class Kafka:
    """A cluster.  Connects with the first request; all methods raise PipelineError.

    `properties` are those of Kafka's Java clients (security.protocol, sasl.jaas.config …); `option`
    is the command-line option to check when no broker answers.  Thread-safe.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, str] = {},
        *,
        option: str = "--bootstrap-servers",
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.option = option
        self.properties = dict(properties)
        self._admin: Admin | None = None
        self._asking = threading.Lock()

    def __repr__(self) -> str:
        return f"<Kafka {self.bootstrap_servers}>"

    def topics(self, names: Sequence[str] = (), *, pattern: str | None = None) -> list[str]:
        """The topics in `names`, which must exist, or those that `pattern` matches whole; sorted.

        A pattern matches no internal topics.
        """
        if pattern is None:
            return sorted(topic["name"] for topic in self._described(names))
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise PipelineError(f"{pattern!r} is not a pattern for topics: {error}") from error
        topics = self._ask(lambda admin: admin.describe_topics())
        found = [
            topic["name"]
            for topic in topics
            if not topic.get("is_internal") and wanted.fullmatch(topic["name"])
        ]
        if not found:
            raise PipelineError(
                f"no topic at {self.bootstrap_servers} matches {pattern!r}:"
                f" look with `odradek topics list -b {self.bootstrap_servers}`"
            )
        return sorted(found)

    def exists(self, topic: str) -> bool:
        """Whether a topic exists."""
        return topic in {found["name"] for found in self._ask(lambda a: a.describe_topics())}

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len(self._described([topic])[0]["partitions"])

    def topic_id(self, topic: str) -> str | None:
        """The topic id, which differs if a topic was recreated; None with brokers before 2.8."""
        found = uuid.UUID(str(self._described([topic])[0].get("topic_id") or NO_ID))
        return None if found == NO_ID else base64.urlsafe_b64encode(found.bytes).decode()[:22]

    def earliest(self, topic: str) -> dict[int, int]:
        """The log start offset of each partition."""
        return self._offsets(topic, "EARLIEST")

    def latest(self, topic: str) -> dict[int, int]:
        """The high watermark of each partition: the end of what consumers can read."""
        return self._offsets(topic, "LATEST")

    def topic_config(self, topic: str) -> dict[str, str]:
        """The settings made on the topic itself, without defaults."""
        self._described([topic])
        return {
            key: entry["value"]
            for key, entry in sorted(self._settings(topic).items())
            if entry["config_source"] == "DYNAMIC_TOPIC_CONFIG" and entry["value"] is not None
        }

    def setting(self, topic: str, name: str) -> str:
        """The effective value of a topic's setting, wherever it was made."""
        return str(self._settings(topic)[name]["value"])

    def cluster_id(self) -> str:
        """The id of the cluster."""
        return str(self._ask(lambda admin: admin.describe_cluster())["cluster_id"])

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] = {}) -> None:
        """Create a topic, and wait until every partition has a leader."""
        topics = {name: {"num_partitions": partitions, "configs": dict(config)}}
        answer = self._ask(lambda admin: admin.create_topics(topics, raise_errors=False))
        refused = answer["topics"][0]
        if refused["error_code"]:
            reason = refused["error_message"] or f"error {refused['error_code']}"
            raise PipelineError(f"topic {name} cannot be created: {reason}")
        self._ask(lambda admin: admin.wait_for_topics([name]))
        logger.info("topic created topic=%s partitions=%d", name, partitions)

    def committed(self, group: str, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """The committed offsets of a group, by topic and partition; without any, no entry."""
        answer = self._ask(lambda admin: admin.list_group_offsets({group: None}))
        found: dict[str, dict[int, int]] = {}
        for key, committed in answer.get(group, {}).items():
            if key.topic in topics and committed.offset >= 0:
                found.setdefault(key.topic, {})[key.partition] = committed.offset
        return found

    def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit offsets, by topic and partition, for a group without members."""
        wanted = {
            _partition(topic, partition): _commit_value(offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
        if wanted:
            self._commit(group, wanted)

    def close(self) -> None:
        """Close the connections; the next request opens them again."""
        with self._asking:
            self._disconnect()

    def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _commit(self, group: str, wanted: Mapping[Any, Any]) -> None:
        """Commit kafka-python's OffsetAndMetadata by its TopicPartition, in one request."""

        def commit(admin: Admin) -> Any:
            answer = admin.alter_group_offsets(group, wanted)
            for error in answer.values():
                if getattr(error, "retriable", False):  # such as a coordinator that has moved
                    raise error(f"group {group} cannot commit")
            return answer

        answer = self._ask(commit)
        refused = {key: error for key, error in answer.items() if error.errno}
        if refused:
            key, error = next(iter(refused.items()))
            raise PipelineError(
                f"group {group} takes no offset for {TopicPartition(key.topic, key.partition)}"
                f" ({error.message}): end its consumers, or give the job another name"
            )

    def _settings(self, topic: str) -> Mapping[str, Any]:
        """All settings of a topic.  Raises: SettingsHidden, PipelineError."""
        resources = [_topic_resource(topic)]
        answer = self._ask(lambda admin: admin.describe_configs(resources, config_filter="all"))
        found: Mapping[str, Any] = answer["topic"][topic]
        if not found:  # kafka-python swallows the error, and every topic has settings
            raise SettingsHidden(
                f"the settings of {topic} at {self.bootstrap_servers} may not be read: allow the"
                " user of the job DESCRIBE_CONFIGS on the topic"
            )
        return found

    def _described(self, names: Sequence[str]) -> list[Mapping[str, Any]]:
        """The metadata of topics that must exist."""
        topics = self._ask(lambda admin: admin.describe_topics(list(names)))
        missing = sorted(topic["name"] for topic in topics if topic["error_code"] in _UNKNOWN)
        if missing:
            raise PipelineError(
                f"there is no topic {' and no topic '.join(missing)} at {self.bootstrap_servers}:"
                f" check the name, or create it with"
                f" `odradek topics create {missing[0]} -b {self.bootstrap_servers}`"
            )
        return list(topics)

    def _offsets(self, topic: str, spec: str) -> dict[int, int]:
        keys = [_partition(topic, p["partition_index"]) for p in self._partition_list(topic)]
        wanted = dict.fromkeys(keys, getattr(_import_kafka().OffsetSpec, spec))
        found = self._ask(lambda admin: admin.list_partition_offsets(wanted))
        return {key.partition: found[key].offset for key in keys if found.get(key) is not None}

    def _partition_list(self, topic: str) -> list[Mapping[str, Any]]:
        partitions = self._described([topic])[0]["partitions"]
        return sorted(partitions, key=lambda p: p["partition_index"])

    def _ask(self, question: Callable[[Admin], Any]) -> Any:
        errors = _import_kafka().errors
        try:
            return self._answer(question, errors)
        except (errors.KafkaError, ValueError, OSError) as error:
            if _is_of_connection(error, errors):
                raise self._unreachable() from error
            kind = Unreachable if getattr(error, "retriable", False) else PipelineError
            raise kind(f"{self.bootstrap_servers}: {sentence(error)}") from error

    def _answer(self, question: Callable[[Admin], Any], errors: Any) -> Any:
        """Ask; if the existing connections have failed, ask once more over new ones.

        One thread at a time, so that no thread closes connections that another is waiting on.
        """
        with self._asking:
            if self._admin is not None:
                try:
                    return question(self._admin)
                except errors.KafkaError as error:
                    if not _is_of_connection(error, errors):
                        raise
                    self._disconnect()
            self._admin = self._connect()
            return question(self._admin)

    def _connect(self) -> Admin:
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)  # it warns of every retry
        self._check_ports()
        check_ssl_files(self.properties)  # kafka-python would report that no broker answers
        return _import_kafka().KafkaAdminClient(
            **{
                "client_id": CLIENT_ID,
                **client_settings(self.bootstrap_servers, self.properties),
                "bootstrap_timeout_ms": CONNECT_TIMEOUT_MS,
                "request_timeout_ms": REQUEST_TIMEOUT_MS,
            }
        )

    def _check_ports(self) -> None:
        for address in self.bootstrap_servers.split(","):
            host, *port = address.strip().split(":")
            if not host or len(port) > 1:  # several colons: an IPv6 address
                continue
            if not (port and port[0].isdecimal()):  # kafka-python has a default, Spark has none
                what = f"{port[0]!r} is no port" if port else f"{host} has no port"
                raise PipelineError(
                    f"{self.option} {self.bootstrap_servers} cannot be used: {what};"
                    " give HOST:PORT,HOST:PORT,…"
                )

    def _unreachable(self) -> Unreachable:
        return Unreachable(
            f"no broker answers at {self.bootstrap_servers}: check {self.option}, and that"
            f" this machine reaches the listener that the broker advertises"
        )


@contextmanager
def client_errors(bootstrap_servers: str) -> Iterator[None]:
    """Turn kafka-python's errors into one sentence.  Raises: PipelineError."""
    try:
        yield
    except (_import_kafka().errors.KafkaError, OSError) as error:
        raise PipelineError(f"{bootstrap_servers}: {sentence(error)}") from error


def sentence(error: BaseException) -> str:
    """The message of kafka-python's error, without the class and code that precede it."""
    text = str(error)
    for noise in (f"{type(error).__name__}: ", f"[Error {getattr(error, 'errno', None)}] "):
        text = text.removeprefix(noise)
    return text or type(error).__name__


_UNKNOWN: Final = (3, 17)  # UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION


def _import_kafka() -> Any:
    try:
        import kafka
        import kafka.errors
    except ImportError:
        raise PipelineError("the jobs need kafka-python: pip install 'odradek[spark]'") from None
    return kafka


def _is_of_connection(error: Exception, errors: Any) -> bool:
    """Whether no broker answered, as opposed to one that answered with an error."""
    retriable = getattr(error, "retriable", False)
    return retriable and not isinstance(error, errors.BrokerResponseError)


def _partition(topic: str, partition: int) -> Any:
    return _import_kafka().TopicPartition(topic, partition)


def _commit_value(offset: int) -> Any:
    return _import_kafka().OffsetAndMetadata(offset, "", -1)


def _topic_resource(topic: str) -> Any:
    from kafka.admin import ConfigResource

    return ConfigResource("TOPIC", topic)
