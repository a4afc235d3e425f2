"""Spark's progress as a consumer group: every tool that shows Kafka's lag then shows Spark's.

    spark.streams.addListener(lag_listener(Kafka("localhost:9092")))

Spark itself keeps its offsets in the checkpoint and never commits.  The group is for display only:
nothing reads it back.
"""

import logging
from typing import Any

from .errors import PipelineError
from .kafka import Kafka
from .offsets import Offsets
from .progress import Batch, parse_progress

logger = logging.getLogger(__name__)


class LagCommits:
    """Commits the end offsets of batches; a failed commit is logged."""

    def __init__(self, kafka: Kafka, group: str | None = None) -> None:
        self._kafka = kafka
        self._group = group
        self._committed: dict[str, Offsets] = {}

    def commit(self, batch: Batch) -> None:
        """Commit a batch's end offsets, unless that is done or there is no group to commit to.

        The group is `spark-<query name>` unless it was given.
        """
        group = self._group or (f"spark-{batch.query}" if batch.query else None)
        if group is None or not batch.ends or self._committed.get(group) == batch.ends:
            return
        try:
            self._kafka.commit(group, batch.ends)
        except PipelineError as error:
            logger.warning("lag not committed group=%s batch=%d: %s", group, batch.batch_id, error)
            return
        self._committed[group] = batch.ends


def lag_listener(kafka: Kafka, group: str | None = None) -> Any:
    """A StreamingQueryListener that commits the end offsets of each query to a group.

    The group is `spark-<query name>` unless it is given; then queries without a name are skipped.
    A failed commit is logged and never stops the query.
    """
    from pyspark.sql.streaming import StreamingQueryListener

    commits = LagCommits(kafka, group)

    class LagListener(StreamingQueryListener):  # type: ignore[misc] # of Any
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            commits.commit(parse_progress(event.progress.json))

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return LagListener()
