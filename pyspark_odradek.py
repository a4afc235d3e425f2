"""Where PySpark 4 looks for `format("odradek")`: modules on its path whose names begin so."""

from odradek.pipeline.segments.source import SegmentSource as DefaultSource

__all__ = ["DefaultSource"]
