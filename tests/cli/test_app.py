"""The group of commands: names, help, and what it must not import."""

import importlib.metadata
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import odradek
from odradek.cli import COMMANDS, main

CLIENT_LIBRARIES = (
    "rich",
    "kazoo",
    "kafka",
    "aiokafka",
    "confluent_kafka",
    "pyspark",
    "prometheus_client",
)


def test_version_is_that_of_the_distribution() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.output == f"odradek {odradek.__version__}\n"
    assert importlib.metadata.version("odradek") == odradek.__version__


def test_help_lists_every_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name, text in COMMANDS.items():
        assert name in result.output and text in result.output


@pytest.mark.parametrize(
    "command",
    [[name] for name in COMMANDS]
    + [
        ["topics", name]
        for name in ("list", "create", "delete", "alter", "describe", "delete-records")
    ]
    + [["groups", name] for name in ("list", "describe", "reset-offsets", "delete", "explain")]
    + [["transactions", name] for name in ("list", "describe", "find-hanging", "abort")]
    + [["wait", name] for name in ("broker", "topic", "group", "lag")]
    + [["log", name] for name in ("dump", "verify", "repair")]
    + [[of, name] for of in ("users", "acls") for name in ("list", "add", "delete")]
    + [["groups", "delete-offsets"], ["configs", "describe"], ["configs", "alter"]]
    + [["transactions", "describe-producers"], ["transactions", "explain"]],
)
def test_every_command_explains_each_option(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {' '.join(command)} ")
    context = click.Context(main)
    found = main.get_command(context, command[0])
    if len(command) == 2:
        assert isinstance(found, click.Group)
        found = found.get_command(context, command[1])
    assert found is not None and found.help
    for option in found.params:
        assert isinstance(option, click.Argument) or getattr(option, "help", None), option.name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("topic", "topics"), ("server", "serve"), ("consumer", "consume"), ("group", "groups")],
)
def test_a_typo_gets_a_suggestion(typed: str, meant: str) -> None:
    result = CliRunner().invoke(main, [typed])
    assert result.exit_code == 2
    assert f"Did you mean {meant}?" in result.output


def test_nonsense_gets_no_suggestion() -> None:
    result = CliRunner().invoke(main, ["xyzzy"])
    assert result.exit_code == 2
    assert "Did you mean" not in result.output


def test_ctrl_c_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def waits() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "get_command", lambda *_: waits)
    result = CliRunner().invoke(main, ["wait"])
    assert (result.exit_code, result.output) == (130, "\n")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"]])
def test_help_and_serve_import_no_client_library(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom odradek.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        f"loaded = sorted({set(CLIENT_LIBRARIES)!r} & sys.modules.keys())\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_bare_names_of_the_rooms_are_nobodys_modules() -> None:
    code = (
        "import sys\nimport odradek.cli.serve, odradek.testing\n"
        "assert not {'broker', 'protocol', 'storage'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_commands_without_kafka_python_name_the_extra() -> None:
    code = (
        "import sys\nsys.modules['kafka'] = None\n"
        "from odradek.cli import main\nmain(['topics', 'list'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'odradek[cli]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("option", "value", "setting"),
    [
        ("--data-dir", "d", "log.dirs=e"),
        ("--listen", "127.0.0.1:0", "listeners=PLAINTEXT://127.0.0.1:1"),
        ("--broker-id", "1", "broker.id=2"),
    ],
)
def test_serve_is_not_told_one_thing_twice(option: str, value: str, setting: str) -> None:
    result = CliRunner().invoke(main, ["serve", option, value, "--set", setting])
    assert result.exit_code == 2
    assert f"{option} and --set {setting.partition('=')[0]} say the same" in result.output
