"""One broker, or a client, that is ended again and again, while something goes on.

`kill_again_and_again` owns the loop: the seed, the moment of each kill, the restart.  What goes on,
and what must hold, is a `Workload`:

    class Counting(Workload):
        def approach(self, chance):        # until a kill can show something
            wait_for_acks(self.server, self.load, more=1)
            return 0.4                     # within so many seconds it falls

        def finish(self):                  # in the end, all that was acknowledged is there
            self.load.finish()
            assert set(self.load.acked) <= set(numbers_in(...))

    @repeated(in_test=4, in_soak=100)
    def test_nothing_is_lost(start_server, repeats):
        server = start_server()
        kill_again_and_again(server, Counting(server), repeats)
"""

import random
import threading
from collections.abc import Sequence
from typing import Final, Protocol, Self

from tests.kafka.apache import ApacheKafka
from tests.seeds import Repeats

# It needs seconds for each restart: two show that a test is right.
KILLS_OF_KAFKA: Final = 2


class Victim(Protocol):
    """What is killed with SIGKILL, and started again: a broker, or clients."""

    @property
    def alive(self) -> bool: ...
    @property
    def output(self) -> str: ...

    def kill(self) -> None: ...
    def start(self) -> None: ...


class Stoppable(Victim, Protocol):
    """What can also be ended as it should be."""

    def stop(self) -> None: ...


class Stopped:
    """Is stopped instead of being killed."""

    def __init__(self, victim: Stoppable) -> None:
        self._victim = victim
        self.kill = victim.stop
        self.start = victim.start

    @property
    def alive(self) -> bool:
        return self._victim.alive

    @property
    def output(self) -> str:
        return self._victim.output


class InTurn:
    """Several, of which the next one is killed each time."""

    def __init__(self, victims: Sequence[Victim]) -> None:
        self._victims = victims
        self._kills = 0

    @property
    def alive(self) -> bool:
        return all(victim.alive for victim in self._victims)

    @property
    def output(self) -> str:
        return "".join(victim.output for victim in self._victims)

    def kill(self) -> None:
        self._kills += 1
        self._last.kill()

    def start(self) -> None:
        self._last.start()

    @property
    def _last(self) -> Victim:
        return self._victims[(self._kills - 1) % len(self._victims)]


class Workload:
    """What goes on while a broker is killed; it begins with the `with`, and is over after it."""

    def approach(self, chance: random.Random) -> float:
        """Return when a kill can show something; in how many seconds from then at most it falls."""
        raise NotImplementedError

    def killed(self) -> None:
        """The broker is down: note what it had answered, look at what it has left."""

    def check(self) -> None:
        """The broker is up again: what had been acknowledged is there."""

    @property
    def has_seen_enough(self) -> bool:
        """Whether kills fell where they were meant to; if not, more follow."""
        return True

    def finish(self) -> None:
        """After the last restart: let it come to its end, then check everything."""
        raise NotImplementedError

    def close(self) -> None:
        """End what runs, however far it has come."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kill_again_and_again(victim: Victim, workload: Workload, repeats: Repeats) -> None:
    """Kill what is running `repeats.count` times, and start it again each time.

    What fails carries the seed and the number of the kill.
    """
    chance, moment, kills = random.Random(repeats.seed), threading.Event(), 0
    wanted = repeats.count
    if isinstance(victim, ApacheKafka):
        wanted = min(wanted, KILLS_OF_KAFKA)
    with workload:
        try:
            while kills < wanted or not workload.has_seen_enough:
                window_s = workload.approach(chance)
                # Not a wait for something: the moment itself is what is random.
                moment.wait(chance.uniform(0.0, window_s))
                assert victim.alive, victim.output
                victim.kill()
                kills += 1
                workload.killed()
                victim.start()
                workload.check()
            workload.finish()
        except BaseException as error:
            error.add_note(f"{repeats}, after {kills} of {wanted} kills")
            raise
