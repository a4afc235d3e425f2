"""An admin API without brokers, and raw HTTP to it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, cast

import jsonschema

from odradek.broker.admin_api.controls import Controls
from odradek.broker.admin_api.openapi import document
from odradek.broker.admin_api.routes import PREFIX, all_routes, find
from odradek.broker.admin_api.schemas import ERROR
from odradek.broker.admin_api.server import AdminServer
from odradek.broker.settings.admin import AdminAddress

HOST = "127.0.0.1"
DOCUMENT = document(all_routes(), PREFIX)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    content: Any


class NoBrokers:
    """What stands for the brokers where none is touched."""

    def __init__(self) -> None:
        self.broker_ids: list[int] = []
        self.brokers: dict[int, Any] = {}


@contextlib.asynccontextmanager
async def served(
    *,
    running: Any = None,
    runtime: Any = None,
    token: str = "",
    address: AdminAddress | None = None,
) -> AsyncIterator[AdminServer]:
    runtime = runtime or getattr(running, "_runtime", None)
    controls = Controls(running=running or cast(Any, NoBrokers()), runtime=runtime)
    server = AdminServer(address or AdminAddress(HOST), token, controls)
    await server.open()
    try:
        yield server
    finally:
        await server.close()


async def connect(server: AdminServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if server.address.path:
        return await asyncio.open_unix_connection(server.address.path)
    return await asyncio.open_connection(HOST, server.address.port)


async def ask(
    server: AdminServer,
    method: str = "GET",
    path: str = "/admin/v1/openapi.json",
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> Reply:
    """One request on a connection of its own; a header that is empty is left out.

    The answer must be as the OpenAPI document says.
    """
    all_headers = {"Host": "localhost", "Connection": "close"}
    if method == "POST":
        all_headers |= {"Content-Type": "application/json"}
    if body:
        all_headers |= {"Content-Length": str(len(body))}
    all_headers |= headers or {}
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in all_headers.items() if value]
    reply = await send(server, "\r\n".join([*lines, "", ""]).encode() + body)
    if method != "HEAD":
        check(method, path, reply)
    return reply


async def post(server: AdminServer, path: str, **fields: Any) -> Reply:
    return await ask(server, "POST", f"/admin/v1/{path}", body=json.dumps(fields).encode())


async def get(server: AdminServer, path: str) -> Reply:
    return await ask(server, "GET", f"/admin/v1/{path}")


def check(method: str, path: str, reply: Reply) -> None:
    """Compare an answer with the document."""
    if reply.status >= 400:
        jsonschema.validate(reply.content, ERROR)
        return
    route, _ = find(method, path.partition("?")[0])
    operation = DOCUMENT["paths"][PREFIX + route.template][method.lower()]
    answer = operation["responses"][str(reply.status)]["content"]["application/json"]
    jsonschema.validate(reply.content, answer["schema"])


async def send(server: AdminServer, data: bytes) -> Reply:
    """Send bytes, and read the answer until the connection ends."""
    reader, writer = await connect(server)
    try:
        writer.write(data)
        return reply_in(await reader.read())
    finally:
        writer.close()


def reply_in(data: bytes) -> Reply:
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(int(status.split(" ")[1]), headers, json.loads(body) if body else None)
