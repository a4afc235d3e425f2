"""One broker that is killed with SIGKILL again and again, while something goes on.

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
from typing import Final, Self

from tests.seeds import Repeats
from tests.wire.servers import OdradekServer, Server

# It needs seconds for each restart: two show that a test is right.
KILLS_OF_KAFKA: Final = 2


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


def kill_again_and_again(server: Server, workload: Workload, repeats: Repeats) -> None:
    """Kill the running broker `repeats.count` times, and start it again each time.

    What fails carries the seed and the number of the kill.
    """
    chance, moment, kills = random.Random(repeats.seed), threading.Event(), 0
    wanted = repeats.count
    if not isinstance(server, OdradekServer):
        wanted = min(wanted, KILLS_OF_KAFKA)
    with workload:
        try:
            while kills < wanted or not workload.has_seen_enough:
                window_s = workload.approach(chance)
                # Not a wait for something: the moment itself is what is random.
                moment.wait(chance.uniform(0.0, window_s))
                assert server.alive, server.output
                server.kill()
                kills += 1
                workload.killed()
                server.start()
                workload.check()
            workload.finish()
        except BaseException as error:
            error.add_note(f"{repeats}, after {kills} of {wanted} kills")
            raise
