"""Checks of the settings of background work, together and when numbers of threads change.

Source: KafkaConfig.validateValues, LogCleaner and DynamicThreadPool of Kafka 3.9.
"""

from typing import Any, Final, Protocol

from .declaration import ConfigError

CLEANER_BYTES_MIN: Final = 1 << 20  # the buffer for keys must be larger than this for each thread
THREADS: Final = (
    "log.cleaner.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""The numbers of threads that a running broker may change."""


class ByName(Protocol):
    """Settings by Kafka's names."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of a setting."""
        ...


def check_upkeep_settings(values: ByName) -> None:
    """Check the settings of the log cleaner.  Raises: ConfigError."""
    threads = values["log.cleaner.threads"]
    if threads < 1:
        raise ConfigError(
            "log.cleaner.threads must be at least 1; log.cleaner.enable=false ends compaction"
        )
    size_bytes = values["log.cleaner.dedupe.buffer.size"]
    if size_bytes // threads <= CLEANER_BYTES_MIN:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size={size_bytes} must be more than 1 MiB for each of "
            f"log.cleaner.threads={threads}"
        )


def check_thread_change(now: ByName, wanted: ByName) -> None:
    """Check that a running broker's numbers of threads are at most doubled or halved.

    Raises: ConfigError.
    """
    for name in THREADS:
        threads, count = now[name], wanted[name]
        if count != threads and not threads // 2 <= count <= threads * 2:
            raise ConfigError(
                f"{name}={count} must be at least half of what it is now, {threads}, and at most "
                "the double"
            )
