"""PipelineError, and what errors of Spark, its JVM and Kafka's clients mean."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

CAUSES_MAX: Final = 12
SENTENCE_LENGTH_MAX: Final = 400
PROPERTIES_OPTION: Final = (
    "--command-config (or --from-, --to-, --source-, --against-command-config)"
)


class PipelineError(Exception):
    """One clear sentence that says what to do.  The command line prints it and exits with 2."""


# Patterns for the messages of an error and its causes, each with its meaning; the first match wins.
# The names in them are those of Java's classes and of Spark's error conditions.
_MEANINGS: Final = (
    (
        r"KAFKA_DATA_LOSS|[Ss]ome data may have been lost|offset was changed from|"
        r"OffsetOutOfRangeException",
        "records that the job had yet to read are gone from the topic: retention removed them, or"
        " the topic was made anew; Spark's failOnDataLoss stops the job so that nobody misses them"
        " unknowingly. `odradek pipeline checkpoint DIR` shows which; go on without them by"
        " --no-fail-on-data-loss, or begin with another checkpoint",
    ),
    (
        r"ArithmeticException: long overflow",
        "a record's timestamp is more than Spark can hold, as when a client writes nanoseconds for"
        " milliseconds, and Spark's Kafka source cannot read past it: `odradek consume TOPIC -o"
        " @9223372036854776` shows such records; delete the topic's records up to there"
        " (kafka-delete-records.sh) and go on by --no-fail-on-data-loss, and keep others out by the"
        " topic's message.timestamp.after.max.ms",
    ),
    (
        r"UnknownTopicOrPartitionException|UNKNOWN_TOPIC_OR_PARTITION|"
        r"does not host this topic-partition",
        "a topic is not there, or was deleted while the job ran: check its name with"
        " `odradek topics list`",
    ),
    (
        r"SaslAuthenticationException|SslAuthenticationException|SSLHandshakeException",
        "the brokers did not let Spark in: check security.protocol, sasl.* and ssl.* in the file"
        f" that {PROPERTIES_OPTION} names",
    ),
    (
        r"(Topic|Group|Cluster)AuthorizationException",
        "the brokers allow this user too little: the job needs READ and DESCRIBE on what it reads,"
        " WRITE on what it writes",
    ),
    (
        # Kafka's clients report it as one, too, if no broker's address resolves.
        r"config\.ConfigException: (?!No resolvable bootstrap)",
        "Kafka's clients do not take a setting: check that every address of --bootstrap-servers is"
        f" HOST:PORT, and the file that {PROPERTIES_OPTION} names",
    ),
    (
        r"No resolvable bootstrap urls|Timed out waiting for a node assignment|"
        r"Failed to construct kafka (consumer|producer|admin)|"
        r"Topic \S+ not present in metadata after|"
        r"Timeout of \d+ms expired before the position for partition|"
        r"org\.apache\.kafka\.common\.errors\.TimeoutException",
        "Spark's Kafka client got no answer from the brokers: check that they run and that driver"
        " and executors reach the listeners they advertise",
    ),
    (
        r"UnsupportedClassVersionError",
        "this Java is too old for this Spark: Spark 4 needs Java 17 or later; set JAVA_HOME",
    ),
    (
        r"getSubject is (not supported|supported only if)",
        "this Java is too new for this Spark (Java 24 took the security manager away): set"
        " JAVA_HOME to Java 17 or 21",
    ),
    (
        r"Failed to find (the )?data source: `?kafka|DATA_SOURCE_NOT_FOUND.*kafka",
        "Spark has no Kafka connector: let it be downloaded, or give its jars by --jars",
    ),
    (
        r"(NoClassDefFoundError|ClassNotFoundException|NoSuchMethodError|IncompatibleClassChange"
        r"Error|AbstractMethodError)[^\n]*(kafka|scala|commons[./]pool)",
        "Spark's Kafka connector does not fit this Spark: its version must be Spark's own, its"
        " Scala the one of Spark's jars, and all jars it needs must be in --jars",
    ),
    (
        r"PYTHON_VERSION_MISMATCH|Cannot run program \"[^\"]*python",
        "Spark's workers have another Python than the driver, or none: set PYSPARK_PYTHON to one of"
        " the same version that has odradek[spark]",
    ),
    (
        r"No module named '(odradek|pyspark_odradek|pyarrow|kafka|cramjam|fastcrc)\b",
        "Spark's workers cannot import odradek or what it needs: pip install 'odradek[spark]' where"
        " they run, and name that Python by PYSPARK_PYTHON",
    ),
    (
        r"No space left on device",
        "the disk is full: make room, then start the job again, it goes on where it was",
    ),
    (
        r"No FileSystem for scheme|UnsupportedFileSystemException|"
        r"ClassNotFoundException: Class \S+FileSystem not found",
        "Hadoop does not know this kind of URI: give the jars of its file system by --jars (for"
        " s3a: hadoop-aws of Spark's own Hadoop version)",
    ),
    (
        r"AccessControlException|Permission denied|AccessDenied",
        "the user of the job, or of the executors, may not read or write a file or folder: check"
        " whose it is, and its rights",
    ),
    (
        r"Mkdirs failed to create|mkdir of \S+ failed|Destination exists and is not a directory|"
        r"Read-only file system|ParentNotDirectoryException|Parent path is not a directory",
        "a folder cannot be written: check that it may be made there and that the user of the job,"
        " and of the executors, may write to it",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|[Mm]ultiple streaming queries are concurrently using",
        "another job uses this checkpoint: let it end first, or give this one another checkpoint",
    ),
    (
        r"sources in the checkpoint offsets and now there are|"
        r"STATE_STORE_\w*SCHEMA_(NOT_)?\w*COMPATIBLE|"
        r"[Pp]rovided schema doesn't match to the schema for existing state",
        "the checkpoint is of a job with other sources, keys or measures: give this one another"
        " checkpoint",
    ),
    (
        r"RecordTooLargeException",
        "a record is larger than the topic or the producer allows: raise max.message.bytes of the"
        " topic and max.request.size in the file"
        f" that {PROPERTIES_OPTION} names",
    ),
    (
        r"Incomplete log file|Log file was malformed",
        "a file of Spark's checkpoint is damaged, as by a power cut: give the job another"
        " checkpoint; an archive goes on without any, so remove its own",
    ),
    (
        r"CorruptRecordException|Record batch for partition \S+ at offset \d+ is invalid|"
        r"Received exception when fetching the next record",
        "a batch of the topic is damaged in its broker's log: have another replica lead the"
        " partition; what is left of it can be read from the segment files, by"
        ' spark.read.format("odradek")',
    ),
    (
        r"FAILED_READ_FILE\.FILE_NOT_EXIST|underlying files have been updated|PATH_NOT_FOUND",
        "a file that was to be read is not there: on a cluster give paths that mean the same on"
        " every machine; if an archive was compacted meanwhile, start the job again, else let an"
        " audit say what is lost",
    ),
    (
        r"PARQUET_COLUMN_DATA_TYPE_MISMATCH|CONVERT_FAILURE|Parquet column cannot be converted|"
        r"CANNOT_MERGE_SCHEMAS",
        "files in the folder have another schema than what the job reads: give a folder that only"
        " this pipeline writes to",
    ),
    (
        r"OutOfMemoryError|GC overhead limit",
        "Spark ran out of memory: give it more, as in --conf spark.driver.memory=4g, or take"
        " smaller batches",
    ),
    (
        r"FetchFailed(Exception)?|ExecutorLostFailure|failed the maximum allowable number of times",
        "an executor was lost, and with it what it had done for others: start the job again, it"
        " goes on where it was",
    ),
    (
        r"All masters are unresponsive",
        "the Spark master does not answer: check the URL in --master and that it runs this very"
        " release of Spark",
    ),
    (
        r"JAVA_GATEWAY_EXITED|Java gateway process exited",
        "Spark did not start; why stands above. If it could not download its Kafka connector, give"
        " the jars by --jars; if there is no Java, install 17 or set JAVA_HOME",
    ),
    (
        r"Py4JError: An error occurred while calling \S+\Z|"
        r"Answer from Java side is empty|Error while sending or receiving|"
        r"error occurred while trying to connect to the Java server|"
        r"Py4JNetworkError|ConnectionRefusedError",
        "Spark's JVM has ended: it was killed, or ran out of memory; start the job again, it goes"
        " on where it was",
    ),
)


def explain(error: BaseException) -> PipelineError | None:
    """What an error of Spark, its JVM or kafka-python means; None if that is not known."""
    if isinstance(error, PipelineError):
        return error
    texts = _texts(error)
    said = "\n".join(texts)
    # A PipelineError, or a subclass of it, raised in foreachBatch comes back through the JVM.
    if own := re.search(r"odradek\.pipeline\.\w+\.[A-Z]\w+: ([^\n]+)", said):
        return PipelineError(own[1].strip())
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, said):
            return PipelineError(f"{meaning} ({_shortened(texts, pattern)})")
    return None


def reason(error: BaseException) -> str:
    """Why something failed: as `explain` says, else the root cause in one line."""
    explained = explain(error)
    return str(explained) if explained else _first_line(_texts(error)[-1])


def explainable() -> tuple[type[BaseException], ...]:
    """The exception classes that `explain` may know, if their libraries are installed."""
    classes: list[type[BaseException]] = [OSError]
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ImportError:
        pass
    else:
        classes += [Py4JError, PySparkException]
    return tuple(classes)


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors that `explain` knows into PipelineErrors."""
    try:
        yield
    except explainable() as error:
        sentence = explain(error)
        if sentence is None:
            raise
        raise sentence from error


def _texts(error: BaseException) -> list[str]:
    """The message of an error, then those of its causes in the JVM."""
    texts = []
    try:
        texts.append(f"{type(error).__name__}: {error}")
        java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        while java is not None and len(texts) < CAUSES_MAX:
            texts.append(str(java.toString()))
            java = java.getCause()
    except explainable() as gone:  # the JVM, which has the messages, has ended
        texts.append(f"{type(gone).__name__}: {gone}")
    return texts


def _shortened(texts: list[str], pattern: str) -> str:
    """The line that matches the pattern, of the innermost cause that has one."""
    for text in reversed(texts):
        for line in text.splitlines():
            if re.search(pattern, line):
                return _first_line(line)
    return _first_line(texts[-1])


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = lines[0] if lines else "no reason was given"
    return line if len(line) <= SENTENCE_LENGTH_MAX else f"{line[:SENTENCE_LENGTH_MAX]}…"
