"""Background maintenance of a broker's logs, one module for each task."""

from collections.abc import Coroutine

from ..config import Config
from ..partitions.replicas import Replicas
from ..runtime import Runtime
from .checkpointer import Checkpointer
from .cleaner import Cleaner
from .flusher import Flusher
from .producer_expiry import ProducerExpiry
from .retention import Retention
from .scrubber import Scrubber
from .unmade import Unmade


def write_checkpoints(
    replicas: Replicas, config: Config, runtime: Runtime
) -> Coroutine[object, object, None]:
    """The loop to run from startup on, because creating replicas may wait for a checkpoint."""
    return Checkpointer(replicas, config, runtime).run()


def loops(
    replicas: Replicas, config: Config, runtime: Runtime
) -> dict[str, Coroutine[object, object, None]]:
    """The other loops to run, by name, once replicas are served."""
    scrubber = Scrubber(replicas, config, runtime)
    return {
        "flush logs": Flusher(replicas, config, runtime).run(),
        "expire producers": ProducerExpiry(replicas, config, runtime).run(),
        "compact logs": Cleaner(replicas, config, runtime).run(),
        "delete old segments": Retention(replicas, config, runtime).run(),
        "move replicas": replicas.moves.run(),
        "unlink deleted files": replicas.deletions.run(),
        "make what had no room": Unmade(replicas, runtime).run(),
        "verify old segments": scrubber.run(),
        "verify reported records": scrubber.run_reported(),
        "copy damaged replicas anew": replicas.damaged.run(),
    }
