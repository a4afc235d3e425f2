"""Options that several commands share."""

import pytest
from click.testing import CliRunner

from odradek.cli import main


def test_a_value_is_utf_8() -> None:
    refused = CliRunner().invoke(main, ["topics", "list", "-X", "sasl.password=hunter2\udcff"])
    assert refused.exit_code == 2
    assert "Invalid value for '-X': sasl.password has bytes that are not UTF-8" in refused.output
    assert "hunter2" not in refused.output


@pytest.mark.parametrize("wrong", ["sasl.password:hunter2", "hunter2", "=hunter2"])
def test_what_is_no_pair_is_not_shown(wrong: str) -> None:
    """It may be a password, and errors end in logs."""
    alone = CliRunner().invoke(main, ["topics", "list", "-X", wrong])
    assert alone.exit_code == 2
    assert "Invalid value for '-X': it is not NAME=VALUE" in alone.output
    second = CliRunner().invoke(main, ["topics", "list", "-X", "client.id=x", "-X", wrong])
    assert "Invalid value for '-X': number 2 of 2 is not NAME=VALUE" in second.output
    assert "hunter2" not in alone.output + second.output
