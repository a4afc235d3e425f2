"""What all commands have: examples that can be typed, options given once, completion."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from odradek.cli import main
from odradek.cli.examples import EXAMPLES
from tests.wire.servers import Server


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """All commands that are no groups, by their path."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(leaves(main))


def test_there_is_an_example_of_each_command_and_of_no_other() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("path", COMMANDS)
def test_examples_can_be_typed(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("admin.properties", "client.properties", "rollup.yaml", "server.properties"):
        (tmp_path / file).touch()
    for example in EXAMPLES[path]:
        arguments, _, _ = example.partition(" <")
        arguments, _, _ = arguments.partition(" >")
        if arguments != "--example":  # which prints and exits while it is parsed
            COMMANDS[path].make_context(path, shlex.split(arguments)).close()
    shown = CliRunner().invoke(main, [*path.split(), "--help"], prog_name="odradek").output
    assert f"  odradek {path} {EXAMPLES[path][0]}\n" in shown


def test_an_option_that_takes_one_value_is_refused_twice() -> None:
    result = CliRunner().invoke(main, ["configs", "describe", "--topic", "a", "--topic", "b"])
    assert result.exit_code == 2 and "--topic is given more than once" in result.output
    result = CliRunner().invoke(main, ["consume", "t", "-n", "1", "--count", "2"])
    assert result.exit_code == 2 and "--count is given more than once" in result.output


def completed(typed: str, **environment: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    words = typed.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "odradek"],
        env={
            **os.environ,
            **environment,
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(words) - 1),
            "_ODRADEK_COMPLETE": "bash_complete",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.slow
def test_commands_and_options_are_completed() -> None:
    assert completed("odradek con") == ["configs", "consume"]
    assert completed("odradek topics de") == ["delete", "delete-records", "describe"]
    assert completed("odradek consume t --gr") == ["--group", "--grep"]


@pytest.mark.wire
def test_topics_are_completed_from_the_cluster(topic: str, cluster: Server) -> None:
    servers = cluster.bootstrap_servers
    there = {"ODRADEK_BOOTSTRAP_SERVERS": servers}
    assert completed(f"odradek consume {topic[:-3]}", **there) == [topic]
    assert completed(f"odradek consume -b {servers} {topic[:-3]}") == [topic]
    assert completed(f"odradek topics delete a {topic[:-3]}", **there) == [topic]
    assert completed("odradek consume x", ODRADEK_BOOTSTRAP_SERVERS="127.0.0.1:1") == []


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "odradek", "completion", shell], capture_output=True, text=True
    )
    assert done.returncode == 0 and f"_ODRADEK_COMPLETE={shell}_complete" in done.stdout
