"""Deliberate bugs: each is a patch of production code, known by its name."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

Make = Callable[[ExitStack], None]
"""Puts the patches of a bug in force, until the stack is closed."""


class Mutants(dict[str, Callable[[], AbstractContextManager[None]]]):
    """Bugs by name.  None of them may be in force while another one is."""

    def add(self, make: Make) -> Make:
        """Decorate a function: the bug has its name, without the leading underscore."""

        @contextlib.contextmanager
        def mutated() -> Iterator[None]:
            with ExitStack() as patches:
                make(patches)
                yield

        self[make.__name__.strip("_")] = mutated
        return make


def put(patches: ExitStack, owner: Any, name: str, new: Any) -> Any:
    """Patch one attribute; return what it was."""
    old = owner.__dict__[name]
    patches.enter_context(mock.patch.object(owner, name, new))
    return old


def nothing(*args: Any, **options: Any) -> None:
    """Do nothing."""
