"""The secret for SCRAM that cannot be stored: the broker does not start, and says why."""

import asyncio
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.coordination import znodes
from odradek.broker.coordination.journal import SqliteJournal
from odradek.broker.server import StartupError

from .running import HOST, running

SASL = {
    "listeners": f"SASL_PLAINTEXT://{HOST}:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


@pytest.mark.parametrize(
    "reason", ["database or disk is full", "attempt to write a readonly database"]
)
def test_a_secret_that_cannot_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    commit, is_broken = SqliteJournal.commit, True

    def broken(journal: SqliteJournal, zxid: int, changes: Sequence[tuple[str, Any]]) -> None:
        if is_broken and any(path == znodes.SCRAM_SECRET for path, _ in changes):
            raise sqlite3.OperationalError(reason)
        commit(journal, zxid, changes)

    async def main() -> None:
        nonlocal is_broken
        async with running(tmp_path, {}):
            pass
        with pytest.raises(StartupError) as refused:
            async with running(tmp_path, SASL):
                pass
        assert re.fullmatch(f"the store .*sqlite3 failed: {reason}", str(refused.value))
        is_broken = False
        async with running(tmp_path, SASL):
            pass

    monkeypatch.setattr(SqliteJournal, "commit", broken)
    asyncio.run(main())
