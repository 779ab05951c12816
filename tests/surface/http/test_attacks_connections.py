"""Attacks on connections: without a key, without an end, without a reader."""

from __future__ import annotations

import asyncio

import pytest

from tests.rigs.team import CHANNEL, LiveServer, with_server

PLACE = f"/channels/{CHANNEL}/messages"


@with_server
async def test_without_a_valid_key_no_body_is_read(server: LiveServer) -> None:
    # A60: 256 KiB but one byte, on many connections, with no key, a wrong one, or where no key is needed
    alice = await server.client("alice")
    for head, status in (
        (f"POST /api/v1{PLACE}", 401),
        (f"POST /api/v1{PLACE} HTTP/1.1\r\nX-API-Key: nonsense", 401),
        ("POST /healthz", 405),
        ("GET /healthz", 413),
        ("POST /nowhere", 404),
    ):
        line = head if "HTTP/1.1" in head else f"{head} HTTP/1.1"
        connection = await alice.connect()
        connection.writer.write(f"{line}\r\nHost: localhost\r\nContent-Length: 262144\r\n\r\n".encode() + b"x" * 1000)
        answer = (await connection.reader.readuntil(b"\r\n\r\n")).decode()

        assert int(answer.split(" ")[1]) == status, head
        assert "connection: close" in answer.lower()
        await connection.close()


@with_server
async def test_a_request_that_is_refused_at_its_head_is_one_failed_login(server: LiveServer) -> None:
    # A6
    statuses = []
    for _ in range(11):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.listener.port)
        writer.write(b"POST /api/v1/intents HTTP/1.1\r\nHost: localhost\r\nX-API-Key: no\r\nContent-Length: 9\r\n\r\n")
        statuses.append(int((await reader.readuntil(b"\r\n")).split(b" ")[1]))
        writer.close()

    assert statuses == [401] * 10 + [429]


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/schemas", "/schemas/Intent.json"])
@with_server
async def test_what_needs_no_key_is_rendered_once(
    server: LiveServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A60: the cost of a request without a key
    alice = await server.client("alice")
    first = await alice.request("GET", path)

    def again(*_: object) -> bytes:
        raise AssertionError("rendered twice")

    monkeypatch.setattr("parley.surfaces.http.docs_page.page", again)
    monkeypatch.setattr("parley.surfaces.http.routes.system.encode", again)

    second = await alice.request("GET", path)
    assert (second.status, second.body) == (first.status, first.body) == (200, first.body)


@pytest.mark.requirement("CHAN-HALF-CLOSED")
@with_server
async def test_twenty_posts_of_a_client_that_stops_sending_are_answered(server: LiveServer) -> None:
    # A60: half-closed sockets, as `nc -N` makes them
    alice = await server.client("alice")
    body = b'{"payload":{}}'
    head = (
        f"POST /api/v1{PLACE} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {alice.headers['X-API-Key']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.listener.port)
    writer.write((head + body) * 20)
    writer.write_eof()
    answers = await reader.read()
    writer.close()

    assert answers.count(b"HTTP/1.1 201 ") == 20
    assert len((await alice.get(PLACE)).json) == 20
