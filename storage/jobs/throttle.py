"""Limits the disk throughput of a job."""

from collections.abc import Callable

from . import Report


def throttled(
    report: Report,
    io_bytes_per_second: float | None,
    monotonic: Callable[[], float],
    sleep: Callable[[float], None],
) -> Report:
    """A report that also sleeps, so that the job does not exceed the rate.

    `monotonic` returns seconds.
    """
    if io_bytes_per_second is None:
        return report
    rate, start_s = io_bytes_per_second, monotonic()

    def report_and_wait(done_bytes: int) -> None:
        report(done_bytes)
        early_s = done_bytes / rate - (monotonic() - start_s)
        if early_s > 0:
            sleep(early_s)

    return report_and_wait
