"""What others' errors are said to mean."""

import pytest

from odradek.pipeline.errors import PipelineError, explain, reason
from odradek.pipeline.kafka import SettingsHidden, Unreachable

CONFIG = "org.apache.kafka.common.config.ConfigException"


class JavaError(Exception):
    """As py4j's: a Python error that stands for a chain of Java's."""

    def __init__(self, *chain: str) -> None:
        super().__init__(chain[0])
        self.java_exception = Throwable(chain)


class Throwable:
    def __init__(self, chain: tuple[str, ...]) -> None:
        self.chain = chain

    def toString(self) -> str:
        return self.chain[0]

    def getCause(self) -> "Throwable | None":
        return Throwable(self.chain[1:]) if self.chain[1:] else None


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("[KAFKA_DATA_LOSS.START_OFFSET_RESET] x", "--no-fail-on-data-loss"),
        ("Partition t-0's offset was changed from 5 to 2, some data may", "failOnDataLoss"),
        ("java.lang.ArithmeticException: long overflow\n\tat Math", "@9223372036854776"),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x", "topics list"),
        ("Timed out waiting for a node assignment. Call: describeTopics", "no answer"),
        (f"{CONFIG}: No resolvable bootstrap urls given in bootstrap.servers", "no answer"),
        (f"{CONFIG}: Invalid url in bootstrap.servers: localhost", "HOST:PORT"),
        (f"{CONFIG}: Invalid value SLS for configuration security.protocol", "--command-config"),
        ("has been compiled by ... java.lang.UnsupportedClassVersionError", "Java 17 or later"),
        ("java.lang.UnsupportedOperationException: getSubject is not supported", "Java 17 or 21"),
        ("Failed to find data source: kafka. Please deploy", "--jars"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka.", "--jars"),
        ("java.lang.NoClassDefFoundError: org/apache/kafka/common/X", "does not fit"),
        ("java.lang.NoSuchMethodError: 'scala.collection.Seq f()'", "does not fit"),
        ("java.io.IOException: Mkdirs failed to create /x", "cannot be written"),
        ("AccessControlException: Permission denied: user=a", "may not read or write"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "may not read or write"),
        ('No FileSystem for scheme "s3a"', "hadoop-aws"),
        ("java.lang.IllegalStateException: Incomplete log file", "remove its own"),
        ("Record batch for partition t-0 at offset 5 is invalid, cause: x", "another replica"),
        ("It is possible the underlying files have been updated.", "was compacted meanwhile"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/a.parquet.", "was compacted meanwhile"),
        ("java.io.IOException: No space left on device", "make room"),
        ("java.lang.OutOfMemoryError: Java heap space", "spark.driver.memory"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "stands above"),
        ("An error occurred: Answer from Java side is empty", "JVM has ended"),
        ("There are [1] sources in the checkpoint offsets and now there are [2]", "checkpoint"),
        ("SaslAuthenticationException: Authentication failed", "--command-config"),
        ("TopicAuthorizationException: Not authorized", "READ"),
        ("ModuleNotFoundError: No module named 'odradek'", "PYSPARK_PYTHON"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "PYSPARK_PYTHON"),
        ("org.apache.spark.shuffle.FetchFailedException", "an executor was lost"),
        ("ExecutorLostFailure (executor 1 exited caused by", "an executor was lost"),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file f. File does"
            " not exist. It is possible the underlying files have been updated.",
            "the same on every machine",
        ),
    ],
)
def test_what_is_known_is_one_sentence_with_its_cause(text: str, meaning: str) -> None:
    explained = explain(JavaError("org.apache.spark.SparkException: Job aborted", text))
    assert explained is not None
    assert meaning in str(explained)
    assert text[:20] in str(explained)
    assert "\n" not in str(explained)


def test_what_is_not_known_is_left_to_others() -> None:
    assert explain(ValueError("what")) is None
    assert reason(JavaError("outer\n\tat x", "the first cause\n\tat y")) == "the first cause"


@pytest.mark.parametrize("kind", [PipelineError, Unreachable, SettingsHidden])
def test_a_sentence_that_came_through_the_jvm_is_the_same(kind: type[PipelineError]) -> None:
    trace = (
        "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message:"
        " Traceback (most recent call last):\n  File x\n"
        f"{kind.__module__}.{kind.__name__}: the folder is full: make room\n"
    )
    assert str(explain(JavaError("Query q terminated", trace))) == "the folder is full: make room"
    own = kind("as it is")
    assert explain(own) is own


def test_a_jvm_that_is_gone_cannot_be_asked_for_causes() -> None:
    class Gone(JavaError):
        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    assert "JVM has ended" in str(explain(Gone("x")))


def test_long_causes_are_cut() -> None:
    explained = explain(JavaError("OutOfMemoryError " + "x" * 9000))
    assert len(str(explained)) < 700
