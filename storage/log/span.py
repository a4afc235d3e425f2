"""What a Fetch sends: a range of one segment's file, kept alive until it is sent."""

from collections.abc import Callable

from .log_file import LogFile


class Span:
    """Whole batches of one segment; holds the file's descriptor open until `release`.

    The holder sends `size_bytes` from `position` of `file.fileno()`, or takes `read()`.  When the
    log is truncated below the end of the span, the positions would name other batches: the span
    is then `dropped`, `on_drop` is called once, and the holder must close its connection.
    """

    __slots__ = (
        "__weakref__",
        "dropped",
        "file",
        "next_offset",
        "on_drop",
        "position",
        "size_bytes",
    )

    def __init__(
        self, file: LogFile, position: int, size_bytes: int, next_offset: int = -1
    ) -> None:
        """`next_offset`: where the read that follows this one begins, -1 if nobody asks."""
        file.ref()
        self.file = file
        self.position = position
        self.size_bytes = size_bytes
        self.next_offset = next_offset
        self.dropped = False
        self.on_drop: Callable[[], None] | None = None
        spans = file.spans
        if spans is None:
            file.spans = {self}
        else:
            spans.add(self)

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> bytes:
        """The bytes, for the portable path and for tests.  Raises: LogDirFailed."""
        return self.file.pread(self.size_bytes, self.position)

    def release(self) -> None:
        """Give the file back; the span must not be used again.  A second call does nothing."""
        spans = self.file.spans
        if spans is not None and self in spans:
            spans.remove(self)
            self.file.unref()


def drop_spans(file: LogFile, size_bytes: int) -> None:
    """Drop the spans that reach beyond the first `size_bytes`; call before the file is cut."""
    for span in list(file.spans or ()):
        if span.position + span.size_bytes > size_bytes and not span.dropped:
            span.dropped = True
            if span.on_drop is not None:
                span.on_drop()
