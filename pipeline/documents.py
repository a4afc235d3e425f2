"""JSON documents that jobs keep beside their data: people can read them, too."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .errors import PipelineError
from .files import Files


def encode(document: Mapping[str, Any]) -> bytes:
    """As it is written."""
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


@contextmanager
def document_of(files: Files, path: str, version: int) -> Iterator[Any]:
    """A document of a version, for a block that takes it apart.

    Raises: PipelineError, which names the file, also for what the block does not find in it.
    """
    data = files.read(path)
    try:
        document = json.loads(data)
        if document["version"] != version:
            raise ValueError(f"version {document['version']} is not known here")
        yield document
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(
            f"{files.absolute(path)} cannot be read ({error!r}): a newer Odradek may have written "
            "it, or it is damaged; use that version, or restore the file"
        ) from error
