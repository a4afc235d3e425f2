"""In what Odradek's answers about groups may differ from Apache Kafka's, and why."""

from typing import Final

from tests.wire.allowed import ACCIDENT, MORE_HELPFUL, Rule

IN_ZOOKEEPER: Final = (
    "OffsetCommit 0 and OffsetFetch 0 are of the time when offsets lay in ZooKeeper, where Kafka "
    "3.9 still puts them; to us they are offsets of the group like any others."
)
SHARE_GROUPS: Final = "There are no share groups here, in any version of FindCoordinator."
FORM_OF_3_9: Final = "Offsets are written as Kafka 3.9 writes them, so that it can read them too."

ALLOWED: Final[tuple[Rule, ...]] = (
    Rule(None, r"error_message: ours '\(text\)', Kafka's (None|'')$", MORE_HELPFUL),
    Rule("find_coordinator", r"^v6 share .*error_code: ours 42, Kafka's 15$", SHARE_GROUPS),
    Rule("commit_from_outside", r"^v0 |^v\d fetched with v0: ", IN_ZOOKEEPER),
    Rule("commit_of_members", r"^v0 ", IN_ZOOKEEPER),
    Rule("commit_refusals", r"^v0 empty group: ", IN_ZOOKEEPER),
    Rule("fetch_offsets", r"^v0 ", IN_ZOOKEEPER),
    Rule("upgrade_refused", r"^z joins unassigned: .*Kafka's -1$", ACCIDENT),
    Rule("consumer_records", r"topic_id: ours 'no id'", FORM_OF_3_9),
    Rule("downgrade_offline", r"topic_id: ours 'no id'", FORM_OF_3_9),
)
