"""What the audit refuses before Spark is started: one sentence, exit code 2."""

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from odradek.cli.pipeline import pipeline
from odradek.cli.pipeline_audit import _make_room, _show, _write
from odradek.pipeline.audit import AuditJob
from odradek.pipeline.audit_report import Report
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from tests.pipeline.audit_model import Model, Record, audited

NOWHERE = "127.0.0.1:1"


def run(*arguments: str) -> Result:
    topics = () if "--topics" in arguments else ("--topics", "t")
    return CliRunner().invoke(pipeline, ["audit", "-b", NOWHERE, *topics, *arguments])


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
        (
            ("--archive", "a", "--html", "-"),
            "--html - is no file: stdout has the table, or the report by --json -",
        ),
        (
            ("--archive", "a", "--json", "report", "--html", "./report"),
            "--json and --html are both ./report: give each a file of its own",
        ),
        (("--archive", "a", "--topics", ","), "',' names no topic: give it as T or T,U"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"Error: {said}\n")


def test_what_is_asked_for_reaches_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[AuditJob] = []

    def audit(_: object, job: AuditJob, **__: object) -> None:
        jobs.append(job)
        raise PipelineError("that is enough")

    monkeypatch.setattr("odradek.cli.pipeline_audit.run_audit", audit)
    monkeypatch.setattr("odradek.cli.pipeline_audit.start", lambda *_: None)
    monkeypatch.setattr(Kafka, "topics", lambda *_, **__: ["t"])
    config = tmp_path / "copy.properties"
    config.write_text("security.protocol=SSL\n")
    result = run(
        *("--against-topic", "u", "--against-bootstrap-servers", "h:1", "--against-name", "n"),
        *("--against-command-config", str(config), "--isolation-level", "read_committed"),
        *("--strict", "--allow-lag", "--range-size", "7"),
    )
    assert result.stderr == "Error: that is enough\n"
    (job,) = jobs
    assert job.isolation_level == "read_committed"
    assert (job.strict, job.allow_lag, job.range_size) == (True, True, 7)
    assert job.copy is not None
    assert (job.copy.topic, job.copy.name) == ("u", "n")
    assert job.copy.kafka.bootstrap_servers == "h:1"
    assert job.copy.kafka.properties == {"security.protocol": "SSL"}


def test_a_folder_is_no_file_to_write(tmp_path: Path) -> None:
    result = run("--archive", "a", "--json", str(tmp_path))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


@pytest.mark.slow
def test_a_report_of_before_is_not_taken_for_that_of_a_failed_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.pipeline.kafka.CONNECT_TIMEOUT_MS", 200)
    before = tmp_path / "audit.json"
    before.write_text('{"equal": true}')
    assert run("--archive", "a", "--json", str(before), "--html", "/dev/null").exit_code == 2
    assert not before.exists()
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--archive", "a", "--html", "-"),
        ("--archive", "a", "--topics", ","),
        ("--archive", "a", "--against-name", "n"),
        ("--against-topic", "t"),
        ("--against-topic", "u", "--against-command-config", __file__),
    ],
)
def test_nor_for_that_of_one_that_was_refused(wrong: tuple[str, ...], tmp_path: Path) -> None:
    before = tmp_path / "audit.json"
    before.write_text('{"equal": true}')
    assert run("--json", str(before), *wrong).exit_code == 2
    assert not before.exists()


def test_a_report_is_there_though_nobody_reads_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def echo(text: str = "") -> None:
        said.append(text)
        raise BrokenPipeError

    one, ends = (Record(0, 0, "a"),), ({0: 0}, {0: 1})
    found = audited(Model("broker", one, *ends), Model("archive", one, *ends), 5)
    monkeypatch.setattr("odradek.cli.pipeline_audit.click.echo", echo)
    files = tmp_path / "audit.json", tmp_path / "audit.html"
    with pytest.raises(BrokenPipeError):
        _show(
            Report(("t",), {"broker": "", "archive": ""}, 5, False, (found,), (), 0),
            *map(str, files),
        )
    assert (len(said), all(file.stat().st_size for file in files)) == (1, True)


@pytest.mark.parametrize("refused", [errno.EBUSY, errno.EROFS, errno.EACCES])
def test_a_file_that_is_mounted_is_written_as_it_is(
    refused: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Docker mounts a single one, perhaps into a folder that takes nothing: it stays there."""
    report = tmp_path / "audit.json"
    report.write_text("before")

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    with report.open() as mounted:
        _make_room(str(report))
        assert report.read_text() == ""  # nothing of before is taken for the new one
        _write(str(report), "after")
        assert mounted.read() == report.read_text() == "after"
    assert [*tmp_path.iterdir()] == [report]
    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(PipelineError, match=r"audit\.json cannot be written: "):
        _make_room(str(report))


def test_a_report_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text("first")
    _make_room(str(page))
    write_text = Path.write_text

    def full(path: Path, text: str, **rest: str) -> int:
        write_text(path, text[:3], **rest)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        with pytest.raises(PipelineError, match=r"page\.html cannot be written: No space left"):
            _write(str(page), "second")
    assert [*tmp_path.iterdir()] == []
    _write(str(page), "third")
    assert page.read_text() == "third"


def test_ranges_have_a_size() -> None:
    assert run("--archive", "a", "--range-size", "0").exit_code == 2


@pytest.mark.slow
def test_an_unreachable_broker_is_said_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("odradek.pipeline.kafka.CONNECT_TIMEOUT_MS", 200)
    result = run("--archive", "a")
    assert result.exit_code == 2
    assert NOWHERE in result.stderr
    assert len(result.stderr.splitlines()) == 1
