"""`python -m tests.lab.record`: do the operations to Apache Kafka 3.9.2 and keep what was seen.

With `--check` nothing is written: exit code 1 if Kafka differs from what is kept.  With
`--kind odradek` the same is asked of Odradek.
"""

import argparse
import sys
import time
from pathlib import Path

from .script import Outcome, run_all
from .vectors import VECTORS, changes, differences, load, save


def main() -> int:
    """Run; print a line an operation and every difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.record", description=__doc__)
    parser.add_argument("--kind", choices=("kafka", "odradek"), default="kafka")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--folder", type=Path, default=VECTORS, help="where the vectors are")
    parser.add_argument("--directory", type=Path, help="the cluster's files, kept afterwards")
    parser.add_argument("--keep-going", action="store_true", help="also after an operation failed")
    arguments = parser.parse_args()
    begin_s = time.monotonic()

    def tell(outcome: Outcome) -> None:
        took_s = time.monotonic() - begin_s
        print(f"{took_s:6.1f} s  {outcome.operation}", outcome.error or "", flush=True)
        for moment in outcome.moments:
            for what in moment.unsettled:
                print(f"          {moment.name}: {what}", flush=True)

    outcomes = run_all(
        arguments.kind,
        directory=arguments.directory,
        tell=tell,
        keep_going=arguments.keep_going,
    )
    recorded = changes(outcomes)
    if arguments.check:
        kept = load(arguments.folder)
        found = {name: differences(kept[name], recorded.get(name, {})) for name in kept}
        for name, lines in found.items():
            print("\n".join(f"{name}: {line}" for line in lines), end="\n" if lines else "")
        return int(any(found.values()))
    if any(outcome.error for outcome in outcomes):
        return 1
    save(recorded, arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
