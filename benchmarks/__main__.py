"""`python -m benchmarks`: compare Odradek with Apache Kafka 4.3.1 on this machine.

Prints a table; writes JSON and a picture to `benchmarks/results/`, which git ignores.
"""

import argparse
import dataclasses
import json
import signal
import sys
import time
from pathlib import Path
from typing import Final

from tests.kafka.jars import JarsMissing, fetch

from . import picture, report, rounds
from .brokers import Kind
from .measure import FULL, QUICK
from .measures import NAMES, all_measures
from .programs import KAFKA_VERSION
from .stage import RunStage

RESULTS: Final = Path(__file__).parent / "results"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, help="counted rounds (5; quick: 3)")
    parser.add_argument("--only", action="append", choices=NAMES, help="may be given repeatedly")
    parser.add_argument("--quick", action="store_true", help="less work: for a first look")
    parser.add_argument("--json", type=Path, default=RESULTS / "bench.json", metavar="FILE")
    parser.add_argument("--picture", type=Path, default=RESULTS / "bench.svg", metavar="FILE")
    parser.add_argument(
        "--brokers",
        nargs="+",
        type=Kind,
        choices=[Kind.KAFKA, Kind.ODRADEK],
        default=[Kind.KAFKA, Kind.ODRADEK],
        help="measure only some of them",
    )
    parser.add_argument("--directory", type=Path, help="where the brokers' files go meanwhile")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run and report; 1 when a measurement failed."""
    given = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the brokers end with us
    try:
        fetch(KAFKA_VERSION)
    except JarsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    scale = QUICK if given.quick else FULL
    if given.rounds:
        scale = dataclasses.replace(scale, rounds=given.rounds, ready_rounds=given.rounds)
    measures = [m for m in all_measures() if not given.only or m.name in given.only]
    began = time.monotonic()
    with RunStage(scale, given.directory) as stage:
        kinds = frozenset([*given.brokers, Kind.FLOOR])
        outcomes = rounds.run(measures, stage, kinds, lambda line: print(line, flush=True))
    took_s = time.monotonic() - began
    for path in (given.json, given.picture):
        path.parent.mkdir(parents=True, exist_ok=True)
    results = report.as_json(outcomes, quick=given.quick, took_s=took_s)
    given.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    given.picture.write_text(picture.draw(outcomes))
    print(f"\n{report.table(outcomes)}\n\n{took_s / 60:.1f} minutes; {given.json}, {given.picture}")
    return 1 if any(outcome.problems for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
