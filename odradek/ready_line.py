"""The line that a process prints once its brokers serve; its parent waits for it."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.server import Broker


def ready_line(brokers: "Sequence[Broker]", data_dir: str) -> str:
    """`odradek ready: PROTOCOL://HOST:PORT[,…] broker=N data=DIR startup_ms=M`.

    With several brokers it has `brokers=N,N+1,…`, in the order of the addresses.
    """
    addresses = ",".join(_address(broker) for broker in brokers)
    word = "broker" if len(brokers) == 1 else "brokers"
    broker_ids = ",".join(str(broker.broker_id) for broker in brokers)
    return (
        f"odradek ready: {addresses} {word}={broker_ids} data={data_dir}"
        f" startup_ms={_process_age_ms()}"
    )


def admin_line(url: str) -> str:
    """The line about the admin API, which follows the ready line."""
    return f"odradek admin: {url}"


def brokers_line(broker_id: int, admin_url: str, *, has_token: bool) -> str:
    """How to end and start single brokers of a process, such as this one.

    `admin_url` is empty if there is no admin API.
    """
    if not admin_url:
        return "odradek brokers: --admin 127.0.0.1:0 lets you stop, kill and start single ones"
    options = ' -H "Authorization: Bearer $TOKEN"' if has_token else ""
    base = admin_url
    if not admin_url.startswith("http"):
        options += f" --unix-socket {admin_url.removeprefix('unix:')}"
        base = "http://localhost/"
    return (
        f"odradek brokers: curl{options} --json '{{}}' {base}admin/v1/brokers/{broker_id}/stop"
        " (or kill, start, pause, resume)"
    )


def _address(broker: "Broker") -> str:
    config = broker.config
    protocol = config.security_protocols[config.advertised_endpoints[0].name]
    return f"{protocol}://{bracketed(broker.host)}:{broker.port}"


def bracketed(host: str) -> str:
    """The host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def _process_age_ms() -> int:
    """Time since the kernel started this process; without /proc, its CPU time."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return round(time.process_time() * 1000)
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return max(0, round((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * 1000))
