"""ZooKeeper's own transaction log, as its TxnLogToolkit prints it, and what must hold of it.

Whatever a controller writes is in a transaction that checks /controller_epoch. So all of these have
to come from the session that was the last to raise it, and what only controllers write has to be in
one of these.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka.java import command_line

KAFKA: Final = "3.9.2"
TOOLKIT: Final = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
TIMEOUT_S: Final = 60.0
HEAD: Final = re.compile(
    r"^[^\n]{0,60} session 0x(?P<session>[0-9a-f]+) cxid 0x[0-9a-f]+ zxid 0x(?P<zxid>[0-9a-f]+) "
    r"(?P<kind>\w+)",
    re.MULTILINE,
)
# Text and data are printed as they are, each behind four bytes that tell its length.
OP: Final = re.compile(
    r"(?P<what>check|create2?|setData|delete):[^/]{4}(?P<path>/[A-Za-z0-9._/-]*)", re.DOTALL
)
EPOCH: Final = "/controller_epoch"
BELOW_TOPIC: Final = re.compile(r"/brokers/topics/[^/]+/.*")
DELETED_BY_CONTROLLERS: Final = re.compile(r"/(brokers|config)/topics/.*|/admin/.*")
STATE_EPOCH: Final = re.compile(r'"controller_epoch":(\d+)')


class Op(NamedTuple):
    """One operation; `data` begins with bytes that are none of it."""

    what: str
    path: str
    data: str


class Txn(NamedTuple):
    """What was done at once."""

    zxid: int
    session: str
    ops: list[Op]


def read_log(directory: Path) -> list[Txn]:
    """Everything in the log of the ZooKeeper whose `version-2` is below `directory`."""
    files = sorted(directory.glob("**/version-2/log.*"), key=lambda f: int(f.suffix[1:], 16))
    assert files, f"no transaction log in {directory}"
    return [txn for file in files for txn in parse(_printed(file))]


def _printed(file: Path) -> str:
    command = command_line(KAFKA, TOOLKIT, str(file))
    ended = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S)
    return ended.stdout.decode(errors="replace")


def parse(text: str) -> Iterator[Txn]:
    """The transactions in what the tool prints."""
    heads = [*HEAD.finditer(text)]
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : following.start() if following else len(text)]
        found = [*OP.finditer(body)]
        ends = [*(op.start() for op in found[1:]), len(body)]
        ops = [
            Op(op["what"], op["path"], body[op.end() : end])
            for op, end in zip(found, ends, strict=False)
        ]
        yield Txn(int(head["zxid"], 16), head["session"], ops)


def violations(txns: Iterable[Txn]) -> list[str]:
    """Writes of controllers that were none any more, or that anybody could have done."""
    wrong = []
    controller, epoch = "", 0
    for txn in txns:
        if raised := next((op for op in txn.ops if (op.what, op.path) == ("setData", EPOCH)), None):
            found = re.search(r"\d+", raised.data)
            new = int(found[0]) if found else -1
            if new <= epoch:
                wrong.append(f"{txn.zxid:#x}: the epoch becomes {new} after {epoch}")
            controller, epoch = txn.session, new
            continue
        is_fenced = any((op.what, op.path) == ("check", EPOCH) for op in txn.ops)
        if is_fenced and txn.session != controller:
            wrong.append(f"{txn.zxid:#x}: {txn.session} writes, {controller} controls: {txn.ops}")
        for op in txn.ops:
            if is_of_controllers(op) and not is_fenced:
                wrong.append(f"{txn.zxid:#x}: not fenced: {op}")
            told = STATE_EPOCH.search(op.data) if op.path.endswith("/state") else None
            if told and int(told[1]) != epoch:
                wrong.append(f"{txn.zxid:#x}: in epoch {epoch}: {op}")
    return wrong


def is_of_controllers(op: Op) -> bool:
    """Whether only a controller may do this."""
    if op.what == "delete":
        return DELETED_BY_CONTROLLERS.fullmatch(op.path) is not None
    return op.what != "check" and BELOW_TOPIC.fullmatch(op.path) is not None
