"""Signing in to the console, and what a browser may send along."""

from __future__ import annotations

import pytest

from tests.conformance.ocip.governed import admin_of, held, pair, person
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import Visitor, text_of


def secret_of(server: LiveServer, user: str) -> str:
    return server.rig.secrets[f"key_default_human_{user}"]


async def ann(server: LiveServer) -> Visitor:
    await person(server, "ann")
    visitor = Visitor(server)
    answer = await visitor.sign_in(secret_of(server, "ann"))
    assert (answer.status, answer.headers["location"]) == (303, "/console")
    return visitor


@with_server
async def test_who_has_not_signed_in_is_led_to_where_one_signs_in_and_back(server: LiveServer) -> None:
    await person(server, "ann")
    visitor = Visitor(server)

    away = await visitor.open("/console/approvals?status=decided")
    login = await visitor.open(away.headers["location"])
    back = await visitor.send(
        "/console/login", {"key": secret_of(server, "ann"), "next": "/console/approvals?status=decided"}
    )

    assert (away.status, away.headers["location"]) == (
        303,
        "/console/login?next=%2Fconsole%2Fapprovals%3Fstatus%3Ddecided",
    )
    assert "parley console" in text_of(login)
    assert 'value="/console/approvals?status=decided"' in login.body.decode()
    assert (back.status, back.headers["location"]) == (303, "/console/approvals?status=decided")


@with_server
async def test_the_cookie_is_strict_and_hidden_from_scripts_and_the_api_does_not_read_it(server: LiveServer) -> None:
    await person(server, "ann")
    visitor = Visitor(server)

    answer = await visitor.sign_in(secret_of(server, "ann"))
    api = await visitor.open("/api/v1/whoami")

    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"parley-{server.listener.port}=pss_")
    assert cookie.endswith("; Path=/console; HttpOnly; SameSite=Strict; Max-Age=43200")
    assert secret_of(server, "ann") not in cookie
    assert api.status == 401


@pytest.mark.parametrize("path", ["https://elsewhere.example/", "//elsewhere.example", "/api/v1", "/console\r\nX: y"])
@with_server
async def test_signing_in_leads_to_no_other_site(server: LiveServer, path: str) -> None:
    await person(server, "ann")

    answer = await Visitor(server).send("/console/login", {"key": secret_of(server, "ann"), "next": path})

    assert (answer.status, answer.headers["location"]) == (303, "/console")


@with_server
async def test_a_wrong_key_is_told_in_words_and_too_many_are_refused(server: LiveServer) -> None:
    visitor = Visitor(server)

    answers = [await visitor.sign_in(f"wrong {number}") for number in range(11)]

    assert [answer.status for answer in answers] == [401] * 10 + [429]
    assert "This key is not valid here." in text_of(answers[0])
    assert "too many wrong keys from this address" in text_of(answers[-1])
    assert visitor.cookie == ""


@with_server
async def test_a_link_signs_in_once_as_the_key_that_made_it(server: LiveServer) -> None:
    ann_client = await person(server, "ann")
    link = (await ann_client.post("/sessions/once")).json["once"]
    first, second = Visitor(server), Visitor(server)

    # Opening it acts on nothing: a scanner that follows links uses none up.
    await first.open(f"/console/login?once={link}")
    opened = await first.send("/console/login", {"once": link})
    again = await second.send("/console/login", {"once": link})
    page = await first.open("/console/approvals")

    assert (opened.status, again.status, page.status) == (303, 401, 200)
    assert "This link was used already, or is older than ten minutes." in text_of(again)
    assert " ann " in text_of(page)


@with_server
async def test_a_revoked_key_ends_its_sign_ins_with_the_next_request(server: LiveServer) -> None:
    visitor = await ann(server)
    admin = await admin_of(server)

    before = await visitor.open("/console/approvals")
    await admin.delete("/keys/key_default_human_ann")
    after = await visitor.open("/console/approvals")

    assert (before.status, after.status) == (200, 303)
    assert after.headers["location"].startswith("/console/login")


@with_server
async def test_who_signs_out_has_signed_out_everywhere_with_this_cookie(server: LiveServer) -> None:
    visitor = await ann(server)
    stolen = visitor.cookie

    answer = await visitor.send("/console/logout", {})
    visitor.cookie = stolen
    after = await visitor.open("/console/approvals")

    assert (answer.status, answer.headers["location"]) == (303, "/console/login")
    assert answer.headers["clear-site-data"] == '"cache", "storage"'
    assert after.status == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        # Another port of this machine is the same site, and a strict cookie goes along.
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": "", "Origin": "http://127.0.0.1:9"},
        {"Sec_Fetch_Site": "", "Origin": "null"},
        {"Sec_Fetch_Site": ""},
    ],
)
@with_server
async def test_a_form_of_another_page_is_refused(server: LiveServer, headers: dict[str, str]) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    visitor = await ann(server)
    form = {"decision": "approve", "digest": waits["digest"]}

    answer = await visitor.send(f"/console/approvals/{waits['approval']}", form, **headers)

    assert (answer.status, answer.code) == (403, "origin_forbidden")
    assert (await (await person(server, "ann")).get(f"/approvals/{waits['approval']}")).json["status"] == "pending"


@with_server
async def test_a_browser_without_fetch_metadata_may_send_forms_of_our_own_pages(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    visitor = await ann(server)
    form = {"decision": "reject", "digest": waits["digest"]}

    answer = await visitor.send(
        f"/console/approvals/{waits['approval']}", form, Sec_Fetch_Site="", Origin=f"http://{visitor.host}"
    )

    assert answer.status == 303


@with_server
async def test_a_link_on_another_site_opens_the_page_again_from_here(server: LiveServer) -> None:
    visitor = await ann(server)
    kept, visitor.cookie = visitor.cookie, ""

    without = await visitor.open("/console/approvals", **{"Sec-Fetch-Site": "cross-site"})
    visitor.cookie = kept
    then = await visitor.open("/console/approvals", **{"Sec-Fetch-Site": "same-origin"})

    assert without.status == 200
    assert 'http-equiv="refresh" content="0; url=/console/approvals"' in without.body.decode()
    assert "Nothing waits for you." in text_of(then)


@with_server
async def test_every_page_says_what_may_run_in_it_and_that_nobody_may_frame_it(server: LiveServer) -> None:
    visitor = await ann(server)

    for path in ("/console/login", "/console/approvals", "/console/sessions", "/console/none"):
        headers = (await visitor.open(path)).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"], path
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert (headers["referrer-policy"], headers["cache-control"]) == ("same-origin", "no-store"), path


@with_server
async def test_files_are_kept_by_caches_and_found_by_their_content_alone(server: LiveServer) -> None:
    visitor = Visitor(server)
    page = (await visitor.open("/console/login")).body.decode()
    path = page.partition('rel="stylesheet" href="')[2].partition('"')[0]

    found = await visitor.open(path)
    other = await visitor.open("/console/static/0000000000000000/console.css")
    outside = await visitor.open("/console/static/..%2F..%2Fhtml.py")

    assert (found.status, found.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (other.status, outside.status) == (404, 404)


@with_server
async def test_a_large_form_of_a_stranger_is_refused_at_its_head(server: LiveServer) -> None:
    visitor = Visitor(server)

    answer = await visitor.send("/console/approvals/apv_1", {"note": "x" * 250_000})

    assert (answer.status, answer.code) == (413, "too_large")


@with_server
async def test_sign_ins_are_listed_and_ended(server: LiveServer) -> None:
    here, there = await ann(server), await ann(server)

    page = await here.open("/console/sessions")
    ids = [part.partition('"')[0] for part in page.body.decode().split('name="id" value="')[1:]]
    # The newest is the last one.
    ended = await here.send("/console/sessions", {"id": ids[-1]})

    assert ended.status == 303
    assert text_of(page).count("this browser") == 2  # the offer to turn shortcuts off, and one row
    assert len(ids) == 2
    assert (await there.open("/console/sessions")).status == 303
