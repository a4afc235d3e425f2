"""No name that only Linux has is needed at import, nor to serve, produce, consume and recover."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.release.smoke import RECORDS, broker, exchange, output_of

ROOT: Final = Path(__file__).parent.parent.parent
NOT_LINUX: Final = Path(__file__).parent / "not_linux"
ODRADEK: Final = (sys.executable, "-m", "odradek")
# Those of the pipeline need Spark, which has its own tests of where it runs.
IMPORT_ALL: Final = """
import importlib, os, pkgutil, sys
assert sys.platform == "darwin" and not hasattr(os, "sendfile")
import odradek
for module in pkgutil.walk_packages(odradek.__path__, "odradek."):
    if "pipeline" not in module.name and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
import odradek.pipeline, odradek.storage.jobs.__main__
from odradek.testing import Broker
with Broker() as child, Broker(in_process=True) as own:
    assert child.running and own.running
    child.reset()
    own.reset()
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{NOT_LINUX}{os.pathsep}{ROOT}")


@pytest.mark.slow  # 2 s
@pytest.mark.wire
@pytest.mark.usefixtures("elsewhere")
def test_everything_can_be_imported_and_tests_have_brokers() -> None:
    output_of([sys.executable, "-c", IMPORT_ALL])


@pytest.mark.slow  # 4 s
@pytest.mark.wire
@pytest.mark.usefixtures("elsewhere")
def test_a_broker_serves_and_recovers(tmp_path: Path) -> None:
    serve = (*ODRADEK, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    killed = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    with killed:
        assert killed.stdout is not None
        address = killed.stdout.readline().split()[2].removeprefix("PLAINTEXT://")
        exchange(ODRADEK, address)
        killed.send_signal(signal.SIGKILL)
    with broker(serve) as (address, _):
        consume = ("consume", "smoke", "-b", address, "--until", "now")
        assert output_of([*ODRADEK, *consume]) == RECORDS
