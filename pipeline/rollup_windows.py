"""The aggregation itself, and which records are too late for it.

Spark drops a row if its window's end is not after the watermark, and reports how many rows it
dropped after partial aggregation: groups, not records. To count records, the same rule is applied
to each record in the batch's offset range, with the watermark in Spark's own checkpoint. Both are
written before the batch runs, so a batch that is run again after a kill counts the same.
"""

from dataclasses import dataclass

from .rollup_parse import TIME
from .rollup_spec import Rollup, Window
from .spark_types import DataFrame


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts for the records of a batch, or of all batches."""

    records: int = 0
    bad: int = 0
    late: int = 0
    """In no window, because all of theirs were closed."""
    partly_late: int = 0
    """In only some of their windows, because the others were closed.  0 unless windows overlap."""

    @property
    def good(self) -> int:
        """How many were not bad."""
        return self.records - self.bad

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.records + other.records,
            self.bad + other.bad,
            self.late + other.late,
            self.partly_late + other.partly_late,
        )


def aggregated(classified: DataFrame, spec: Rollup) -> DataFrame:
    """The good ones of a stream's `parsed` records, aggregated in windows."""
    from pyspark.sql import functions as f

    size, slide = f"{spec.window.size_ms} milliseconds", f"{spec.window.slide_ms} milliseconds"
    key = [f.col(f"`{name}`") for name in spec.key]
    measures = [f.expr(one.expression).alias(one.name) for one in spec.measures]
    return (
        classified.where("odradek_good")
        .withWatermark(TIME, f"{spec.watermark_ms} milliseconds")
        .groupBy(f.window(TIME, size, slide).alias("odradek_window"), *key)
        .agg(*measures)
        .selectExpr(
            "odradek_window.start AS window_start",
            "odradek_window.end AS window_end",
            *(f"`{name}`" for name in spec.key),
            *(f"`{one.name}`" for one in spec.measures),
        )
    )


def counted(classified: DataFrame, window: Window, watermark_ms: int) -> Counts:
    """The counts of a batch's `parsed` records; `watermark_ms` makes records late."""
    first_end, last_end = window_ends(f"unix_micros({TIME})", window)
    late = f"odradek_good AND {last_end} <= {watermark_ms * 1000}L"
    touched = f"odradek_good AND {first_end} <= {watermark_ms * 1000}L"
    row = classified.selectExpr(
        "count(1)",
        "count_if(NOT odradek_good)",
        f"count_if({late})",
        f"count_if({touched})",
    ).first()
    records, bad, late_records, touched_records = row
    return Counts(records, bad, late_records, touched_records - late_records)


def window_ends(micros: str, window: Window) -> tuple[str, str]:
    """SQL for the ends, in microseconds, of the first and the last window that contain a time."""
    size, slide = f"{window.size_ms * 1000}L", f"{window.slide_ms * 1000}L"
    last_start = f"({micros} - pmod({micros}, {slide}))"
    before = f"({micros} - {size})"  # windows hold their start, not their end
    first_start = f"({before} - pmod({before}, {slide}) + {slide})"
    return f"({first_start} + {size})", f"({last_start} + {size})"
