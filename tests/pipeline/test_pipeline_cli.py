"""`odradek pipeline` without a Spark: what is refused, and how."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.cli import main
from odradek.cli.pipeline import JOBS
from odradek.pipeline.archive import Archived, ArchiveJob
from odradek.pipeline.before_spark import local_folder
from odradek.pipeline.documents import encode
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Admin, Kafka
from odradek.pipeline.manifest import ABOUT, About, Commit, OffsetRange, commit_path
from odradek.pipeline.replay import Done
from odradek.pipeline.running import check_trigger
from odradek.pipeline.session import SparkOptions
from tests.support.brokers import NewTopicName
from tests.wire.servers import Server

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "pipeline" / "rollup-example.yaml"
NOWHERE = "127.0.0.1:1"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["pipeline", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, " ".join(result.output.split())


def test_the_jobs_are_listed_without_importing_any() -> None:
    code, said = run("-h")
    assert code == 0
    for name, help_line in JOBS.items():
        assert f"{name} {help_line}" in said


@pytest.mark.parametrize("job", JOBS)
def test_each_job_has_help_and_takes_a_master(job: str) -> None:
    code, said = run(job, "--help")
    assert code == 0
    for option in ("--master", "--conf", "--jars"):
        assert option in said


def test_the_example_of_a_rollup_is_printed_as_it_is() -> None:
    result = CliRunner().invoke(main, ["pipeline", "rollup", "--example"])
    assert (result.exit_code, result.output) == (0, EXAMPLE.read_text())


def test_an_unknown_job_is_answered_with_a_near_one() -> None:
    code, said = run("archiv")
    assert code == 2
    assert "Did you mean archive?" in said


def test_a_setting_that_is_none_is_refused(tmp_path: Path) -> None:
    code, said = run("checkpoint", str(tmp_path), "--conf", "spark.x")
    assert code == 2
    assert "it is not NAME=VALUE" in said


def test_what_is_asked_for_reaches_the_archive_and_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[ArchiveJob] = []

    def archive(job: ArchiveJob, *_: object) -> Archived:
        jobs.append(job)
        return Archived()

    logs: list[tuple[str, str]] = []
    monkeypatch.setattr("odradek.cli.pipeline_archive.run_archive", archive)
    monkeypatch.setattr(
        "odradek.cli.pipeline_options.set_up_logging", lambda *given: logs.append(given)
    )
    code, said = run(
        *("archive", "--topics", "t", "--to", "a", "--trigger", "1 second", "--query-name", "q"),
        *("--isolation-level", "read_committed", "--log-format", "json", "--log-level", "error"),
    )
    assert code == 0, said
    (job,) = jobs
    assert (job.once, job.trigger, job.name) == (False, "1 second", "q")
    assert job.isolation_level == "read_committed"
    assert logs == [("json", "error")]


def test_the_source_of_a_replay_has_properties_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Kafka | None] = []
    monkeypatch.setattr("odradek.cli.pipeline_replay.check_replay", lambda *_: None)
    monkeypatch.setattr("odradek.cli.pipeline_replay.start", lambda *_: None)

    def replay(*_: object, source: Kafka | None, **__: object) -> Done:
        told.append(source)
        return Done()

    monkeypatch.setattr("odradek.cli.pipeline_replay.run_replay", replay)
    config = tmp_path / "source.properties"
    config.write_text("security.protocol=SSL\n")
    line = ("replay", "--archive", "a", "--topic", "t", "--to-topic", "u")
    given = ("--source-command-config", str(config))
    assert run(*line, *given)[1] == (
        "Error: --source-command-config needs --source-bootstrap-servers"
    )
    assert run(*line, *given, "--source-bootstrap-servers", "h:1")[0] == 0
    (source,) = told
    assert source is not None
    assert (source.bootstrap_servers, source.properties) == ("h:1", {"security.protocol": "SSL"})


@pytest.mark.parametrize(("stopped", "code"), [(False, 0), (True, 143)])
def test_a_replay_that_was_stopped_is_not_done(
    stopped: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Done(written=7, stopped=stopped)
    monkeypatch.setattr("odradek.cli.pipeline_replay.check_replay", lambda *_: None)
    monkeypatch.setattr("odradek.cli.pipeline_replay.start", lambda *_: None)
    monkeypatch.setattr("odradek.cli.pipeline_replay.run_replay", lambda *_, **__: done)
    ended, said = run("replay", "--archive", "a", "--topic", "t", "--to-topic", "u")
    assert ended == code
    assert said.startswith("7 records written to u")
    assert ("stopped before the end" in said) is stopped


@pytest.mark.slow
def test_nobody_at_the_address_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.pipeline.kafka.CONNECT_TIMEOUT_MS", 200)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"t":{"0":1}}')
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text('\0v1\n{"t":{"0":0}}')
    code, said = run("checkpoint", str(tmp_path), "-b", "127.0.0.1:1")
    assert code == 2
    assert said.startswith("Error: no broker answers at 127.0.0.1:1: check --bootstrap-servers")


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        ("archive", "-b", NOWHERE, "--topics", "t", "--to", "a"),
        ("audit", "-b", NOWHERE, "--topics", "t", "--archive", "a"),
        ("generate", "-b", NOWHERE, "--topic", "t", "--kind", "orders", "--records", "1"),
        ("mirror", "--from", NOWHERE, "--to", "h:1", "--topics", "t"),
        ("rollup", "-b", NOWHERE, "--spec", "pipeline/rollup-example.yaml"),
    ],
    ids=lambda line: line[0],
)
def test_nobody_at_the_address_is_said_before_spark_starts(
    line: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.pipeline.kafka.CONNECT_TIMEOUT_MS", 200)
    monkeypatch.chdir(ROOT)
    code, said = run(*line)
    assert code == 2
    option = "--from" if line[0] == "mirror" else "--bootstrap-servers"
    assert said.startswith(f"Error: no broker answers at {NOWHERE}: check {option}, and that ")


@pytest.mark.parametrize(
    ("servers", "what"),
    [("host:port", "'port' is no port"), ("h:1,host", "host has no port")],
)
def test_an_address_without_a_port_is_answered_with_what_one_looks_like(
    servers: str, what: str
) -> None:
    code, said = run("archive", "-b", servers, "--topics", "t", "--to", "a")
    assert code == 2
    assert said == (
        f"Error: --bootstrap-servers {servers} cannot be used: {what}; give HOST:PORT,HOST:PORT,…"
    )


@pytest.mark.parametrize("trigger", ["soon", "10", "10s", "interval 10", "10 bananas", ""])
@pytest.mark.parametrize(
    "line",
    [("archive", "-b", NOWHERE, "--to", "a"), ("mirror", "--from", NOWHERE, "--to", NOWHERE)],
)
def test_a_trigger_that_is_none_is_said_before_anything_is_claimed(
    line: tuple[str, ...], trigger: str
) -> None:
    code, said = run(*line, "--topics", "t", "--trigger", trigger)
    assert code == 2
    assert said == f"Error: --trigger {trigger!r} is no interval: give one such as '10 seconds'"


@pytest.mark.parametrize(
    "trigger", ["10 seconds", "1 MINUTE 30 seconds", "interval 1 hour", "0.5second"]
)
def test_a_trigger_is_left_to_spark(trigger: str) -> None:
    check_trigger(trigger)


@pytest.mark.wire
def test_nobody_where_a_mirror_is_to_write(
    server: Server, new_topic: NewTopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Kafka._connect

    def connect_in_time(kafka: Kafka) -> Admin:
        """The broker may take its time; where nobody is, nothing is gained by waiting."""
        with monkeypatch.context() as impatient:
            if kafka.bootstrap_servers == NOWHERE:
                impatient.setattr("odradek.pipeline.kafka.CONNECT_TIMEOUT_MS", 500)
            return connect(kafka)

    monkeypatch.setattr(Kafka, "_connect", connect_in_time)
    monkeypatch.setattr("odradek.cli.pipeline_mirror.start", lambda *_: None)
    topic = new_topic("unmirrored")
    code, said = run(
        "mirror", "--from", server.bootstrap_servers, "--to", NOWHERE, "--topics", topic
    )
    assert (code, f"no broker answers at {NOWHERE}: check --to, " in said) == (2, True), said


@pytest.mark.wire
@pytest.mark.parametrize("job", ["archive", "audit", "mirror"])
def test_a_topic_that_is_not_there_is_said_before_spark_starts(job: str, server: Server) -> None:
    there = server.bootstrap_servers
    where = {
        "archive": ("-b", there, "--to", "a"),
        "audit": ("-b", there, "--archive", "a"),
        "mirror": ("--from", there, "--to", "h:1"),
    }
    code, said = run(job, "--topics", "nowhere", *where[job])
    assert code == 2
    assert said.startswith(f"Error: there is no topic nowhere at {there}: check the name, or creat")


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts Spark fails; paths without a scheme are of this machine."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    for job in ("pipeline_audit", "pipeline_compact", "pipeline_mirror", "pipeline_replay"):
        monkeypatch.setattr(f"odradek.cli.{job}.start", start)
    monkeypatch.setattr("odradek.pipeline.archive.start", start)
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.wire
@pytest.mark.usefixtures("no_spark")
def test_a_folder_that_will_not_do_is_said_before_spark_starts(
    server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic, strange = new_topic("refused"), tmp_path / "strange"
    strange.mkdir()
    (strange / "notes.txt").touch()
    there = ("-b", server.bootstrap_servers)
    for uri in (str(strange), strange.as_uri()):
        code, said = run("archive", *there, "--topics", topic, "--to", uri, "--once")
        assert (code, "holds notes.txt: give an empty folder" in said) == (2, True), said
        lines = [
            ("audit", *there, "--topics", topic, "--archive", uri),
            ("compact", "--archive", uri),
            ("replay", *there, "--archive", uri, "--topic", topic, "--to-topic", "u"),
        ]
        for line in lines:
            code, said = run(*line)
            assert (code, "is no archive: give the folder" in said) == (2, True), said
    assert [path.name for path in strange.iterdir()] == ["notes.txt"]


@pytest.mark.wire
@pytest.mark.usefixtures("no_spark")
def test_what_an_archive_does_not_hold_is_said_before_spark_starts(
    server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("not-in-it")
    commit = Commit(0, (OffsetRange("held", 0, 0, 9),), ())
    for path, document in ((ABOUT, About()), (commit_path(0), commit)):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(document.to_json()))
    there = ("-b", server.bootstrap_servers)
    line = ("replay", *there, "--archive", str(tmp_path), "--to-topic", "u", "--topic")
    assert "has no topic nothing: it holds held" in run(*line, "nothing")[1]
    assert "offset" in run(*line, "held", "--starting-offsets", "7:0")[1]
    _, said = run("archive", *there, "--topics", topic, "--to", str(tmp_path))
    assert f"is an archive of held, and not of {topic} only" in said


@pytest.mark.wire
@pytest.mark.usefixtures("no_spark")
def test_a_topic_that_takes_no_copy_is_said_before_spark_starts(
    server: Server, new_topic: NewTopicName
) -> None:
    topic = new_topic("copied")
    target = new_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    there = server.bootstrap_servers
    code, said = run("audit", "-b", there, "--topics", topic, "--against-topic", "nowhere")
    assert (code, "there is no topic nowhere" in said) == (2, True), said
    uri = "hdfs://cold/orders"  # only Spark could look there
    line = ("replay", "-b", there, "--archive", uri, "--topic", topic, "--to-topic", target)
    code, said = run(*line)
    assert (code, "message.timestamp.type=CreateTime" in said) == (2, True), said


@pytest.mark.wire
@pytest.mark.usefixtures("no_spark")
def test_a_mirror_onto_itself_is_said_before_spark_starts(
    server: Server, new_topic: NewTopicName
) -> None:
    here = server.bootstrap_servers
    code, said = run("mirror", "--from", here, "--to", here, "--topics", new_topic("itself"))
    assert (code, "--from and --to are one cluster" in said) == (2, True), said


@pytest.mark.parametrize(
    ("uri", "conf", "environ"),
    [
        ("hdfs://cold/orders", {}, {}),
        ("orders", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}),
        ("orders", {"spark.hadoop.fs.defaultFS": "hdfs://cold"}, {}),
    ],
)
def test_a_folder_that_may_be_elsewhere_is_left_to_spark(
    uri: str, conf: dict[str, str], environ: dict[str, str]
) -> None:
    assert local_folder(uri, SparkOptions(conf=conf), environ) is None
    assert local_folder("file:/orders", SparkOptions(conf=conf), environ) is not None


@pytest.mark.parametrize(("folder", "said"), [("", "no batch was planned"), ("x", "is no folder")])
def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path, folder: str, said: str) -> None:
    code, answer = run("checkpoint", str(tmp_path / folder))
    assert code == 2
    assert said in answer


def test_whatever_can_be_explained_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("odradek.cli.pipeline_checkpoint._folder", full)
    code, said = run("checkpoint", "/x")
    assert code == 2
    assert said.startswith("Error: the disk is full")

    def strange(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("odradek.cli.pipeline_checkpoint._folder", strange)
    code, said = run("checkpoint", "/x")
    assert code == 2, "1 says that something is different"
    assert said.startswith("Error: the job stopped: OSError: [Errno 5] Input/output error (--log-")

    def broken(*_: object) -> None:
        raise PipelineError("two\nlines")

    monkeypatch.setattr("odradek.cli.pipeline_checkpoint._folder", broken)
    assert run("checkpoint", "/x") == (2, "Error: two lines")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            ZeroDivisionError("by zero"),
            "Error: the job stopped: ZeroDivisionError: by zero (--log-",
        ),
        (KeyboardInterrupt(), "Error: the job was interrupted before it was done"),
    ],
    ids=["unexpected", "Ctrl-C"],
)
def test_only_a_comparison_ends_with_exit_code_1(
    raised: BaseException, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def audit(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(Kafka, "topics", audit)
    code, answer = run("audit", "--topics", "t", "--archive", "a")
    assert (code, answer.startswith(said)) == (2, True), answer


@pytest.mark.slow
def test_nobody_who_reads_what_is_printed_is_no_difference() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "odradek", "pipeline", "audit", "--help"]
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, "")


@pytest.mark.slow
def test_the_room_imports_no_spark() -> None:
    modules = [path.stem for path in (ROOT / "pipeline").glob("*.py") if path.stem != "__init__"]
    lines = [f"import odradek.pipeline.{name}" for name in modules]
    lines += [
        "import sys",
        "assert 'pyspark' not in sys.modules",
        "assert 'kafka' not in sys.modules",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, cwd=ROOT)
