"""The rules in force, for all brokers of a process.

Most tests have none, so the code of rules is imported where it is needed: `rule.py` and
`matching.py` with the first one, `carrying.py` with the first request that one acts on.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from .seen import Seen

if TYPE_CHECKING:
    from .matching import Fault, Plan
    from .rule import Rule

FAULTS_MAX: Final = 1000
SEED_BITS: Final = 31


class Faults:
    """Rules in the order in which they were added."""

    def __init__(self, random_bits: Callable[[int], int]) -> None:
        """`random_bits(n)` gives a seed of n bits to rules that have none."""
        self._random_bits = random_bits
        self._faults: dict[str, Fault] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._faults)

    def add(self, rule: "Rule") -> "Fault":
        """Put a rule in force, after all others.  Raises: BadRule."""
        from .matching import Fault
        from .rule import BadRule

        if len(self._faults) >= FAULTS_MAX:
            raise BadRule(f"there are {FAULTS_MAX} rules already: remove some")
        self._count += 1
        fault = Fault(f"f{self._count}", rule, self._random_bits(SEED_BITS))
        self._faults[fault.id] = fault
        return fault

    def get(self, fault_id: str) -> "Fault | None":
        """The rule with this id, if it is in force."""
        return self._faults.get(fault_id)

    def all(self) -> Iterable["Fault"]:
        """All rules, in order."""
        return list(self._faults.values())

    def remove(self, fault_id: str) -> "Fault | None":
        """End a rule; None if there is none with this id."""
        return self._faults.pop(fault_id, None)

    def clear(self) -> None:
        """End all rules."""
        self._faults.clear()

    def plan(self, seen: Seen) -> "Plan | None":
        """What the rules do to a request; None: nothing."""
        if not self._faults:
            return None
        from .matching import plan_for

        return plan_for(self._faults.values(), seen)
