"""From samples to the table, the JSON and the picture."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks import picture, report
from benchmarks.brokers import Kind
from benchmarks.measure import MB_PER_S, SECONDS, Measure, Metric, Sample, Stage, Target
from benchmarks.rounds import Outcome


class Start(Measure):
    name = "start"
    title = "a <start>"
    metrics = (
        Metric("line", "to the line", SECONDS, "lower", Target("value", "<", 0.3)),
        Metric("rate", "bulk", MB_PER_S, "higher", Target("ratio", "≥", 1.2)),
    )

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        raise NotImplementedError


def outcome() -> Outcome:
    """Three rounds of Kafka, three of Odradek, and a floor."""
    result = Outcome(Start())
    for kind, times_s, rate in (
        (Kind.KAFKA, (2.0, 2.5, 2.1), 100e6),
        (Kind.ODRADEK, (0.2, 0.1, 0.25), 110e6),
        (Kind.FLOOR, (0.01,), 500e6),
    ):
        result.samples[kind] = [{"line": time_s, "rate": rate} for time_s in times_s]
    return result


def test_rows_hold_medians_spread_and_ratio() -> None:
    line, rate = report.rows([outcome()])
    assert line.kafka == report.Summary(median=2.1, least=2.0, greatest=2.5)
    assert line.ratio == 0.2 / 2.1
    assert (line.target_met, rate.target_met) == (True, False)


def test_table_shows_each_metric_once() -> None:
    text = report.table([outcome()])
    line, rate = text.splitlines()[2:]
    assert " ".join(line.split()) == (
        "to the line s 2.100 (2.000…2.500) 0.200 (0.100…0.250) 0.10x < 0.3 s met 0.010"
    )
    assert rate.endswith("500")
    assert "1.10x  ≥ 1.2x MISSED" in rate


def test_what_could_not_be_measured_is_said() -> None:
    missing = Outcome(Start(), problems={Kind.ODRADEK: "StartFailed: no ready line\ntrace"})
    text = report.table([missing])
    assert "odradek: StartFailed: no ready line" in text
    assert "trace" not in text
    assert [row.target_met for row in report.rows([missing])] == [None, None]


@pytest.mark.slow
def test_json_keeps_every_sample() -> None:
    text = json.dumps(report.as_json([outcome()], quick=True, took_s=1.0))
    result = json.loads(text)["results"][0]
    assert result["samples"]["odradek"] == [0.2, 0.1, 0.25]
    assert result["median"] == {"kafka": 2.1, "odradek": 0.2, "floor": 0.01}


def test_picture_is_well_formed() -> None:
    root = ElementTree.fromstring(picture.draw([outcome()]))
    texts = [element.text for element in root.iter() if element.text]
    assert "a <start>" in texts
    assert "0.10x" in texts
