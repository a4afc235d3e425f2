"""In what Odradek's answers about groups may differ from Apache Kafka's, and why."""

from typing import Final

from tests.wire.allowed import ACCIDENT, MORE_HELPFUL, Rule

IN_ZOOKEEPER: Final = (
    "OffsetCommit 0 and OffsetFetch 0 are of the time when offsets lay in ZooKeeper, where Kafka "
    "3.9 still puts them; to us they are offsets of the group like any others."
)
SHARE_GROUPS: Final = "There are no share groups here, in any version of FindCoordinator."
FORM_OF_3_9: Final = "Offsets are written as Kafka 3.9 writes them, so that it can read them too."
UNUSED: Final = (
    "A group that was made for a request that was refused, or whose only member never joined, is "
    "forgotten at once; Kafka keeps it, Empty, until it cleans up."
)
ONCE: Final = "A group that is named several times is described once: answers have a bound."
AS_IN_3_9: Final = "A classic group that rebalances is described as by 3.9: without assignments."

ALLOWED: Final[tuple[Rule, ...]] = (
    Rule(None, r"error_message: ours '\(text\)', Kafka's (None|'')$", MORE_HELPFUL),
    Rule("find_coordinator", r"^v6 share .*error_code: ours 42, Kafka's 15$", SHARE_GROUPS),
    Rule("commit_from_outside", r"^v0 |^v\d fetched with v0: ", IN_ZOOKEEPER),
    Rule("commit_of_members", r"^v0 ", IN_ZOOKEEPER),
    Rule("commit_refusals", r"^v0 empty group: ", IN_ZOOKEEPER),
    Rule("fetch_offsets", r"^v0 ", IN_ZOOKEEPER),
    Rule("pending_member", r"^described when gone: .*ours 'Dead', Kafka's 'Empty'$", UNUSED),
    Rule("first_join_of_nothing", r"described: .*ours 'Dead', Kafka's 'Empty'$", UNUSED),
    Rule("describe_groups", r"^v\d several: \.groups: ", ONCE),
    Rule("seen_from_outside", r"^consumer v\d: \.groups: ", ONCE),
    Rule("downgrade_online", r"^described: .*member_assignment: ours b'', ", AS_IN_3_9),
    Rule("upgrade_refused", r"^z joins unassigned: .*Kafka's -1$", ACCIDENT),
    Rule("consumer_records", r"topic_id: ours 'no id'", FORM_OF_3_9),
    Rule("downgrade_offline", r"topic_id: ours 'no id'", FORM_OF_3_9),
)
