"""`meta.properties` (version 0): the broker and the cluster that a data directory belongs to."""

import re
from typing import Final, NamedTuple

from ..errors import DataDirError
from ..files import FileSystem

META_PROPERTIES: Final = "meta.properties"
_PROPERTY: Final = re.compile(r"((?:\\.|[^\\:=\s])+)\s*[:=\s]\s*(.*)")


class MetaProperties(NamedTuple):
    """The owner of a data directory."""

    broker_id: int
    cluster_id: str


def render_meta_properties(meta: MetaProperties) -> bytes:
    """The file, without the comment lines that Java adds."""
    return f"version=0\nbroker.id={meta.broker_id}\ncluster.id={meta.cluster_id}\n".encode()


def read_meta_properties(files: FileSystem, path: str) -> MetaProperties | None:
    """The owner named in the file, or None if there is no file.

    Raises: DataDirError (unreadable, of a KRaft broker, or of a newer version), LogDirFailed.
    """
    data = files.read_bytes(path)
    if data is None:
        return None
    properties = _parse_properties(data.decode("latin-1"))
    version = properties.get("version", "")
    if version == "1":
        raise DataDirError(
            f"{path} has version 1, so the directory belongs to a KRaft broker, which cannot be "
            "taken over: name another directory in log.dirs"
        )
    if version.isdigit() and version != "0":
        raise DataDirError(
            f"{path} has version {version}, which a newer broker has written: use that one, or "
            "name another directory in log.dirs"
        )
    try:
        if properties["version"] != "0":
            raise ValueError
        return MetaProperties(int(properties["broker.id"]), properties["cluster.id"])
    except (KeyError, ValueError):
        raise DataDirError(
            f"{path} is unreadable: version=0, broker.id and cluster.id are expected"
        ) from None


def _parse_properties(text: str) -> dict[str, str]:
    """Parse Java properties; only one-line entries are supported."""
    properties = {}
    for line in text.splitlines():
        match = _PROPERTY.fullmatch(line.strip())
        if match and not line.lstrip().startswith(("#", "!")):
            key, value = (re.sub(r"\\(.)", r"\1", word) for word in match.groups())
            properties[key] = value.strip()
    return properties
