"""Attacks in many variants: bytes that could be read as two requests, names of hosts, fields of a message, addresses.

Each table holds what was tried and what may come of it. Nothing in them may be stored, delivered or reached.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from parley.adapters.outside.outbound import HttpOutbound
from tests.conformance.ocip.governed import MESSAGES, inbox, pair, put_policy, tell
from tests.rigs.team import LiveServer, with_server
from tests.surface.http.attack import refusal

BODY = b'{"to":"bob","payload":{"a":1}}'
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
SECOND = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

# The head of a POST goes before each of these. None of them is a request, whatever a proxy before the server thinks.
NO_REQUESTS = {
    "a length twice over": b"Content-Length: 30, 30\r\n\r\n" + BODY,
    "a length with a sign": b"Content-Length: +30\r\n\r\n" + BODY,
    "a length in hexadecimal": b"Content-Length: 0x1e\r\n\r\n" + BODY,
    "a negative length": b"Content-Length: -1\r\n\r\n" + BODY,
    "a length with a space in it": b"Content-Length: 3 0\r\n\r\n" + BODY,
    "a length with an underscore": b"Content-Length: 3_0\r\n\r\n" + BODY,
    "an empty length": b"Content-Length: \r\n\r\n" + BODY,
    "a length in full-width digits": "Content-Length: \uff13\uff10\r\n\r\n".encode() + BODY,
    "a length on the next line": b"Content-Length:\r\n 30\r\n\r\n" + BODY,
    "a length and chunks": b"Content-Length: 5\r\n" + CHUNKED + b"0\r\n\r\n" + SECOND,
    "chunks twice": b"Transfer-Encoding: chunked\r\n" + CHUNKED + b"1e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "chunks of chunks": b"Transfer-Encoding: chunked, chunked\r\n\r\n1e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a coding that is none": b"Transfer-Encoding: xchunked\r\n\r\n1e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a coding in quotes": b'Transfer-Encoding: "chunked"\r\n\r\n1e\r\n' + BODY + b"\r\n0\r\n\r\n",
    "a coding with a control character": b"Transfer-Encoding: \x0bchunked\r\n\r\n1e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n1e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size with 0x": CHUNKED + b"0x1e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size with a sign": CHUNKED + b"+1e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size with an underscore": CHUNKED + b"1_e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "no chunk size": CHUNKED + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk size of 17 digits": CHUNKED + b"1000000000000001e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a line end within a chunk extension": CHUNKED + b'1e;a="x\ny"\r\n' + BODY + b"\r\n0\r\n\r\n",
    "a chunk size that ends with LF": CHUNKED + b"1e\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk that ends with LF": CHUNKED + b"1e\r\n" + BODY + b"\n0\r\n\r\n",
    "a chunk that goes on": CHUNKED + b"1e\r\n" + BODY + b"XX0\r\n\r\n",
    "an end of chunks with LF": CHUNKED + b"1e\r\n" + BODY + b"\r\n0\n\n",
    "a trailer with LF": CHUNKED + b"1e\r\n" + BODY + b"\r\n0\r\nA: b\nC: d\r\n\r\n",
    "a request as a trailer": CHUNKED + b"1e\r\n" + BODY + b"\r\n0\r\nGET /healthz HTTP/1.1\r\n\r\n",
    "a name with a space": b"X Y: 1\r\nContent-Length: 30\r\n\r\n" + BODY,
    "a value with NUL": b"X: a\x00b\r\nContent-Length: 30\r\n\r\n" + BODY,
    "a value with CR": b"X: a\rb\r\nContent-Length: 30\r\n\r\n" + BODY,
    "two hosts": b"Host: localhost\r\nContent-Length: 30\r\n\r\n" + BODY,
}  # fmt: skip

# A browser that was led to this machine by a name of its own sends that name.
OTHER_HOSTS = [
    "evil.example", "127.0.0.1@evil", "evil@127.0.0.1", "127.0.0.1, evil", "localhost.evil", "localhost/evil",
    "localhost#evil", "localhost?x", "localhost%00.evil", "[::1", "::1]", "0.0.0.0", "127.1", "0x7f.1", "2130706433",
    ":80", "127.0.0.1:x", "127.0.0.1:-1", "",
]  # fmt: skip

# All of them are this machine, a private network, or no address.
NO_TARGETS = [
    "https://[::ffff:10.0.0.1]/", "https://[2002:a00:1::]/", "https://[fe80::1%25eth0]/", "https://10.0.0.1./",
    "https://8.8.8.8\\@127.0.0.1/", "https://127.0.0.1#@8.8.8.8/", "https://8.8.8.8/\r\nX: y",
    "https://\uff11\uff12\uff17.0.0.1/", "https://127\u30020\u30020\u30021/", "https://\u2460\u2461\u2466.0.0.1/",
    "https://0/", "https://255.255.255.255/", "https://198.18.0.1/", "https://192.0.2.1/", "https://203.0.113.9/",
    "https://[fd00::1]/", "https://[ff02::1]/", "https://[::127.0.0.1]/", "https://[2001:db8::1]/",
    "https://[100::1]/", "https://240.0.0.1/", "https:///x", "//8.8.8.8/", "https://8.8.8.8:0/",
    "https://8.8.8.8:99999/", "https://[v1.x]/", "HTTPS://127.0.0.1/", "gopher://8.8.8.8/",
]  # fmt: skip

KEY = "AK" + "IAIOSFODNN7EXAMPLE"
# Where words of a sender could stand. TEXT is a commitment, and then a secret.
FIELDS: dict[str, dict[str, Any]] = {
    "a value": {"payload": {"x": "TEXT"}},
    "a key": {"payload": {"TEXT": 1}},
    "a value deep inside": {"payload": {"a": [[{"b": ["TEXT"]}]]}},
    "metadata": {"metadata": {"note": "TEXT"}},
    "a key of metadata": {"metadata": {"TEXT": None}},
    "the source of data": {"metadata": {"data": [{"source": "TEXT", "classification": "public", "fields": ["a"]}]}},
    "a field of data": {"metadata": {"data": [{"source": "a", "classification": "public", "fields": ["a.TEXT"]}]}},
    "the name of a conversation": {"metadata": {"conversation_id": "TEXT"}},
    "a parent": {"metadata": {"parent_message_id": "TEXT"}},
    "a label of its own": {"metadata": {"disclosure": "TEXT"}},
    "a kind of sender": {"metadata": {"sender_kind": "TEXT"}},
    "stamps": {"metadata": {"ocip_ext": {"approved_by": "TEXT", "note": "TEXT"}}},
    "an envelope": {"metadata": {"ocip": "TEXT"}},
    "a proof": {"metadata": {"proof": {"signature": "TEXT"}}},
    "a trace": {"metadata": {"trace_id": "TEXT", "traceparent": "TEXT"}},
    "a purpose": {"metadata": {"exchange_type": "TEXT"}},
    "a level": {"metadata": {"classification": "TEXT"}},
    "a number of rounds": {"metadata": {"max_rounds": "TEXT"}},
    "an end": {"expires_at": "TEXT"},
    "a request that it answers": {"message_type": "response", "correlation_id": "TEXT"},
}


async def exchanged(port: int, sent: bytes) -> list[int]:
    """The statuses of all answers to these bytes, after which nothing more is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    writer.write_eof()
    answers = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


@with_server
async def test_bytes_that_could_be_two_requests_are_none(server: LiveServer) -> None:
    # A60: a proxy and the server must agree where a request ends, so what is not clear is refused
    alice, bob = await pair(server)
    head = (
        f"POST /api/v1{MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"X-API-Key: {alice.headers['X-API-Key']}\r\n"
    ).encode()

    accepted = {}
    for name, rest in NO_REQUESTS.items():
        statuses = await exchanged(server.listener.port, head + rest)
        if len(statuses) != 1 or statuses[0] not in (400, 413, 501):
            accepted[name] = statuses

    assert accepted == {}
    assert await inbox(bob) == []
    assert await exchanged(server.listener.port, head + b"Content-Length: 30\r\n\r\n" + BODY + SECOND) == [201, 200]


@with_server
async def test_a_host_that_only_looks_like_this_machine_is_not_served(server: LiveServer) -> None:
    # A58
    served = []
    for host in OTHER_HOSTS:
        request = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        if (await exchanged(server.listener.port, request))[0] not in (400, 403):
            served.append(host)

    assert served == []


@with_server
async def test_no_spelling_of_an_inner_address_is_a_target(server: LiveServer) -> None:
    # A53: neither of a webhook nor of an agent
    alice, _ = await pair(server)
    server.rig.team.outbound = HttpOutbound()

    taken = []
    for url in NO_TARGETS:
        answers = (
            await alice.post("/subscriptions", {"webhook_url": url}),
            await alice.post("/agents/register", {"agent_id": "alice", "endpoint": url}),
        )
        taken += [url for answer in answers if refusal(answer)[0] != 422]

    assert taken == []


@pytest.mark.parametrize("text", ["we-promise-it", KEY], ids=["commitment", "secret"])
@with_server
async def test_no_field_carries_words_past_the_rules_and_none_does_when_sent_again(
    server: LiveServer, text: str
) -> None:
    # A33 A32: what was held or refused once makes nothing easier the second time
    alice, bob = await pair(server)
    await put_policy(server, "applies_to: all")

    for fields in FIELDS.values():
        message = {"to": "bob", "payload": {}, **json.loads(json.dumps(fields).replace("TEXT", text))}
        for _ in range(2):
            assert (await alice.post(MESSAGES, message)).status < 500
    said = await tell(alice, "bob", "good morning")

    assert said.status == 201
    for path in (MESSAGES, "/exchanges", "/approvals", "/audit"):
        assert text.encode() not in (await bob.get(path)).body, path
