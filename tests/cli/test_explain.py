"""The summary above a group's journal."""

from odradek.cli.brokers import BrokerNode
from odradek.cli.explain import rebalances_since, summary
from odradek.cli.group_descriptions import GroupView
from odradek.protocol.messages.k20001_describe_group_journal import JournalEntry

NODE = BrokerNode(0, "localhost", 9092)


def group(epoch: int | None = None) -> GroupView:
    return GroupView(
        group_id="orders",
        type="consumer" if epoch else "classic",
        state="Stable",
        protocol_type="consumer",
        assignor="range",
        coordinator=NODE,
        members=[],
        epoch=epoch,
    )


def entry(timestamp_ms: int, event: str, reason: str, member_id: str = "") -> JournalEntry:
    return JournalEntry(timestamp_ms=timestamp_ms, event=event, member_id=member_id, reason=reason)


def told(entries: list[JournalEntry], *, since_ms: int = 0, epoch: int | None = None) -> list[str]:
    return summary(group(epoch), entries, 10, rebalances_since(entries, since_ms))


def test_the_same_reason_counts_as_one_whoever_the_member_is() -> None:
    entries = [
        entry(1, "joined", "", "c-7"),
        entry(1, "rebalance", "member c-7 joined"),
        entry(2, "timed-out", "", "c"),
        entry(2, "rebalance", "group epoch 3: member c timed out"),
        entry(3, "left", "", "c-9"),
        entry(4, "rebalance", "group epoch 4: c-9 timed out"),
    ]
    assert told(entries) == [
        "orders is Stable, with 0 members.",
        "3 rebalances in the last 10 minutes.",
        "The commonest reason (2 of 3): a member timed out",
    ]


def test_older_rebalances_do_not_count() -> None:
    entries = [entry(1, "rebalance", "old"), entry(2, "rebalance", "new")]
    assert told(entries, since_ms=2)[1:] == [
        "1 rebalance in the last 10 minutes.",
        "The reason: new",
    ]
    assert told(entries, since_ms=3)[1:] == ["0 rebalances in the last 10 minutes."]


def test_a_consumer_group_has_an_epoch() -> None:
    assert told([], epoch=7) == [
        "orders is Stable at epoch 7, with 0 members.",
        "Its journal is empty: nothing has happened since the broker started.",
    ]


def test_a_classic_group_has_the_generation_that_its_coordinator_named_last() -> None:
    entries = [
        entry(1, "generation", "generation 3 with 2 members"),
        entry(2, "empty", "generation 4 has no members"),
        entry(3, "left", "generation 99 is what a client may say", "c"),
    ]
    assert told(entries)[0] == "orders is Stable in generation 4, with 0 members."
