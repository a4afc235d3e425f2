"""One streaming query from start to stop: progress, a line per batch in the log, signals."""

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import PipelineError, explain, explainable, reason
from .kafka import Kafka
from .lag import LagCommits
from .progress import Batch, log_line, parse_progress, status_line
from .spark_types import DataStreamWriter, StreamingQuery
from .status_line import StatusLine
from .stop_signals import Stop, stop_signals

POLL_S: Final = 0.25
STOPPING_POLL_S: Final = 0.02
LAST_EVENTS_TIMEOUT_S: Final = 30

_UNITS: Final = (
    *("year", "month", "week", "day", "hour"),
    *("minute", "second", "millisecond", "microsecond"),
)
_WORDS: Final = {"interval", *_UNITS, *(f"{unit}s" for unit in _UNITS)}

logger = logging.getLogger(__name__)


def check_trigger(trigger: str) -> None:
    """Refuse what Spark takes for no interval, before a job claims anything.

    Not all of it: Spark has the last word.  Source: IntervalUtils.scala, stringToInterval.
    Raises: PipelineError.
    """
    words = set(re.findall(r"[^\W\d_]+", trigger.lower()))
    if not re.search(r"\d", trigger) or not words - {"interval"} or words - _WORDS:
        raise _no_interval(trigger)


def run_stream(
    build: Callable[[], DataStreamWriter],
    *,
    once: bool,
    trigger: str | None,
    name: str,
    kafka: Kafka,
) -> int:
    """Start the query that `build` describes and stay until it ends; records that were read.

    `build` returns a DataStreamWriter with everything but name and trigger: those are set here.
    `once` takes what is there now and ends; else `trigger` is Spark's ("10 seconds"), None: one
    batch after another.  SIGTERM and SIGINT let the batch end that is running; a second one does
    not.  The end offsets are committed to the group `spark-<name>`.
    Raises: PipelineError.
    """
    with stop_signals(caught=2) as stop, StatusLine() as line:
        watch = Watch(LagCommits(kafka), line)
        try:
            _run(build, name, once, trigger, watch, stop)
        except explainable() as error:
            if stop.is_set() and _is_of_gateway(error):
                # A service manager signals the whole group, the JVM, too.
                logger.warning("stopped query=%s: Spark's JVM ended before the batch did", name)
                return watch.records
            logger.debug("query failed query=%s", name, exc_info=error)
            explained = explain(error)
            raise explained or PipelineError(
                f"Spark stopped the query {name}: {reason(error)}"
            ) from error
    return watch.records


@dataclass(slots=True)
class Watch:
    """What is done with the news of a query; called by the JVM's listener thread."""

    commits: LagCommits
    line: StatusLine
    records: int = 0
    batches: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def progressed(self, batch: Batch) -> None:
        """A batch has ended, or there was none."""
        self.batches += 1
        self.records += batch.records
        if batch.records:
            logger.info("%s", log_line(batch))
        self.line.show(status_line(batch, self.records))
        self.commits.commit(batch)


def _run(
    build: Callable[[], DataStreamWriter],
    name: str,
    once: bool,
    trigger: str | None,
    watch: Watch,
    stop: Stop,
) -> None:
    from pyspark.sql import SparkSession

    writer = _triggered(build().queryName(name), once, trigger)
    streams = SparkSession.getActiveSession().streams
    listener = _listener(watch, name)
    streams.addListener(listener)
    try:
        query = writer.start()
        _follow(query, watch, stop)
        # The news of the last batch are on their way: they are to be counted and committed.
        if not watch.ended.wait(LAST_EVENTS_TIMEOUT_S):
            logger.warning("no word of the query's end query=%s", name)
    finally:
        streams.removeListener(listener)


def _triggered(writer: DataStreamWriter, once: bool, trigger: str | None) -> DataStreamWriter:
    from pyspark.errors import PySparkException

    if once:
        return writer.trigger(availableNow=True)
    if trigger is None:
        return writer
    try:
        return writer.trigger(processingTime=trigger)
    except (PySparkException, ValueError) as error:
        raise _no_interval(trigger) from error


def _no_interval(trigger: str) -> PipelineError:
    return PipelineError(f"--trigger {trigger!r} is no interval: give one such as '10 seconds'")


def _follow(query: StreamingQuery, watch: Watch, stop: Stop) -> None:
    """Until the query ends by itself, or has ended the batch in which it was asked to stop."""
    batches = None
    while not query.awaitTermination(STOPPING_POLL_S if stop.is_set() else POLL_S):
        if not stop.is_set():
            continue
        if batches is None:
            batches = watch.batches
            logger.info("stopping query=%s after the running batch", query.name)
        # Spark has no word for it: the next batch may just have begun, which is as if it had not.
        if stop.now or watch.batches > batches or not query.status["isTriggerActive"]:
            query.stop()
            return


def _listener(watch: Watch, name: str) -> Any:
    from pyspark.sql.streaming import StreamingQueryListener

    class Listener(StreamingQueryListener):  # type: ignore[misc] # of Any
        run_id: object = None

        def onQueryStarted(self, event: Any) -> None:
            if event.name == name:
                self.run_id = event.runId

        def onQueryProgress(self, event: Any) -> None:
            if event.progress.name == name:
                watch.progressed(parse_progress(event.progress.json))

        def onQueryTerminated(self, event: Any) -> None:
            if event.runId == self.run_id:
                watch.ended.set()

    return Listener()


def _is_of_gateway(error: BaseException) -> bool:
    """Whether the JVM does not answer, rather than with an error of its own."""
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, Py4JError | OSError) and not isinstance(error, Py4JJavaError)
