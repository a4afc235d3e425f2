import logging

import pytest

from odradek.broker.administration.loggers import LEVELS, Loggers, level_name, logger_levels
from odradek.protocol.errors import ErrorCode, Refused

NAME = "odradek.broker.test_loggers"


def test_levels_have_kafka_s_names() -> None:
    for name, level in LEVELS.items():
        assert level_name(level) == name
    assert level_name(logging.NOTSET) == level_name(1) == "TRACE"
    assert level_name(15) == "INFO"  # INFO is the least severe of Kafka's that passes
    assert level_name(logging.CRITICAL + 1) == "FATAL"


def test_a_level_is_set_and_set_back() -> None:
    logger, below = logging.getLogger(NAME), logging.getLogger(f"{NAME}.below")
    logger.setLevel(logging.WARNING)
    loggers = Loggers()
    assert logger_levels()[NAME] == logger_levels()[f"{NAME}.below"] == "WARN"
    for level in ("DEBUG", "ERROR", "TRACE"):
        loggers.set_level(NAME, level)
        assert logger_levels()[NAME] == logger_levels()[f"{NAME}.below"] == level
    assert below.isEnabledFor(logging.DEBUG)
    loggers.reset(NAME)
    loggers.reset(NAME)
    assert logger.level == logging.WARNING


def test_all_are_set_back() -> None:
    before = logger_levels()
    loggers = Loggers()
    for name in before:
        loggers.set_level(name, "FATAL")
    assert set(logger_levels().values()) == {"FATAL"}
    loggers.reset_all()
    assert logger_levels() == before


def test_only_our_own_are_there() -> None:
    logging.getLogger("somebody.else")
    logging.getLogger("odradek_of_mine")
    names = set(logger_levels())
    assert "odradek" in names
    assert "odradek.broker.administration.loggers" not in names  # it logs nothing
    assert not names & {"root", "somebody.else", "odradek_of_mine", ""}
    for name in ("root", "", "somebody.else", "odradek.absent", "odradek_of_mine"):
        with pytest.raises(Refused) as refused:
            Loggers().check(name, "INFO")
        assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert "odradek.absent" not in logging.root.manager.loggerDict


@pytest.mark.parametrize("level", ["LOUD", "info", "", "WARNING"])
def test_a_level_must_be_one_of_kafka_s(level: str) -> None:
    with pytest.raises(Refused) as refused:
        Loggers().check("odradek", level)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    Loggers().check("odradek", None)
