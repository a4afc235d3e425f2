"""A whole znode tree as values, and in a form in which two clusters' trees can be compared.

Broker ids stay, and so do node versions, ephemeral flags and all data. What differs from run to run
(topic ids, the cluster's id, timestamps, addresses, zxids) is replaced by a name or left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

OF_ZOOKEEPER: Final = "/zookeeper"
ANSWER_TIMEOUT_S: Final = 30.0

Comparable = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ZNode:
    """One node; `data` is None where ZooKeeper has null."""

    data: bytes | None
    version: int
    ephemeral: bool
    czxid: int
    mzxid: int

    @property
    def json(self) -> Any:
        """The data parsed, or as text if it is no JSON."""
        if self.data is None:
            return None
        try:
            return json.loads(self.data)
        except ValueError:
            return self.data.decode(errors="backslashreplace")


Tree = dict[str, ZNode]


def read_tree(client: KazooClient) -> Tree:
    """Every node but the root and ZooKeeper's own; one that goes meanwhile is left out."""
    tree: Tree = {}
    level = [""]
    while level:
        asked = [
            (p, client.get_children_async(p or "/"), client.get_async(p or "/")) for p in level
        ]
        level = []
        for path, names, content in asked:
            try:
                data, stat = content.get(timeout=ANSWER_TIMEOUT_S)
                below = names.get(timeout=ANSWER_TIMEOUT_S)
            except NoNodeError:
                continue
            if path:
                ephemeral = stat.ephemeralOwner != 0
                tree[path] = ZNode(data, stat.version, ephemeral, stat.czxid, stat.mzxid)
            level += [f"{path}/{name}" for name in sorted(below)]
        level = [path for path in level if path != OF_ZOOKEEPER]
    return tree


class Normaliser:
    """Replaces what differs from run to run; one for all trees of a run.

    The n-th id that a topic has is called `T#n`: a topic that is made anew must get another one.
    """

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._ports = dict(ports)

    def tree(self, tree: Tree) -> Comparable:
        """The comparable form, paths in order."""
        return {
            path: {
                "data": self.data(path, node.json),
                "version": node.version,
                **({"ephemeral": True} if node.ephemeral else {}),
            }
            for path, node in sorted(tree.items())
        }

    def data(self, path: str, value: Any) -> Any:
        """The data of one node."""
        if not isinstance(value, dict):
            return value
        value = dict(value)
        if path == "/cluster/id":
            value["id"] = "CLUSTER"
        if "timestamp" in value:
            value["timestamp"] = "TIME" if isinstance(value["timestamp"], str) else "NOT TEXT"
        if "topic_id" in value:
            value["topic_id"] = self.topic_id(path.rpartition("/")[2], value["topic_id"])
        if path.startswith("/brokers/ids/"):
            if value.get("port") in self._ports:
                value["port"] = f"PORT {self._ports[value['port']]}"
            value["endpoints"] = [self.text(endpoint) for endpoint in value.get("endpoints", [])]
        return value

    def topic_id(self, topic: str, topic_id: str) -> str:
        """The name of an id that this topic has."""
        if topic_id not in self._ids:
            self._counts[topic] = self._counts.get(topic, 0) + 1
            self._ids[topic_id] = f"{topic}#{self._counts[topic]}"
        return self._ids[topic_id]

    def text(self, text: str) -> str:
        """Any text in which ids and ports may occur."""
        for topic_id, name in self._ids.items():
            text = text.replace(topic_id, name)
        for port, broker in self._ports.items():
            text = text.replace(f":{port}", f":PORT {broker}")
        return text
