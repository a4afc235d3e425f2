"""What a simulated event loop does not offer: real sockets, pipes, processes, signals and threads.

Each refusal says what to use instead, so that production code which strays from the portable path
is found at its first call and not by a trace that differs.
"""

import asyncio
from typing import Any, NoReturn


class Refused(NotImplementedError):
    """Code under simulation asked for something that only a real machine has."""


def _refuse(name: str, instead: str) -> Any:
    def refuse(_self: object, *_args: object, **_kwargs: object) -> NoReturn:
        raise Refused(f"the simulated loop has no {name}(): {instead}")

    refuse.__name__ = name
    return refuse


_TRANSPORTS = "use transports (create_server, create_connection), the broker's portable path"
_FILES = "read the file and write to the transport, as the broker's portable path does"
_OFFLOAD = "enter threads and processes through offload()"
_SIGNALS = "signals belong to the command line, stop the broker by a call"
_NAMES = "hosts are plain names here"


class RefusingLoop(asyncio.AbstractEventLoop):
    """Every part of asyncio's loop that needs the operating system, refused with a sentence."""

    add_reader = _refuse("add_reader", _TRANSPORTS)
    remove_reader = _refuse("remove_reader", _TRANSPORTS)
    add_writer = _refuse("add_writer", _TRANSPORTS)
    remove_writer = _refuse("remove_writer", _TRANSPORTS)
    sock_recv = _refuse("sock_recv", _TRANSPORTS)
    sock_recv_into = _refuse("sock_recv_into", _TRANSPORTS)
    sock_recvfrom = _refuse("sock_recvfrom", _TRANSPORTS)
    sock_recvfrom_into = _refuse("sock_recvfrom_into", _TRANSPORTS)
    sock_sendto = _refuse("sock_sendto", _TRANSPORTS)
    sock_sendall = _refuse("sock_sendall", _TRANSPORTS)
    sock_connect = _refuse("sock_connect", _TRANSPORTS)
    sock_accept = _refuse("sock_accept", _TRANSPORTS)
    connect_accepted_socket = _refuse("connect_accepted_socket", _TRANSPORTS)
    create_unix_connection = _refuse("create_unix_connection", _TRANSPORTS)
    create_unix_server = _refuse("create_unix_server", _TRANSPORTS)
    create_datagram_endpoint = _refuse("create_datagram_endpoint", _TRANSPORTS)
    start_tls = _refuse("start_tls", "connections here are plain")
    sendfile = _refuse("sendfile", _FILES)
    sock_sendfile = _refuse("sock_sendfile", _FILES)
    connect_read_pipe = _refuse("connect_read_pipe", _TRANSPORTS)
    connect_write_pipe = _refuse("connect_write_pipe", _TRANSPORTS)
    subprocess_shell = _refuse("subprocess_shell", _OFFLOAD)
    subprocess_exec = _refuse("subprocess_exec", _OFFLOAD)
    run_in_executor = _refuse("run_in_executor", _OFFLOAD)
    set_default_executor = _refuse("set_default_executor", _OFFLOAD)
    getaddrinfo = _refuse("getaddrinfo", _NAMES)
    getnameinfo = _refuse("getnameinfo", _NAMES)
    add_signal_handler = _refuse("add_signal_handler", _SIGNALS)
    remove_signal_handler = _refuse("remove_signal_handler", _SIGNALS)
    set_task_factory = _refuse("set_task_factory", "tasks belong to nodes")
