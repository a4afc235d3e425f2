"""JSON documents that jobs keep beside their data, readable by people, too."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .errors import PipelineError
from .files import Folder


def encode(document: Mapping[str, Any]) -> bytes:
    """The bytes of a document."""
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


@contextmanager
def document_of(files: Folder, path: str, version: int) -> Iterator[Any]:
    """Read a document of a version; the block takes it apart.

    Raises: PipelineError, which names the file, also for a ValueError, KeyError or TypeError in the
    block.
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
