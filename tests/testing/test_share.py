"""One broker for all workers of pytest-xdist."""

import multiprocessing
from pathlib import Path

import pytest

from odradek.testing import Broker, BrokerFailed
from odradek.testing.external_servers import SharedServers
from odradek.testing.marker import Refused, Wanted
from odradek.testing.share import SharedBroker
from tests.support.waiting import until

from .test_fixtures import pytest_run

pytestmark = pytest.mark.wire

USER_TESTS = """
import os
from pathlib import Path

import pytest
from odradek.testing import BrokerFailed


@pytest.mark.parametrize("n", range(8))
@pytest.mark.odradek(topics={"orders": 2})
def test_one(odradek, n):
    seen = Path(os.environ["SEEN"])
    (seen / f"{os.environ['PYTEST_XDIST_WORKER']}-{odradek.port}").touch()
    name = odradek.name("orders")
    assert name == f"{os.environ['PYTEST_XDIST_WORKER']}.orders"
    assert odradek.records(name) == []
    odradek.produce(name, b"v")
    assert len(odradek.records(name)) == 1


def test_what_concerns_all(odradek):
    with pytest.raises(BrokerFailed, match="share=False"):
        odradek.clock.advance("1s")


@pytest.mark.odradek(share=False)
def test_own(odradek):
    assert odradek.name("x") == "x"
    odradek.clock.advance("1s")
"""


@pytest.mark.slow
def test_workers_share_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    monkeypatch.setenv("SEEN", str(seen))
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    done = pytest_run(tmp_path, "-n2", "--odradek-share=true")
    assert "10 passed" in done.stdout, done.stdout + done.stderr
    workers, ports = zip(*(each.name.split("-") for each in seen.iterdir()), strict=True)
    assert set(workers) == {"gw0", "gw1"} and len(set(ports)) == 1


def _own(directory: Path, is_ready: object) -> None:
    SharedBroker(directory).join(Wanted())
    is_ready.set()  # type: ignore[attr-defined]
    multiprocessing.Event().wait()


def test_another_starts_one_when_the_first_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Broker) -> None:
        raise BrokerFailed("no")

    first, second = SharedBroker(tmp_path), SharedBroker(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Broker, "start", fail)
        with pytest.raises(BrokerFailed, match="no"):
            first.join(Wanted())
    assert second._becomes_owner()
    first.leave()
    second.leave()


@pytest.mark.slow
def test_another_starts_one_when_its_owner_died(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    is_ready = context.Event()
    owner = context.Process(target=_own, args=(tmp_path, is_ready))
    owner.start()
    try:
        assert is_ready.wait(60)
        user = SharedBroker(tmp_path)
        first = user.join(Wanted())
        assert user._own is None
        user.leave()
        owner.kill()
        owner.join()
        with_lock = SharedBroker(tmp_path)
        until(with_lock._becomes_owner)  # its broker has ended, too
        with_lock.leave()
        after = SharedBroker(tmp_path)
        assert after.join(Wanted()) != first
        after.leave()
        assert not (tmp_path / "broker.json").exists()
    finally:
        owner.kill()
        owner.join()


def test_what_cannot_be_shared(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="can't be shared"):
        SharedServers(Wanted(tls=True), (), [], directory=tmp_path, prefix="gw0.")
