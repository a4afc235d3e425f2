"""`python -m tests.lab.plot HISTORY [OUT.svg]`: a run as a picture.

From above: records acknowledged a second, how long they took, and for each partition who led it
(colour) with how many replicas in sync (height).  What was done to the cluster is shaded.
"""

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from tests.lab.verify.checker import summary
from tests.lab.verify.events import Event, Lab, Sent, View, load

WIDTH: Final = 1200
LEFT: Final = 96
RIGHT: Final = 24
TOP: Final = 46
LABELS: Final = 60
PANEL: Final = 150
GAP: Final = 34
STRIP: Final = 18
PLOT: Final = WIDTH - LEFT - RIGHT
BUCKETS: Final = 320
FONT: Final = "font-family='Helvetica, Arial, sans-serif'"
COLOURS: Final = ("#2a6f97", "#e09f3e", "#6a994e", "#9d4edd", "#bc4749")
NOBODY: Final = "#222"
PERCENTILES: Final = ((0.5, "#2a6f97", "p50"), (0.99, "#e09f3e", "p99"), (1.0, "#bc4749", "max"))
# What ends what was done, else "end of" it; what ends with nothing is a moment, and of those some
# are shown.
ENDS: Final = {"kill -9": "start", "stop": "start", "SIGSTOP": "SIGCONT"}
SHOWN: Final = frozenset({*ENDS, "cut", "inflict", "make the controller", "session expired"})


class Fault(NamedTuple):
    """Something that was done, from when to when (the same: a moment)."""

    text: str
    begin_s: float
    end_s: float


class Bucket(NamedTuple):
    """A short while: records a second, and how long they took, sorted."""

    begin_s: float
    per_s: float
    took_s: list[float]


def faults(events: Sequence[Event]) -> list[Fault]:
    """All that befell the cluster, in order."""
    notes = sorted((e for e in events if isinstance(e, Lab)), key=lambda note: note.at_s)
    found = []
    for index, note in enumerate(notes):
        end = ENDS.get(note.what, f"end of {note.what}"), note.whom
        end_s = next((n.at_s for n in notes[index:] if (n.what, n.whom) == end), None)
        if end_s is not None or note.what in SHOWN:
            found.append(Fault(f"{note.what} {note.whom}", note.at_s, end_s or note.at_s))
    return found


def buckets(events: Sequence[Event], begin_s: float, end_s: float) -> list[Bucket]:
    """Acknowledgements by the time at which they came."""
    size_s = max(0.25, (end_s - begin_s) / BUCKETS)
    took: dict[int, list[float]] = defaultdict(list)
    for event in events:
        if isinstance(event, Sent) and event.code == 0:
            took[int((event.sent_s + event.took_s - begin_s) / size_s)].append(event.took_s)
    count = int((end_s - begin_s) / size_s) + 1
    return [
        Bucket(begin_s + i * size_s, len(took[i]) / size_s, sorted(took[i])) for i in range(count)
    ]


def leaderships(events: Sequence[Event], end_s: float) -> dict[int, list[tuple[View, float]]]:
    """By partition: what became known of it (the newest epoch first heard of), and until when."""
    known: dict[int, list[View]] = defaultdict(list)
    for view in sorted((e for e in events if isinstance(e, View)), key=lambda view: view.at_s):
        before = known[view.partition]
        if not before or (
            view.leader_epoch >= before[-1].leader_epoch and _state(view) != _state(before[-1])
        ):
            before.append(view)
    return {
        partition: list(zip(views, [*(view.at_s for view in views[1:]), end_s], strict=True))
        for partition, views in sorted(known.items())
    }


def draw(events: Sequence[Event], title: str) -> str:
    """The picture."""
    sent = [event for event in events if isinstance(event, Sent)]
    if not sent:
        raise ValueError("nobody has sent anything in this run")
    begin_s = min(event.sent_s for event in sent)
    end_s = max(event.sent_s + event.took_s for event in sent)
    # Reading back is no part of the run.
    seen = [event for event in events if not isinstance(event, Lab) or event.at_s <= end_s]
    picture = Picture(begin_s, end_s)
    picture.text(16, 26, title, size=16, weight="bold")
    picture.text(16, 42, summary(events), size=11, colour="#666")
    top = TOP + LABELS
    strips = leaderships([e for e in seen if not isinstance(e, View) or e.at_s <= end_s], end_s)
    height = top + 2 * (PANEL + GAP) + STRIP * len(strips)
    picture.faults(faults(seen), top, height)
    found = buckets(seen, begin_s, end_s)
    picture.rates(found, top)
    picture.latencies(found, top + PANEL + GAP)
    picture.strips(strips, top + 2 * (PANEL + GAP))
    picture.times(height)
    return picture.svg(height + 40)


class Picture:
    """Parts of the drawing between two times."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        self._begin_s = begin_s
        self._end_s = max(end_s, begin_s + 1)
        self._parts: list[str] = []

    def svg(self, height: float) -> str:
        """All of it."""
        head = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}' "
            f"width='{WIDTH}' height='{height:.0f}' {FONT} font-size='12'>"
        )
        ground = "<rect width='100%' height='100%' fill='white'/>"
        return "\n".join([head, ground, *self._parts, "</svg>", ""])

    def faults(self, found: Sequence[Fault], top: float, bottom: float) -> None:
        """Shades over all panels; names above, slanting levels so that they stay apart."""
        free = [0.0] * 4
        for fault in found:
            x, end = self._x(fault.begin_s), self._x(fault.end_s)
            width = max(1.5, end - x)
            colour = "#f6d5d5" if fault.end_s > fault.begin_s else "#bc4749"
            self._rect(x, top - 6, width, bottom - top + 6, colour)
            level = next((i for i, used in enumerate(free) if used <= x), None)
            if level is None:
                continue  # no room: the shade says it
            free[level] = x + 6.2 * len(fault.text) + 8
            y = top - 12 - 13 * level
            self.text(x, y, fault.text, size=11, colour="#8c2f39")

    def rates(self, found: Sequence[Bucket], top: float) -> None:
        """Acknowledged records a second."""
        greatest = max((bucket.per_s for bucket in found), default=1.0) or 1.0
        step = _round_step(greatest)
        limit = step * math.ceil(greatest / step)
        self.text(8, top - 8, "acknowledged / s", weight="bold", size=11)
        for number in range(int(limit / step) + 1):
            self._grid(top + PANEL * (1 - number * step / limit), f"{number * step:,.0f}")
        points = [(self._x(b.begin_s), top + PANEL * (1 - b.per_s / limit)) for b in found]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        first, last = points[0][0], points[-1][0]
        area = f"{first:.1f},{top + PANEL} {line} {last:.1f},{top + PANEL}"
        self._parts.append(f"<polygon points='{area}' fill='#2a6f97' fill-opacity='0.35'/>")
        self._line(points, "#2a6f97")

    def latencies(self, found: Sequence[Bucket], top: float) -> None:
        """Percentiles on a logarithmic scale."""
        took = [value for bucket in found for value in bucket.took_s]
        low = math.floor(math.log10(max(min(took, default=0.001), 0.0001)))
        high = max(math.ceil(math.log10(max(max(took, default=1.0), 0.001))), low + 1)

        def y(value_s: float) -> float:
            share = (math.log10(max(value_s, 10.0**low)) - low) / (high - low)
            return top + PANEL * (1 - share)

        self.text(8, top - 8, "latency", weight="bold", size=11)
        for power in range(low, high + 1):
            self._grid(y(10.0**power), _seconds(10.0**power))
        for number, (share, colour, name) in enumerate(PERCENTILES):
            self.text(LEFT + 40 * number, top - 8, name, size=11, colour=colour, weight="bold")
            for run in _runs(found):
                index = [min(len(b.took_s) - 1, int(share * len(b.took_s))) for b in run]
                pairs = zip(run, index, strict=True)
                self._line([(self._x(b.begin_s), y(b.took_s[i])) for b, i in pairs], colour)

    def strips(self, found: dict[int, list[tuple[View, float]]], top: float) -> None:
        """A strip for each partition."""
        self.text(8, top - 8, "leader, ISR", weight="bold", size=11)
        brokers = sorted({v.leader for views in found.values() for v, _ in views if v.leader >= 0})
        for number, broker in enumerate(brokers):
            x = float(LEFT + 90 * number)
            self._rect(x, top - 18, 12, 11, _colour(broker))
            self.text(x + 17, top - 8, f"broker {broker}", size=11)
        self._rect(LEFT + 90 * len(brokers), top - 18, 12, 11, NOBODY)
        self.text(LEFT + 90 * len(brokers) + 17, top - 8, "nobody", size=11)
        most = max((len(v.isr) for views in found.values() for v, _ in views), default=1) or 1
        for row, (partition, views) in enumerate(found.items()):
            base = top + STRIP * (row + 1) - 3
            self.text(LEFT - 6, base - 2, f"partition {partition}", size=11, anchor="end")
            for view, until_s in views:
                height = (STRIP - 4) * max(len(view.isr), 0.35) / most
                x, end = self._x(view.at_s), self._x(until_s)
                self._rect(x, base - height, max(0.5, end - x), height, _colour(view.leader))

    def times(self, y: float) -> None:
        """The scale below."""
        step = _round_step(self._end_s - self._begin_s, parts=12)
        for number in range(int((self._end_s - self._begin_s) / step) + 1):
            x = self._x(self._begin_s + number * step)
            self._parts.append(f"<path d='M{x:.1f} {y:.1f}v5' stroke='#666'/>")
            self.text(x, y + 18, f"{number * step:g} s", size=11, colour="#666", anchor="middle")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 12,
        weight: str = "normal",
        colour: str = "#222",
        anchor: str = "start",
    ) -> None:
        """Words at a place."""
        self._parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' font-weight='{weight}' "
            f"fill='{colour}' text-anchor='{anchor}'>{escape(text)}</text>"
        )

    def _x(self, at_s: float) -> float:
        share = (at_s - self._begin_s) / (self._end_s - self._begin_s)
        return LEFT + PLOT * min(1.0, max(0.0, share))

    def _grid(self, y: float, label: str) -> None:
        self._parts.append(f"<path d='M{LEFT} {y:.1f}H{WIDTH - RIGHT}' stroke='#ddd'/>")
        self.text(LEFT - 6, y + 4, label, size=11, colour="#666", anchor="end")

    def _rect(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' "
            f"fill='{colour}'/>"
        )

    def _line(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='1.4'/>"
        )


def _state(view: View) -> tuple[int, int, tuple[int, ...]]:
    return view.leader, view.leader_epoch, tuple(view.isr)


def _runs(found: Sequence[Bucket]) -> Iterator[list[Bucket]]:
    """Buckets in a row in which something was acknowledged."""
    run: list[Bucket] = []
    for bucket in found:
        if bucket.took_s:
            run.append(bucket)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _colour(broker: int) -> str:
    return NOBODY if broker < 0 else COLOURS[broker % len(COLOURS)]


def _round_step(whole: float, parts: int = 4) -> float:
    """1, 2 or 5 times a power of ten, so that about so many fit."""
    power = 10.0 ** math.floor(math.log10(max(whole / parts, 1e-9)))
    return next(power * f for f in (1, 2, 5, 10) if power * f >= whole / parts)


def _seconds(value_s: float) -> str:
    return f"{value_s:g} s" if value_s >= 1 else f"{value_s * 1000:g} ms"


def main() -> int:
    """Draw one."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.plot", description=__doc__)
    parser.add_argument("history", type=Path)
    parser.add_argument("out", type=Path, nargs="?", help="beside the history, if not given")
    arguments = parser.parse_args()
    out = arguments.out or arguments.history.with_suffix(".svg")
    try:
        picture = draw(load(arguments.history), arguments.history.stem)
    except (OSError, ValueError) as error:
        print(f"{arguments.history}: {error}", file=sys.stderr)
        return 1
    out.write_text(picture)
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
