"""A run is drawn: what was done, who led, how long records took."""

from xml.etree import ElementTree

import pytest

from tests.lab import plot
from tests.lab.verify.events import Event, Lab, Sent, View

RUN: list[Event] = [
    *(Sent("w", 0, n, 0, 0, n, 100 + n / 10, 0.01 if n < 50 else 2.0) for n in range(100)),
    Lab("start", "broker 1", 90.0, {}),
    Lab("kill -9", "broker 1", 104.0, {}),
    Lab("start", "broker 1", 107.0, {}),
    Lab("SIGSTOP", "broker 2", 108.0, {}),
    View(0, 0, 1, 4, [0, 1, 2], 99.0),
    View(2, 0, 2, 5, [0, 2], 106.0),
    View(0, 0, 1, 4, [0, 1, 2], 106.5),  # it does not know yet
    View(0, 0, 2, 5, [0, 2], 107.0),
    View(0, 0, 2, 5, [0, 1, 2], 108.0),
]


def test_what_was_done_and_how_long() -> None:
    assert plot.faults(RUN) == [
        plot.Fault("kill -9 broker 1", 104.0, 107.0),
        plot.Fault("SIGSTOP broker 2", 108.0, 108.0),
    ]


def test_who_led_and_until_when() -> None:
    seen = [(v.leader, len(v.isr), end) for v, end in plot.leaderships(RUN, 112.0)[0]]
    assert seen == [(1, 3, 106.0), (2, 2, 108.0), (2, 3, 112.0)]


def test_all_acknowledgements_are_counted() -> None:
    found = plot.buckets(RUN, 100.0, 112.0)
    assert sum(len(bucket.took_s) for bucket in found) == 100
    assert sum(bucket.per_s for bucket in found) * 0.25 == pytest.approx(100)


def test_the_picture_is_xml_and_names_what_it_shows() -> None:
    drawn = plot.draw(RUN, "a <run>")
    texts = {element.text for element in ElementTree.fromstring(drawn).iter() if element.text}
    assert {"a <run>", "kill -9 broker 1", "partition 0", "broker 2", "p99"} <= texts
    with pytest.raises(ValueError, match="nobody has sent anything"):
        plot.draw(RUN[-5:], "nothing")
