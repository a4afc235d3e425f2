"""The measured things, in the order in which they run.

Those that start a broker of their own come first, while no other broker is running.
"""

from typing import Final

from benchmarks.measure import Measure
from benchmarks.replicated import Layout

from .java_consume import JavaConsume
from .java_produce import BATCHES_128K, BATCHES_128K_TLS, DEFAULTS, JavaProduce
from .librdkafka_consume import LibrdkafkaConsume
from .memory import Memory
from .one_record import OneRecord
from .raw_fetch import RawFetch
from .ready import Ready
from .replication import CatchUp, Replication
from .spark_archive import SparkArchive
from .spark_read import SparkRead
from .spark_segments import SparkSegments


def all_measures() -> list[Measure]:
    """Fresh ones: some keep a process between their samples."""
    return [
        Ready(),
        Memory(),
        Replication(Layout.PROCESSES),
        Replication(Layout.ONE_PROCESS),
        CatchUp(Layout.PROCESSES),
        CatchUp(Layout.ONE_PROCESS),
        JavaProduce(BATCHES_128K),
        JavaProduce(BATCHES_128K_TLS),
        JavaProduce(DEFAULTS),
        JavaConsume(),
        LibrdkafkaConsume(),
        RawFetch(span_size_bytes=16 << 10, name="fetch_16k", title="raw Fetch, 16 KiB spans"),
        RawFetch(span_size_bytes=1 << 20, name="fetch_1m", title="raw Fetch, 1 MiB spans"),
        RawFetch(
            span_size_bytes=1 << 20,
            name="fetch_1m_tls",
            title="raw Fetch, 1 MiB spans; TLS",
            tls=True,
        ),
        OneRecord(depth=1),
        OneRecord(depth=16),
        SparkRead(),
        SparkSegments(100, "spark_segments_100b", "Spark reads 100-byte values"),
        SparkSegments(1024, "spark_segments_1k", "Spark reads 1 KiB values"),
        SparkArchive(),
    ]


NAMES: Final = tuple(measure.name for measure in all_measures())
