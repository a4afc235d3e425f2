"""The procedures of the controller, one for each kind of event in the cluster.

The shell reads what has changed in the store (and sets its watches again) and passes it to the
procedure; it runs one procedure at a time. It does not check whether this broker is still the
controller: every write is fenced.
"""

from .broker_events import brokers_changed, leader_and_isr_answered, log_dirs_failed
from .deletion import deletions_asked, stop_replica_answered
from .failover import Snapshot, fail_over
from .isr import IsrChange, IsrResults, alter_partitions, isr_changes_noticed
from .last_replicas import LogEnd, LogEnds, elect_greatest
from .reassignment import Reassigned, reassign, reassignments_requested
from .rebalance import (
    Elections,
    elect,
    preferred_elections_requested,
    rebalance,
    unclean_election_enabled,
)
from .shutdown import shut_down
from .topic_events import topic_changed, topics_changed

__all__ = [
    "Elections",
    "IsrChange",
    "IsrResults",
    "LogEnd",
    "LogEnds",
    "Reassigned",
    "Snapshot",
    "alter_partitions",
    "brokers_changed",
    "deletions_asked",
    "elect",
    "elect_greatest",
    "fail_over",
    "isr_changes_noticed",
    "leader_and_isr_answered",
    "log_dirs_failed",
    "preferred_elections_requested",
    "reassign",
    "reassignments_requested",
    "rebalance",
    "shut_down",
    "stop_replica_answered",
    "topic_changed",
    "topics_changed",
    "unclean_election_enabled",
]
