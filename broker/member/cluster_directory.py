"""Whether a directory belongs to one broker, or to several that run in one process."""

import os
import re
from typing import Final

META_PROPERTIES: Final = "meta.properties"
_BROKER_DIRECTORY: Final = re.compile(r"broker-(\d+)")


def is_of_one_broker(directory: str) -> bool:
    """Whether it is the log directory of a broker."""
    return os.path.exists(os.path.join(directory, META_PROPERTIES))


def brokers_in(directory: str) -> list[int]:
    """The ids of the brokers that have files below a cluster's directory."""
    try:
        names = os.listdir(directory)
    except OSError:  # it does not exist yet, or the code that opens it reports what is wrong
        return []
    found = [match for match in map(_BROKER_DIRECTORY.fullmatch, names) if match]
    marks = (os.path.join(directory, match[0], META_PROPERTIES) for match in found)
    return sorted(int(m[1]) for m, mark in zip(found, marks, strict=True) if os.path.exists(mark))
