"""The images of docker/Dockerfile, built and started as Docker would."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docker.conftest import Images
from tests.docker.containers import Container
from tests.release.smoke import RECORDS, exchange

pytestmark = [pytest.mark.root, pytest.mark.soak]

ADDRESS: Final = "localhost:9092"


def test_image_runs_as_compose_says(images: Images, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    with Container(images.broker, volume) as container:
        container.wait_for(lambda: container.has_logged("odradek ready: "))
        assert container.is_healthy()
        state = Path(f"/proc/{container.pid}/status").read_text()
        assert re.search(r"^Uid:(\t10001){4}$", state, re.MULTILINE), state
        assert re.search(r"^CapEff:\t0+$", state, re.MULTILINE), state
        for path in ("/stray", "/opt/odradek/stray", "/etc/stray"):
            assert "Read-only file system" in container.run("touch", path).stderr
        exchange([*container.enter(), "odradek"], ADDRESS)
        assert container.stop() == 0
        assert container.has_logged("broker stopped cleanly")
    with Container(images.broker, volume) as container:
        container.wait_for(container.is_healthy)
        consume = ("odradek", "consume", "smoke", "-b", ADDRESS, "--until", "now")
        assert container.run(*consume).stdout == RECORDS


def test_health_check_fails_while_nobody_answers(images: Images, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    with Container(images.broker, volume, entrypoint=["sleep"], command=["600"]) as silent:
        silent.wait_for(lambda: silent.run("true").returncode == 0)
        assert not silent.is_healthy()
