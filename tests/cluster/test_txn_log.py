"""The check of ZooKeeper's transaction log finds what it is to find."""

import pytest

from .txn_log import Txn, parse, violations

STATE = "/brokers/topics/t/partitions/0/state"


def line(zxid: int, session: int, *ops: str) -> str:
    """As the tool prints a transaction."""
    head = f"11/21/26, 7:52:06 PM UTC session 0x{session:x} cxid 0x1 zxid 0x{zxid:x}"
    return f"{head} multi {';'.join(ops)}\n"


def op(what: str, path: str, data: str = "") -> str:
    """As the tool prints an operation: text and data behind their lengths, then a version."""
    value = f"\0\0\0{chr(len(data) % 128)}{data}" if data else ""
    return f"{what}:\0\0\0{chr(len(path))}{path}{value}\0\0\0\n"


def state(epoch: int) -> str:
    return f'{{"controller_epoch":{epoch},"leader":1,"version":1,"leader_epoch":1,"isr":[1]}}'


def elected(zxid: int, session: int, epoch: int) -> str:
    node = op("create", "/controller", '{"version":2}')
    return line(zxid, session, node, op("setData", "/controller_epoch", str(epoch)))


FENCE = op("check", "/controller_epoch")
GOOD = (
    "ZooKeeper Transactional Log File with dbid 0 txnlog format version 2\n"
    + elected(1, 7, 1)
    + line(2, 8, op("create", "/admin/delete_topics/t"))
    + line(3, 7, FENCE, op("create", STATE, state(1)))
    + elected(4, 8, 2)
    + line(5, 8, FENCE, op("setData", STATE, state(2)), op("delete", "/admin/delete_topics/t"))
)


def log(text: str) -> list[Txn]:
    return [*parse(text)]


def test_what_controllers_may_do_is_no_violation() -> None:
    txns = log(GOOD + "EOF reached after 5 txns.\n")
    assert [(txn.zxid, txn.session, len(txn.ops)) for txn in txns] == [
        (1, "7", 2),
        (2, "8", 1),
        (3, "7", 2),
        (4, "8", 2),
        (5, "8", 3),
    ]
    assert violations(txns) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (line(6, 7, FENCE, op("create", "/feature")), "7 writes, 8 controls"),
        (line(6, 8, op("delete", "/config/topics/t")), "not fenced"),
        (line(6, 8, op("delete", "/admin/delete_topics/t")), "not fenced"),
        (line(6, 8, op("setData", STATE, state(2))), "not fenced"),
        (line(6, 8, FENCE, op("setData", STATE, state(1))), "in epoch 2"),
        (elected(6, 7, 2), "becomes 2 after 2"),
    ],
)
def test_what_an_older_controller_does_is_found(more: str, expected: str) -> None:
    found = violations(log(GOOD + more))
    assert [expected in text for text in found] == [True]
