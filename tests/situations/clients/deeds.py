"""What the client programs in Python have in common: they read deeds, and say what became of each.

A line of stdin is a deed and the rules for it, parted by tabs; a line of stdout is the outcome.
"""

import sys
import urllib.request
from collections.abc import Callable, Mapping
from typing import Final

VALUES: Final = (b"0", b"1", b"2")
"""What producers write, and consumers wait for."""
TIMEOUT_S: Final = 20
"""The longest that a deed may take, for each of its waits."""

Deed = Callable[[str], str]
"""It gets the bootstrap servers and returns `done`, with what it has read.  Raises: on failure."""


def add_rule(admin_url: str, rule: str) -> None:
    """Make a rule, given as JSON."""
    headers = {"Content-Type": "application/json"}
    url = f"{admin_url}/admin/v1/faults"
    urllib.request.urlopen(urllib.request.Request(url, rule.encode(), headers)).close()


def serve(deeds: Mapping[str, Deed], code_of: Callable[[Exception], object]) -> None:
    """Do what stdin asks for; `code_of` tells Kafka's error code, or a name of the client's."""
    servers, admin_url = sys.argv[1:]
    for line in sys.stdin:
        deed, *rules = line.rstrip("\n").split("\t")
        for rule in rules:
            add_rule(admin_url, rule)
        try:
            outcome = deeds[deed](servers)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            print(repr(error), file=sys.stderr)
            outcome = f"failed {code_of(error)}"
        print(outcome, flush=True)
