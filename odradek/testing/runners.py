"""How the brokers of a fixture run: in a child process, in one each, or on a thread of this one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .child import ChildBroker
    from .child_cluster import ChildCluster
    from .in_process import InProcessBroker
    from .processes import ProcessCluster

Runner: TypeAlias = "ChildBroker | ChildCluster | InProcessBroker | ProcessCluster"


def new_runner(
    scratch: Path,
    *,
    brokers: int,
    zookeeper: str | None,
    in_process: bool,
    before_brokers: Callable[[Mapping[str, str]], None],
    start_timeout_s: float,
) -> Runner:
    """The runner for what a `Broker` was asked for; `scratch` is for what it logs.

    `before_brokers` is called once there is a ZooKeeper.
    """
    log_path = scratch / "broker.log"
    if zookeeper is not None:
        from .processes import ProcessCluster

        return ProcessCluster(
            scratch,
            brokers=brokers,
            zookeeper=None if zookeeper == "auto" else zookeeper,
            before_brokers=before_brokers,
            start_timeout_s=start_timeout_s,
        )
    if in_process:
        from .in_process import InProcessBroker

        return InProcessBroker(start_timeout_s=start_timeout_s, brokers=brokers)
    if brokers > 1:
        from .child_cluster import ChildCluster

        return ChildCluster(log_path, brokers=brokers, start_timeout_s=start_timeout_s)
    from .child import ChildBroker

    return ChildBroker(log_path, start_timeout_s=start_timeout_s)
