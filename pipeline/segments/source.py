"""The classes that PySpark calls.  They are pickled to executors, which need this package, too."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from odradek.storage.inspect.read_only import ReadOnlyFileSystem

from ..errors import PipelineError
from .options import parse_options
from .planning import ReadRange, plan
from .pushdown import Narrowing, narrow
from .reading import read_range
from .worker import spare_next_task

RECORDS: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)
HEADERS: Final = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
DAMAGE: Final = (
    "topic STRING, partition INT, file STRING, position BIGINT, positionEnd BIGINT, "
    "offset BIGINT, offsetEnd BIGINT, problem STRING"
)


class SegmentSource(DataSource):  # type: ignore[misc]
    """`spark.read.format("odradek").load(data directory)`: records out of segment files.

    The columns are those of Spark's Kafka source. The options are in `options.py`. `pushFilters`
    needs spark.sql.python.filterPushdown.enabled=true, which is off in PySpark 4.1.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "odradek"

    def schema(self) -> str:
        """The columns of the rows.  Raises: PipelineError."""
        spare_next_task()
        options = parse_options(self.options)
        if options.show_damage:
            return DAMAGE
        return RECORDS + (HEADERS if options.include_headers else "")

    def reader(self, schema: object) -> "SegmentReader":
        """The object that plans and reads.  Raises: PipelineError."""
        options = parse_options(self.options)
        if not options.push_filters:
            return SegmentReader(dict(self.options))
        if not hasattr(DataSourceReader, "pushFilters"):
            raise PipelineError("option pushFilters needs PySpark 4.1 or later")
        return FilteringSegmentReader(dict(self.options))

    def streamReader(self, schema: object) -> "NoStream":
        """What refuses to be streamed."""
        return NoStream()


class NoStream(DataSourceStreamReader):  # type: ignore[misc]
    """Says, as soon as a query begins, that there is no stream.

    `streamReader` cannot: PySpark 4.0 reports what it raises as an UnboundLocalError of its own.
    """

    def latestOffset(self) -> NoReturn:
        """Refused: what Spark asks first.  Raises: PipelineError."""
        raise PipelineError(
            'format("odradek") cannot be streamed: read segment files by spark.read, or stream'
            ' their topics from a broker by spark.readStream.format("kafka")'
        )

    def read(self, partition: InputPartition) -> NoReturn:
        """Never called; without it there would be no object to ask."""
        raise NotImplementedError


class RangePartition(InputPartition):  # type: ignore[misc]
    """One partition of the result."""

    def __init__(self, wanted: ReadRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class SegmentReader(DataSourceReader):  # type: ignore[misc]
    """Plans on the driver and reads on the executors."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = parse_options(options)
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        """The ranges to read, possibly none.  Raises: PipelineError."""
        spare_next_task()
        return [
            RangePartition(wanted)
            for wanted in plan(ReadOnlyFileSystem(), self._options, self._narrowing)
        ]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Arrow record batches of one range.  Raises: PipelineError, while iterating."""
        if partition is None:  # what Spark passes if there are no partitions
            return
        yield from read_range(
            ReadOnlyFileSystem(),
            partition.wanted,
            self._options,
            timestamp_ms_min=self._narrowing.timestamp_ms_min,
        )
        spare_next_task()


class FilteringSegmentReader(SegmentReader):
    """A reader that accepts filters.

    It is a separate class, because Spark refuses such readers where filter pushdown is off.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Use filters to read less; Spark evaluates all of them again."""
        self._narrowing = narrow(filters)
        return filters
