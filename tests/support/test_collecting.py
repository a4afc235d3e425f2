"""What is looked up among all objects."""

import weakref

from .collecting import objects_of


class Kind:
    pass


class Part(Kind):
    pass


def test_objects_are_found_beside_a_proxy_of_one_that_is_gone() -> None:
    found = Part()
    gone = Kind()
    proxy = weakref.proxy(gone)
    del gone
    assert objects_of(Kind) == [found]
    del proxy
