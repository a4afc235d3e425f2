"""Waiting in the laboratory: what a cluster at rest looks like."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from .asking import Address, metadata
from .tree import Tree

POLL_S: Final = 0.1
QUIET_S: Final = 0.5
# More at once than this between two looks is no rest: whoever has something to do stood still, too.
PROMPT_S: Final = QUIET_S / 2
TIMEOUT_S: Final = 60.0
TOPICS: Final = "/brokers/topics/"
DELETIONS: Final = "/admin/delete_topics/"
MOVES: Final = "/admin/reassign_partitions"


def live_brokers(tree: Tree) -> list[int]:
    """The ids that are registered."""
    prefix = "/brokers/ids/"
    return sorted(int(path.removeprefix(prefix)) for path in tree if path.startswith(prefix))


def missing_in_tree(tree: Tree) -> list[str]:
    """Partitions without a state, without a leader they could have, or without a full ISR.

    A full ISR holds the live replicas and no other. Exempt are partitions of which no member of
    the ISR lives, and topics that are being deleted. What a controller has begun it must have done:
    deletions and moves of which all replicas live.
    """
    live = set(live_brokers(tree))
    missing = [] if "/controller" in tree else ["nobody is the controller"]
    missing += ["moves are asked for"] if MOVES in tree else []
    for path, node in tree.items():
        topic = path.removeprefix(TOPICS)
        if not path.startswith(TOPICS) or "/" in topic:
            continue
        if not isinstance(node.json, dict) or "partitions" not in node.json:
            continue  # somebody wrote nonsense, which no cluster will ever lead
        if DELETIONS + topic in tree:
            all_live = all(live >= {*replicas} for replicas in node.json["partitions"].values())
            missing += [f"{topic} is being deleted"] if all_live else []
            continue
        for partition, replicas in node.json["partitions"].items():
            if live >= {*replicas} and _is_moving(node.json, partition):
                missing.append(f"{topic}-{partition} is being moved")
            state = tree.get(f"{path}/partitions/{partition}/state")
            if state is None:
                missing += [f"{topic}-{partition} has no state"] if live & {*replicas} else []
                continue
            leader, isr = state.json["leader"], {*state.json["isr"]}
            if isr & live and (leader not in live or isr != live & {*replicas}):
                missing.append(f"{topic}-{partition} leader={leader} isr={isr} of {replicas}")
    return missing


def _is_moving(topic: Mapping[str, Any], partition: str) -> bool:
    changes = (topic.get(f"{what}_replicas", {}) for what in ("adding", "removing"))
    return any(partition in change for change in changes)


def missing_in_metadata(tree: Tree, addresses: Mapping[int, Address]) -> list[str]:
    """What live brokers' Metadata does not say yet, compared with the tree and one another."""
    live = live_brokers(tree)
    missing: list[str] = []
    seen: list[dict[str, Any]] = []
    for broker in live:
        try:
            seen.append(metadata(addresses[broker]))
        except OSError as error:
            return [f"broker {broker} does not answer Metadata: {error}"]
        missing += [f"broker {broker}: {what}" for what in _stale(seen[-1], tree, live)]
        if seen[-1] != seen[0]:
            missing.append(f"brokers {live[0]} and {broker} differ in their Metadata")
    return missing


def _stale(seen: dict[str, Any], tree: Tree, live: Iterable[int]) -> list[str]:
    stale = []
    if seen["brokers"] != list(live):
        stale.append(f"knows brokers {seen['brokers']}")
    controller = tree.get("/controller")
    if controller is not None and seen["controller"] != controller.json["brokerid"]:
        stale.append(f"believes in controller {seen['controller']}")
    for path, node in tree.items():
        if not path.startswith(TOPICS) or not path.endswith("/state"):
            continue
        topic, _, partition = path.removeprefix(TOPICS).removesuffix("/state").split("/")
        if DELETIONS + topic in tree or node.json["leader"] not in live:
            continue
        known = seen["topics"].get(topic, {}).get(partition, {})
        for key in ("leader", "leader_epoch", "isr"):
            if known.get(key) != node.json[key]:
                stale.append(
                    f"{topic}-{partition} has {key} {known.get(key)}, not {node.json[key]}"
                )
    return stale


def settle(
    read: Callable[[], Tree],
    addresses: Mapping[int, Address],
    brokers: Collection[int],
    *,
    quiet_s: float = QUIET_S,
    timeout_s: float = TIMEOUT_S,
) -> tuple[Tree, list[str]]:
    """Wait until all ISRs are full, every broker's Metadata says so, and the tree rests.

    `brokers` are those that must be registered.  Returns the tree, and what was still missing when
    the deadline passed (empty: all is well).
    """
    deadline = time.monotonic() + timeout_s
    looked_at, before, rested_s = time.monotonic(), None, 0.0
    missing = ["nothing was looked at"]
    while True:
        tree = read()
        now = time.monotonic()
        rested_s = rested_s + min(now - looked_at, PROMPT_S) if tree == before else 0.0
        looked_at, before = now, tree
        live = live_brokers(tree)
        missing = [f"broker {broker} is not registered" for broker in brokers if broker not in live]
        missing += missing_in_tree(tree)
        if rested_s >= quiet_s and not missing:
            missing = missing_in_metadata(tree, addresses)
            if time.monotonic() - now > PROMPT_S:
                rested_s = 0.0  # a broker that was so slow to answer may have more to do
            if not missing and rested_s >= quiet_s:
                return tree, []
        if now > deadline:
            return tree, missing or ["the tree does not rest"]
        time.sleep(POLL_S)
