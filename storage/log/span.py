"""The records of a Fetch response: a range of a segment's file, kept open until it is sent."""

from collections.abc import Callable

from .log_file import LogFile


class Span:
    """Whole batches of one segment; holds the file's descriptor open until `release`.

    The holder sends `size_bytes` from `position` of `file.fileno()`, or calls `read()`.  If the log
    is truncated below the end of the span, other batches may be written at these positions: the
    span is then `dropped`, `on_drop` is called once, and the holder must close its connection.
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
        """`next_offset`: where the next read begins, or -1 if unused."""
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
        """The bytes, if sendfile is not used, and for tests.  Raises: LogDirFailed."""
        return self.file.pread(self.size_bytes, self.position)

    def release(self) -> None:
        """Release the file; the span must not be used again.  Idempotent."""
        spans = self.file.spans
        if spans is not None and self in spans:
            spans.remove(self)
            self.file.unref()


def drop_spans(file: LogFile, size_bytes: int) -> None:
    """Drop the spans that reach beyond `size_bytes`; call this before the file is cut."""
    for span in list(file.spans or ()):
        if span.position + span.size_bytes > size_bytes and not span.dropped:
            span.dropped = True
            if span.on_drop is not None:
                span.on_drop()
