"""What the audit refuses before Spark is started: one sentence, exit code 2."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from odradek.cli.pipeline import pipeline

NOWHERE = "127.0.0.1:1"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(pipeline, ["audit", "-b", NOWHERE, "--topics", "t", *arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to compare with: give --archive, --against-topic or both"),
        (("--against-topic", "t"), "--against-topic t is itself one of --topics"),
        (
            ("--archive", "a", "--against-bootstrap-servers", "h:1"),
            "--against-bootstrap-servers needs --against-topic",
        ),
        (
            ("--against-topic", "u", "--against-command-config", __file__),
            "--against-command-config needs --against-bootstrap-servers",
        ),
        (("--archive", "a", "--against-name", "n"), "--against-name needs --against-topic"),
        (
            ("--archive", "a", "--html", "/nowhere/page.html"),
            "/nowhere/page.html cannot be written: give a file in a folder that is there",
        ),
        (("--archive", "a", "--topics", ","), "',' names no topic: give it as T or T,U"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"Error: {said}\n")


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    result = run("--archive", "a", "--json", str(tmp_path))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_ranges_have_a_size() -> None:
    assert run("--archive", "a", "--range-size", "0").exit_code == 2


@pytest.mark.slow
def test_an_unreachable_broker_is_said_before_spark_starts() -> None:
    result = run("--archive", "a")
    assert result.exit_code == 2
    assert NOWHERE in result.stderr
    assert len(result.stderr.splitlines()) == 1
