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


def test_whatever_ends_is_a_fault() -> None:
    """What a run of cuts notes, and one with a slow disk."""
    notes = [
        Lab("inflict", "slow link", 1.0, {}),
        Lab("delay of 50 ms", "broker-2 -> broker-0", 1.1, {}),
        Lab("250 kbit/s", "broker-2", 1.2, {}),
        Lab("ask", "controller", 1.5, {}),
        Lab("end of 250 kbit/s", "broker-2", 2.0, {}),
        Lab("end of delay of 50 ms", "broker-2 -> broker-0", 2.1, {}),
        Lab("cut is over", "slow link", 3.0, {}),
        Lab("slow disk", "broker 1", 4.0, {}),
        Lab("cut", "broker-1 <-> zookeeper", 5.0, {}),
        Lab("end of slow disk", "broker 1", 6.0, {}),
        Lab("end of cut", "broker-1 <-> zookeeper", 7.0, {}),
    ]
    assert plot.faults(notes) == [
        plot.Fault("inflict slow link", 1.0, 1.0),
        plot.Fault("delay of 50 ms broker-2 -> broker-0", 1.1, 2.1),
        plot.Fault("250 kbit/s broker-2", 1.2, 2.0),
        plot.Fault("slow disk broker 1", 4.0, 6.0),
        plot.Fault("cut broker-1 <-> zookeeper", 5.0, 7.0),
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
