"""Webhooks on their way out: where they may go, how they get there, and what they do not fall for."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parley.adapters.outside import outbound
from parley.adapters.outside.outbound import HttpOutbound, is_allowed, target_of
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post, PostState
from parley.domain.channel.subscription import Answered, Push
from parley.domain.errors.errors import Unavailable
from parley.domain.errors.team import TargetForbidden
from parley.domain.message.message import Pattern
from parley.domain.times import stamp
from parley.wire.api import webhooks as webhook
from tests.rigs.team import in_loop
from tests.rigs.webhook_receiver import certified, receiving, status

NOW = datetime(2026, 3, 13, 14, 30, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PUBLIC = "93.184.216.34"
FORBIDDEN = [
    "127.0.0.1",
    "127.255.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "0.0.0.0",
    "0.1.2.3",
    "192.0.0.1",
    "192.0.0.192",
    "168.63.129.16",
    "100.100.100.200",
    "198.18.0.1",
    "2001:db8::1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
ALLOWED = [PUBLIC, "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
# What a laptop or an own network may have, and what not even that.
OWN = ["127.0.0.1", "::1", "10.1.2.3", "172.20.0.1", "192.168.0.9", "100.64.0.1", "fd00::1", "::ffff:127.0.0.1"]
NEVER = ["169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"]

Resolve = Callable[[str, int], Awaitable[list[str]]]


def leading_to(*addresses: str) -> Callable[[str, int], Awaitable[list[str]]]:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


def a_push(url: str, text: str = "hello") -> Push:
    post = Post(
        id="msg_1",
        channel_id="chan_1",
        sender="alice",
        to="",
        pattern=Pattern.NOTIFY,
        in_reply_to="",
        payload=b'{"text":"%b"}' % text.encode(),
        metadata=b"{}",
        created_at=stamp(NOW),
        expires_at="",
        state=PostState.DELIVERED,
        recipients=None,
        intent_id="intent_1",
    )
    return Push("sub_1-msg_1", url, (SECRET,), NOW, FeedItem.of_post(post))


@pytest.mark.parametrize("address", FORBIDDEN)
def test_no_webhook_goes_to_an_address_that_is_not_public(address: str) -> None:
    assert not is_allowed(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ALLOWED)
def test_a_public_address_may_have_webhooks(address: str) -> None:
    assert is_allowed(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", OWN)
def test_an_own_network_may_have_webhooks_where_it_was_allowed(address: str) -> None:
    assert is_allowed(ipaddress.ip_address(address), private=True)


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_never_have_webhooks(address: str) -> None:
    assert not is_allowed(ipaddress.ip_address(address), private=True)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "http://example.com/",
        "ftp://example.com/",
        "file:" + "///etc/passwd",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://example.com@127.0.0.1/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://example.com:x/",
        "https://exa mple.com/",
        "https://example.com/\r\nX-Injected: 1",
        "https://example.com/\x00",
        "https://example.com\\@127.0.0.1/",
        "https://exämple.com/",
        "https://example.com./",
        "https://-a.example.com/",
        "https://" + "a" * 64 + ".com/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://2130706433/",
        "https://017700000001/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://0177.0.0.1/",
        "https://134744072/",
        "https://example.com/" + "a" * 2048,
    ],
)
def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(TargetForbidden):
        target_of(url)


def test_a_url_is_taken_apart() -> None:
    target = target_of("https://Example.com:8443/a/b?c=d#e")

    assert (target.secure, target.host, target.port, target.path) == (True, "example.com", 8443, "/a/b?c=d")
    assert target.authority == "example.com:8443"
    assert target_of("https://example.com").authority == "example.com"
    assert target_of("https://[2606:4700::1]/").authority == "[2606:4700::1]"


@pytest.mark.parametrize("address", FORBIDDEN)
@in_loop
async def test_a_name_that_leads_to_a_forbidden_address_is_refused(address: str) -> None:
    with pytest.raises(TargetForbidden) as refused:
        await HttpOutbound(resolve=leading_to(address)).check("https://example.com/", "t")

    assert refused.value.code == "target_forbidden"


@in_loop
async def test_one_forbidden_address_among_others_is_enough_to_refuse() -> None:
    with pytest.raises(TargetForbidden):
        await HttpOutbound(resolve=leading_to(PUBLIC, "10.0.0.1")).check("https://example.com/", "t")


@in_loop
async def test_a_name_that_leads_to_public_addresses_is_accepted() -> None:
    await HttpOutbound(resolve=leading_to(PUBLIC, "2606:4700:4700::1111")).check("https://example.com/", "t")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]", "localhost"])
@in_loop
async def test_a_forbidden_host_is_refused_by_the_real_lookup(host: str) -> None:
    with pytest.raises(TargetForbidden):
        await HttpOutbound().check(f"https://{host}/", "t")


@in_loop
async def test_a_name_that_does_not_exist_is_refused_in_the_same_words_as_an_inner_one() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    words = set()
    for resolve in (unknown, leading_to("10.0.0.1"), leading_to()):
        with pytest.raises(TargetForbidden) as refused:
            await HttpOutbound(resolve=resolve).check("https://inner.example/", "t")
        words.add(str(refused.value))

    assert len(words) == 1


@in_loop
async def test_a_webhook_arrives_signed_at_its_receiver() -> None:
    async with receiving() as receiver:
        answered = await HttpOutbound(private=True).push(a_push(receiver.url + "?a=b"))

    assert answered == Answered(200)
    (got,) = receiver.got
    assert (got.target, got.headers["host"]) == ("/hook?a=b", f"127.0.0.1:{receiver.port}")
    assert got.headers["content-type"] == "application/json"
    assert webhook.verify(SECRET, got.headers, got.body, NOW)["data"]["id"] == "msg_1"


@in_loop
async def test_over_https_the_name_is_asked_for_and_checked_at_the_judged_address(tmp_path: Path) -> None:
    serves, trusts = certified(tmp_path, "hook.example")
    named: list[str | None] = []
    serves.sni_callback = lambda _socket, name, _context: named.append(name)
    async with receiving(serves) as receiver:
        out = HttpOutbound(private=True, resolve=leading_to("127.0.0.1"), context=trusts)

        answered = await out.push(a_push(f"https://hook.example:{receiver.port}/in"))

    assert answered == Answered(200)
    assert named == ["hook.example"]
    assert receiver.got[0].headers["host"] == f"hook.example:{receiver.port}"


@in_loop
async def test_a_certificate_of_another_name_gets_nothing(tmp_path: Path) -> None:
    serves, trusts = certified(tmp_path, "other.example")
    async with receiving(serves) as receiver:
        out = HttpOutbound(private=True, resolve=leading_to("127.0.0.1"), context=trusts)

        answered = await out.push(a_push(f"https://hook.example:{receiver.port}/in"))

    assert (answered.error, receiver.got) == ("tls_failed", [])


@in_loop
async def test_a_certificate_that_nobody_vouches_for_gets_nothing(tmp_path: Path) -> None:
    serves, _ = certified(tmp_path, "hook.example")
    async with receiving(serves) as receiver:
        out = HttpOutbound(private=True, resolve=leading_to("127.0.0.1"))

        answered = await out.push(a_push(f"https://hook.example:{receiver.port}/in"))

    assert (answered.error, receiver.got) == ("tls_failed", [])


@in_loop
async def test_by_default_a_push_to_this_machine_opens_no_connection() -> None:
    async with receiving() as receiver:
        answered = await HttpOutbound().push(a_push(f"https://127.0.0.1:{receiver.port}/"))

    assert (answered, receiver.connections) == (Answered(0, "target_forbidden"), 0)


@in_loop
async def test_a_name_that_turns_inward_after_it_was_accepted_opens_no_connection() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    async with receiving() as receiver:
        out = HttpOutbound(resolve=rebinding)
        url = f"https://evil.example:{receiver.port}/"
        await out.check(url, "t")

        answered = await out.push(a_push(url))

    assert (answered, receiver.connections) == (Answered(0, "target_forbidden"), 0)


@in_loop
async def test_a_name_is_looked_up_once_for_a_push_and_the_connection_goes_to_that_address() -> None:
    asked: list[str] = []

    async def counting(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with receiving() as receiver:
        # Nobody but this lookup knows the name: a second one would find nothing.
        answered = await HttpOutbound(private=True, resolve=counting).push(
            a_push(f"http://no-such-name.invalid:{receiver.port}/")
        )

    assert (answered.status, asked) == (200, ["no-such-name.invalid"])


@in_loop
async def test_the_next_address_is_tried_when_the_first_does_not_answer() -> None:
    async with receiving() as receiver:
        out = HttpOutbound(private=True, resolve=leading_to("127.0.0.2", "127.0.0.1"))

        answered = await out.push(a_push(f"http://hook.example:{receiver.port}/"))

    assert answered.status == 200


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@in_loop
async def test_a_redirect_is_a_failure_and_is_not_followed(code: int) -> None:
    async with receiving() as inner, receiving() as receiver:
        receiver.answer = status(code, f"Location: {inner.url}")

        answered = await HttpOutbound(private=True).push(a_push(receiver.url))

    assert answered == Answered(code, "redirect")
    assert (inner.connections, answered.accepted) == (0, False)


@pytest.mark.parametrize("code", [400, 404, 410, 429, 500, 503])
@in_loop
async def test_a_refusal_is_reported_as_it_is(code: int) -> None:
    async with receiving() as receiver:
        receiver.answer = status(code)

        assert await HttpOutbound(private=True).push(a_push(receiver.url)) == Answered(code)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    ],
)
@in_loop
async def test_every_whole_answer_is_understood(answer: bytes) -> None:
    async with receiving() as receiver:
        receiver.answer = answer

        assert (await HttpOutbound(private=True).push(a_push(receiver.url))).accepted


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"\x00" * 100])
@in_loop
async def test_what_is_no_http_is_a_failure(answer: bytes) -> None:
    async with receiving() as receiver:
        receiver.answer = answer

        assert await HttpOutbound(private=True).push(a_push(receiver.url)) == Answered(0, "no_http")


@in_loop
async def test_an_answer_that_never_comes_is_given_up() -> None:
    async with receiving() as receiver:
        receiver.answer = None

        assert await HttpOutbound(private=True, seconds=0.2).push(a_push(receiver.url)) == Answered(0, "timeout")


@in_loop
async def test_an_answer_that_drips_is_given_up_by_the_whole_time_it_takes() -> None:
    async with receiving() as receiver:
        receiver.answer, receiver.drips = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"

        assert await HttpOutbound(private=True, seconds=0.2).push(a_push(receiver.url)) == Answered(0, "timeout")


@in_loop
async def test_an_answer_without_end_is_read_for_64_kib_and_no_more() -> None:
    async with receiving() as receiver:
        receiver.answer, receiver.drips = b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000

        answered = await HttpOutbound(private=True).push(a_push(receiver.url))

    assert answered == Answered(200, "answer_too_large")
    assert not answered.accepted


@pytest.mark.parametrize(("over", "error"), [(0, ""), (1, "answer_too_large")])
@in_loop
async def test_an_answer_may_have_64_kib(over: int, error: str) -> None:
    head = len(status(200, body=b"x" * 60_000)) - 60_000
    async with receiving() as receiver:
        receiver.answer = status(200, body=b"x" * (64 * 1024 - head + over))

        assert await HttpOutbound(private=True).push(a_push(receiver.url)) == Answered(200, error)


@in_loop
async def test_a_packed_answer_is_never_unpacked() -> None:
    bomb = gzip.compress(b"\x00" * 10_000_000)
    async with receiving() as receiver:
        receiver.answer = status(200, "Content-Encoding: gzip", body=bomb)

        assert await HttpOutbound(private=True).push(a_push(receiver.url)) == Answered(200)

    assert receiver.got[0].headers["accept-encoding"] == "identity"


@in_loop
async def test_nobody_listening_is_a_failure() -> None:
    async with receiving() as receiver:
        pass

    assert await HttpOutbound(private=True).push(a_push(receiver.url)) == Answered(0, "connection_failed")


@in_loop
async def test_a_name_server_that_does_not_answer_is_given_up() -> None:
    async def silent(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    out = HttpOutbound(resolve=silent, seconds=0.05)

    assert await out.push(a_push("https://example.com/")) == Answered(0, "lookup_late")
    with pytest.raises(Unavailable):
        await out.check("https://example.com/", "t")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "127.0.0.9"])
@in_loop
async def test_the_own_server_gets_none_even_where_this_machine_may_have_webhooks(host: str) -> None:
    async with receiving() as receiver:
        out = HttpOutbound(private=True)
        out.avoid(receiver.port)

        with pytest.raises(TargetForbidden):
            await out.check(f"http://{host}:{receiver.port}/", "t")
        answered = await out.push(a_push(f"http://{host}:{receiver.port}/"))
        await out.check(f"http://{host}:{receiver.port + 1}/", "t")

    assert (answered, receiver.connections) == (Answered(0, "target_forbidden"), 0)


@in_loop
async def test_a_public_address_on_the_same_port_is_not_the_own_server() -> None:
    out = HttpOutbound(resolve=leading_to(PUBLIC))
    out.avoid(443)

    await out.check("https://example.com/", "t")


@in_loop
async def test_a_name_of_the_own_server_is_refused_on_every_port() -> None:
    out = HttpOutbound(resolve=leading_to(PUBLIC))
    out.avoid(8420, ["Parley.example"])

    with pytest.raises(TargetForbidden):
        await out.check("https://parley.EXAMPLE:8443/", "t")


def test_the_limits_are_the_published_ones() -> None:
    assert (outbound.TIMEOUT_SECONDS, outbound.ANSWER_MAX_BYTES) == (15.0, 64 * 1024)


# ---------------------------------------------------------------- slow names


def slow(gate: asyncio.Event) -> Callable[[str, int], Awaitable[list[str]]]:
    async def resolve(host: str, port: int) -> list[str]:
        del port
        if host.startswith("slow"):
            await gate.wait()
        return [PUBLIC]

    return resolve


@in_loop
async def test_slow_names_of_one_tenant_hold_up_nobody_else() -> None:
    gate = asyncio.Event()
    out = HttpOutbound(resolve=slow(gate), seconds=30)
    waiting = [asyncio.ensure_future(out.check(f"https://slow{n}.example/", "t1")) for n in range(100)]

    async with asyncio.timeout(5):
        await out.check("https://good.example/", "t2")
    gate.set()
    await asyncio.gather(*waiting)


@in_loop
async def test_a_tenant_has_few_lookups_at_once() -> None:
    running, most = 0, 0

    async def resolve(host: str, port: int) -> list[str]:
        nonlocal running, most
        del host, port
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return [PUBLIC]

    out = HttpOutbound(resolve=resolve)
    await asyncio.gather(*[out.check(f"https://h{n}.example/", "t1") for n in range(20)])

    assert most == 2


@in_loop
async def test_a_late_lookup_is_no_refusal_and_keeps_its_place_until_it_ends() -> None:
    gate = asyncio.Event()
    out = HttpOutbound(resolve=slow(gate), seconds=0.03)

    for n in range(4):
        with pytest.raises(Unavailable):
            await out.check(f"https://slow{n}.example/", "t1")
    assert await out.push(a_push("https://slow.example/")._replace(tenant="t1")) == Answered(0, "lookup_late")
    with pytest.raises(Unavailable):
        await out.check("https://good.example/", "t1")  # both places of this tenant are taken
    gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await out.check("https://good.example/", "t1")
