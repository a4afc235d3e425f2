"""What a request costs grows with the number of its elements, not with the square of it.

Such a request would keep everybody waiting for hours. Most requests here name what does not exist:
what costs much only with groups, transactions or ACLs is not found.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.handlers import APIS, TRANSACTIONS_V2, Api
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from tests.support.certificates import Certificates
from tests.support.connections import RawConnection
from tests.support.frames import framed, request_bytes
from tests.support.messages import creatable

from .large import TOPICS, Large, paths_of_arrays
from .target import HOST, Target, attacked

ELEMENTS: Final = 4_000
TIMES: Final = 5
TIMES_MAX: Final = 10
"""How much more of the processor's time TIMES as many elements may cost; the square is 25."""
SLACK_S: Final = 0.25
"""A collection of garbage, and what is measured in hundredths of a second."""
ANSWER_TIMEOUT_S: Final = 300.0
SETTINGS: Final = {"auto.create.topics.enable": "false"}


def cost_s(target: Target, body: bytes) -> float:
    """How long the broker computes until it answers, or hangs up."""
    before_s = target.cpu_s
    connection = RawConnection(HOST, target.plain_port)
    with connection.socket as sock:
        sock.settimeout(ANSWER_TIMEOUT_S)
        sock.sendall(body)
        sock.recv(1)
    return target.cpu_s - before_s


def make_topics(target: Target) -> None:
    """Make the topics that requests name: earlier ones may have deleted them."""
    topics = [creatable(name, 2) for name in TOPICS]
    connection = RawConnection(HOST, target.plain_port)
    with connection.socket:
        connection.exchange(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)


def requests(api: Api, count: int) -> Iterator[tuple[str, bytes]]:
    """Requests of an API in its first and last version, with a name for each."""
    for version in sorted({api.first, api.last_with(TRANSACTIONS_V2)}):
        for path in paths_of_arrays(api.request, version):
            for are_equal in (False, True):
                name = f"v{version} {'.'.join(path)}{' of equals' if are_equal else ''}"
                request = Large(version, path, count, are_equal).make(api.request)
                yield name, framed(request_bytes(request, version))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_request_costs_what_its_elements_cost(tmp_path: Path, certificates: Certificates) -> None:
    too_much = []
    with attacked(tmp_path, certificates, SETTINGS) as target:
        for api in APIS.values():
            make_topics(target)
            few, many = requests(api, ELEMENTS), requests(api, TIMES * ELEMENTS)
            for (name, small), (_, large) in zip(few, many, strict=True):
                small_s = cost_s(target, small)
                target.longest_turn_ms()  # from now on
                large_s = cost_s(target, large)
                told = f"{api.name} {name}: {small_s:.2f} s, {large_s:.2f} s"
                print(f"{told}, longest turn {target.longest_turn_ms():.0f} ms")
                if large_s > TIMES_MAX * small_s + SLACK_S:
                    too_much.append(told)
    assert not too_much
