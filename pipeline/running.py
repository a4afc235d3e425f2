"""Runs one streaming query from start to stop: progress, a log line per batch, signals."""

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
    """Refuse a trigger that Spark would refuse, before a job claims anything.

    Not complete: Spark checks again.  Source: IntervalUtils.scala, stringToInterval.
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
    """Run the query that `build` describes until it ends; returns the number of records read.

    `build` returns a DataStreamWriter without name and trigger, which are set here.  With `once`
    the query reads what is available now and ends; else `trigger` is Spark's interval
    ("10 seconds"), or None for batches without a pause.  The first SIGTERM or SIGINT lets the
    running batch finish; the second does not.  End offsets are committed to the group
    `spark-<name>`.
    Raises: PipelineError.
    """
    with stop_signals(caught=2) as stop, StatusLine() as line:
        watch = Watch(LagCommits(kafka), line)
        try:
            _run(build, name, once, trigger, watch, stop)
        except explainable() as error:
            if stop.is_set() and _is_of_gateway(error):
                # A service manager signals the whole process group, which includes the JVM.
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
    """Handles the progress events of a query; called by the JVM's listener thread."""

    commits: LagCommits
    line: StatusLine
    records: int = 0
    batches: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def progressed(self, batch: Batch) -> None:
        """Handle the end of a batch, or a trigger without one."""
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
        # The last batch's progress event may still be on its way; it has to be counted, too.
        if not watch.ended.wait(LAST_EVENTS_TIMEOUT_S):
            logger.warning("end of the query not reported query=%s", name)
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
    """Wait until the query ends; after a stop signal, stop it once the running batch has ended."""
    batches = None
    while not query.awaitTermination(STOPPING_POLL_S if stop.is_set() else POLL_S):
        if not stop.is_set():
            continue
        if batches is None:
            batches = watch.batches
            logger.info("stopping query=%s after the running batch", query.name)
        # Spark has no graceful stop: if the next batch has just begun, a later start repeats it.
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
    """Whether the JVM did not answer, as opposed to answering with an error."""
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, Py4JError | OSError) and not isinstance(error, Py4JJavaError)
