"""The page at a link to an approval: what it shows in each state, and what whoever has the link cannot do with it."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from parley.domain.directory.callers import NO_TENANT
from parley.domain.errors.team import RateLimited
from parley.domain.exchange.link import ApprovalLink
from parley.domain.store.changes import RecordQuery, TeamChanges
from parley.domain.times import stamp
from parley.surfaces.entrance.authentication import Authenticator
from parley.surfaces.http.http1.message import Request
from parley.surfaces.http.origins import LOCAL_NAMES, Origins
from parley.surfaces.http.route import EVERYBODY
from parley.surfaces.http.server import api_for
from tests.conformance.ocip.governed import admin_of, audit_of, decide, held, inbox, person, put_policy, refused
from tests.rigs.approval_links import HeldWithLink, a_link, link_to
from tests.rigs.team import Answer, LiveServer, with_server
from tests.rigs.visitor import Visitor, field_of, text_of

pytestmark = pytest.mark.both_stores
DAY = timedelta(hours=24).total_seconds()


def has_form(page: Answer) -> bool:
    return 'id="decide"' in page.body.decode()


def is_ended(page: Answer) -> bool:
    """Whether it is the one page for links that do not work, without a word of any message."""
    return page.status == 410 and "This link does not work" in text_of(page) and "promise" not in text_of(page)


async def changed(server: LiveServer, link: HeldWithLink) -> str:
    """Let what waits change: under other policies its person has to look again. The new digest."""
    await put_policy(server, "enabled: true\nmax_rounds: 2")
    assert refused(await decide(link.ann, link.waits, "approve")) == (409, "approval_stale")
    digest: str = (await link.ann.get(f"/approvals/{link.approval}")).json["digest"]
    assert digest != link.waits["digest"]
    return digest


# ---------------------------------------------------------------- what it shows


@with_server
async def test_a_link_shows_the_message_and_a_form_decides_without_signing_in(server: LiveServer) -> None:
    link = await a_link(server)

    page = await link.visitor.open(link.path)
    sent = await link.visitor.send(link.path, await link.form(note="fine with me"))
    after = await link.visitor.open(link.path)

    assert page.status == 200
    assert "We promise it." in text_of(page).replace("promise", " promise ").replace("  ", " ")
    assert "You decide as ann , by a link for you alone that opens nothing else ( 1 d left )." in text_of(page)
    assert "<title>A message waits for you · Parley</title>" in page.body.decode()
    assert field_of(page, "digest") == link.waits["digest"]
    assert (sent.status, sent.headers["location"]) == (303, link.path)
    assert "Approved by ann" in text_of(after)
    assert [message["payload"] for message in await inbox(link.bob)] == [{"text": "We promise it."}]
    assert link.visitor.cookie == ""


@with_server
async def test_it_shows_what_the_page_of_the_approval_shows(server: LiveServer) -> None:
    words = "We prom\u200bise it\u202e at \u0430pple.com " + "x" * 60_000 + " <script>alert(1)</script> the end"
    link = await a_link(server, words)
    signed_in = Visitor(server)
    await signed_in.sign_in(server.rig.secrets["key_default_human_ann"])

    by_link = (await link.visitor.open(link.path)).body.decode()
    by_key = (await signed_in.open(f"/console/approvals/{link.approval}")).body.decode()

    def card(html: str) -> str:
        return html[html.index("<article") : html.index("</article>")]

    # Only the form differs: without an address it goes to that of its page.
    assert card(by_link) == card(by_key).replace(f' action="/console/approvals/{link.approval}"', "")
    assert "x" * 60_000 + " &lt;script&gt;alert(1)&lt;/script&gt; the end</div>" in by_link
    assert '<span class="hid" title="zero width space">U+200B</span>' in by_link
    assert "\u202e" not in by_link


@pytest.mark.parametrize(
    ("decision", "word"), [("approve", "Approved"), ("reject", "Rejected"), ("answer", "Answered")]
)
@with_server
async def test_after_a_decision_by_link_the_page_says_which_it_was(
    server: LiveServer, decision: str, word: str
) -> None:
    link = await a_link(server)

    sent = await link.visitor.send(
        link.path, await link.form(decision, **({"answer": "We cannot." * 1_000} if decision == "answer" else {}))
    )
    after = await link.visitor.open(link.path)

    assert sent.status == 303
    assert f"<h1>{word}</h1>" in after.body.decode()
    assert f"{word} by ann" in text_of(after)
    texts = {"approve": ["We promise it."], "reject": [], "answer": ["We cannot." * 1_000]}
    assert [message["payload"]["text"] for message in await inbox(link.bob)] == texts[decision]


@with_server
async def test_after_the_decision_a_link_shows_what_became_of_it_and_not_the_message(server: LiveServer) -> None:
    link = await a_link(server)
    await decide(link.ann, link.waits, "reject", note="for our eyes only")

    page = await link.visitor.open(link.path)

    assert page.status == 200
    assert "Rejected by ann" in text_of(page)
    assert not has_form(page)
    assert not {"promise", "eyes"} & set(text_of(page).split())
    assert f'href="/console/approvals/{link.approval}"' in page.body.decode()


@with_server
async def test_an_approval_that_expires_takes_its_form_along(server: LiveServer) -> None:
    link = await a_link(server)
    approval = (await link.ann.get(f"/approvals/{link.approval}")).json
    form = await link.form()
    (record,) = await server.rig.store.find(ApprovalLink, NO_TENANT, RecordQuery())
    assert record.expires_at >= approval["created_at"]
    # A link that would outlive the approval, whose time is over before the sweep has seen it.
    late = stamp(server.rig.clock.at + timedelta(days=90))
    await server.rig.store.commit(TeamChanges(NO_TENANT, puts=(replace(record, expires_at=late),)))
    server.rig.clock.pass_by(seconds=timedelta(days=40).total_seconds())

    page = await link.visitor.open(link.path)
    sent = await link.visitor.send(link.path, form)

    assert (page.status, "<h1>Expired</h1>" in page.body.decode(), has_form(page)) == (200, True, False)
    assert (sent.status, "Expired" in text_of(sent)) == (409, True)
    assert await inbox(link.bob) == []


@with_server
async def test_a_refused_decision_keeps_what_was_typed(server: LiveServer) -> None:
    link = await a_link(server)

    for form in (
        {"decision": "approve", "digest": "0" * 64, "note": "keep this"},
        {"decision": "x", "note": "keep this"},
    ):
        page = await link.visitor.send(link.path, form)
        assert page.status in (409, 422)
        assert "Not decided: " in text_of(page)
        assert 'value="keep this"' in page.body.decode()
    assert await link.status() == "pending"


# ---------------------------------------------------------------- scanners, replay, forwarding


@with_server
async def test_a_scanner_that_opens_the_link_fifty_times_uses_nothing_up(server: LiveServer) -> None:
    link = await a_link(server)
    before = len(await audit_of(await admin_of(server)))

    for number in range(50):
        scanner = Visitor(server)
        page = await scanner.client.request(
            "HEAD" if number % 5 == 0 else "GET", link.path, None, {"Host": scanner.host}
        )
        assert page.status == 200
        await scanner.client.close()
    assert await link.status() == "pending"
    # Not a word in the log: whoever floods a link does not flood that.
    assert len(await audit_of(await admin_of(server))) == before

    form = await link.form()
    answers = [await Visitor(server).send(link.path, form) for _ in range(3)]

    assert [answer.status for answer in answers] == [303, 409, 409]
    assert "approval_decided" in text_of(answers[1])
    assert "Approved by ann" in text_of(answers[1])
    assert len(await inbox(link.bob)) == 1


@with_server
async def test_neither_a_query_nor_another_method_decides(server: LiveServer) -> None:
    link = await a_link(server)
    query = f"?decision=approve&digest={link.waits['digest']}"

    opened = await link.visitor.open(link.path + query)
    sent = await link.visitor.send(link.path + query, {})
    others = [
        (await link.visitor.client.request(method, link.path + query, b"", {"Host": link.visitor.host})).status
        for method in ("PUT", "PATCH", "DELETE", "OPTIONS")
    ]

    assert (opened.status, sent.status, others) == (200, 422, [405] * 4)
    assert await link.status() == "pending"


# ---------------------------------------------------------------- widening


@with_server
async def test_a_link_opens_one_page_and_nothing_else(server: LiveServer) -> None:
    link = await a_link(server)
    other = await held(link.alice, "bob", "We promise more.", conversation_id="conv-2")
    port = server.listener.port
    form = {"decision": "approve", "digest": link.waits["digest"]}
    pages = ["", "/approvals", f"/approvals/{link.approval}", f"/approvals/{other['approval']}", "/audit", "/live"]

    for cookie in (f"parley-{port}={link.secret}", f"__Host-parley={link.secret}"):
        for page in pages:
            answer = await Visitor(server).open(f"/console{page}", Cookie=cookie)
            assert answer.status in (303, 401, 429), page
        sent = await Visitor(server).send(f"/console/approvals/{link.approval}", form, Cookie=cookie)
        assert sent.status in (303, 429)
    await Visitor(server).open(link.path)
    for field in ("key", "once"):
        assert (await Visitor(server).send("/console/login", {field: link.secret})).status in (401, 429)
    assert await link.status() == "pending"


@with_server
async def test_the_api_knows_no_links(server: LiveServer) -> None:
    link = await a_link(server)
    body = {"decision": "approve", "digest": link.waits["digest"]}

    for client in (server.with_key(link.secret), server.with_key("")):
        client.headers.setdefault("Authorization", f"Bearer {link.secret}")
        for path in ("/approvals", f"/approvals/{link.approval}", "/whoami", f"/live?ticket={link.secret}"):
            assert (await client.get(path)).status in (401, 429), path
        assert (await client.post(f"/approvals/{link.approval}/decision", body)).status in (401, 429)
        assert (await client.post(f"/approvals/{link.approval}/link")).status in (401, 429)
    assert await link.status() == "pending"


@with_server
async def test_the_page_at_a_link_runs_no_other_operation(server: LiveServer) -> None:
    """Whatever a page might ask for: the API is asked in its name, and refuses."""
    link = await a_link(server)
    other = await held(link.alice, "bob", "We promise more.", conversation_id="conv-2")
    clock = server.rig.clock
    api = api_for(server.rig.team, monotonic=lambda: clock.uptime, origins=Origins(LOCAL_NAMES), limited=False)

    async def status(method: str, path: str, query: str = "", body: bytes = b"{}") -> int:
        path = f"/api/v1{path}"
        request = Request(method, path, path.encode(), query, {b"content-type": b"application/json"}, body, "peer")
        return (await api.run_by_link(request, link.secret)).status

    assert await status("GET", f"/approvals/{link.approval}", "expand=exchange") == 200
    assert await status("GET", "/channels/chan_1", "seat=alice") == 200
    assert await status("GET", "/intents/intent_1", "seat=alice") == 200
    for method, path in (
        ("GET", "/approvals"), ("GET", "/approvals/count"), ("GET", f"/approvals/{other['approval']}"),
        ("POST", f"/approvals/{other['approval']}/decision"), ("POST", f"/approvals/{link.approval}/link"),
        ("GET", "/channels"), ("GET", "/channels/chan_1/messages"), ("GET", "/channels/chan_2"), ("GET", "/live"),
        ("GET", "/whoami"), ("GET", "/sessions"), ("POST", "/sessions/once"), ("GET", "/audit"), ("GET", "/agents"),
        ("POST", "/channels/chan_1/messages"), ("GET", "/exchanges"), ("GET", "/intents"), ("DELETE", "/sessions"),
    ):  # fmt: skip
        assert await status(method, path) == 403, path


@with_server
async def test_the_link_of_one_approval_decides_about_no_other(server: LiveServer) -> None:
    link = await a_link(server)
    other = await held(link.alice, "bob", "We promise more.", conversation_id="conv-2")
    second = await link_to(link.ann, other["approval"])

    crossed = await link.visitor.send(link.path, {"decision": "approve", "digest": other["digest"]})
    below = await link.visitor.send(
        f"{link.path}/{other['approval']}", {"decision": "approve", "digest": other["digest"]}
    )
    named = await link.visitor.send(
        link.path,
        {"decision": "approve", "digest": other["digest"], "approval": other["approval"], "id": other["approval"]},
    )

    assert (crossed.status, named.status) == (409, 409)
    assert is_ended(below)
    assert (await link.ann.get(f"/approvals/{other['approval']}")).json["status"] == "pending"
    assert await link.status() == "pending"
    assert (await link.visitor.send(second, {"decision": "reject", "digest": other["digest"]})).status == 303
    assert await link.status() == "pending"


@with_server
async def test_whoever_has_signed_in_as_another_person_decides_as_that_of_the_link(server: LiveServer) -> None:
    link = await a_link(server)
    await person(server, "dee")
    await link.visitor.sign_in(server.rig.secrets["key_default_human_dee"])

    await link.visitor.send(link.path, await link.form())

    assert (await link.ann.get(f"/approvals/{link.approval}")).json["decided_by"] == "ann"


# ---------------------------------------------------------------- when it ends


@with_server
async def test_a_link_ends_after_a_day(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()

    server.rig.clock.pass_by(seconds=DAY - 1)
    assert has_form(await link.visitor.open(link.path))
    server.rig.clock.pass_by(seconds=1)

    assert is_ended(await link.visitor.open(link.path))
    assert is_ended(await link.visitor.send(link.path, form))
    assert await inbox(link.bob) == []


@with_server
async def test_a_link_ends_with_its_key(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()

    await (await admin_of(server)).delete("/keys/key_default_human_ann")

    assert is_ended(await link.visitor.open(link.path))
    assert is_ended(await link.visitor.send(link.path, form))
    assert await inbox(link.bob) == []


@with_server
async def test_a_link_ends_when_its_person_may_not_decide_any_more(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()

    await put_policy(server, "enabled: true\nself_approval: false\napprovers: [eve]")

    assert is_ended(await link.visitor.open(link.path))
    assert is_ended(await link.visitor.send(link.path, form))
    assert await inbox(link.bob) == []


@with_server
async def test_links_end_when_the_operator_switches_them_off(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()

    server.rig.team.approval_links = False

    assert is_ended(await link.visitor.open(link.path))
    assert is_ended(await link.visitor.send(link.path, form))


@with_server
async def test_when_the_content_has_changed_one_has_to_sign_in(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()
    digest = await changed(server, link)

    answers = [
        await link.visitor.open(link.path),
        await link.visitor.send(link.path, form),
        # Also for somebody who knows what it is now.
        await link.visitor.send(link.path, {**form, "digest": digest}),
        await link.visitor.send(link.path, {**form, "decision": "reject", "digest": digest}),
    ]

    for answer in answers:
        assert (answer.status, has_form(answer)) == (409, False)
        assert "Look at this message again" in text_of(answer)
        assert f'href="/console/approvals/{link.approval}"' in answer.body.decode()
        assert "promise" not in text_of(answer)
    assert await link.status() == "pending"
    fresh = await link_to(link.ann, link.approval)
    assert (await link.visitor.send(fresh, {**form, "digest": digest})).status == 303


@with_server
async def test_a_policy_that_changes_under_the_eyes_of_the_person_is_noticed(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()
    await put_policy(server, "enabled: true\nmax_rounds: 2")

    opened = await link.visitor.open(link.path)
    sent = await link.visitor.send(link.path, form)

    assert (opened.status, has_form(opened)) == (409, False)
    assert (sent.status, "Look at this message again" in text_of(sent)) == (409, True)
    assert await inbox(link.bob) == []


# ---------------------------------------------------------------- other sites, guessing, leaks


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": "", "Origin": "http://127.0.0.1:9"},
        {"Sec_Fetch_Site": "", "Origin": "https://elsewhere.example"},
        {"Sec_Fetch_Site": "", "Origin": "null"},
        {"Sec_Fetch_Site": ""},
    ],
)
@with_server
async def test_a_form_of_another_site_or_port_is_refused(server: LiveServer, headers: dict[str, str]) -> None:
    link = await a_link(server)

    answer = await link.visitor.send(link.path, await link.form(), **headers)

    assert (answer.status, answer.code) == (403, "origin_forbidden")
    assert await link.status() == "pending"


@with_server
async def test_a_browser_without_fetch_metadata_decides_by_its_origin(server: LiveServer) -> None:
    link = await a_link(server)
    own = f"http://{link.visitor.host}"

    answer = await link.visitor.send(link.path, await link.form(), Sec_Fetch_Site="", Origin=own)

    assert answer.status == 303


@with_server
async def test_a_link_from_a_mail_opens_at_once(server: LiveServer) -> None:
    link = await a_link(server)

    page = await link.visitor.open(link.path, **{"Sec-Fetch-Site": "cross-site"})

    assert has_form(page)
    assert "refresh" not in page.body.decode()


@with_server
async def test_guesses_are_limited_like_wrong_keys_and_a_valid_link_is_not_delayed(server: LiveServer) -> None:
    link = await a_link(server)

    answers = [await link.visitor.open(f"/console/a/pal_{number:043d}x") for number in range(11)]

    assert [answer.status for answer in answers] == [410] * 10 + [429]
    assert all(is_ended(answer) for answer in answers[:10])
    assert "too many wrong keys from this address" in text_of(answers[-1])
    assert has_form(await link.visitor.open(link.path))


@with_server
async def test_a_link_that_has_ended_and_one_that_never_was_look_the_same(server: LiveServer) -> None:
    link = await a_link(server)
    server.rig.clock.pass_by(seconds=DAY)

    pages = [
        await link.visitor.open(path)
        for path in (link.path, "/console/a/pal_x", "/console/a/x", "/console/a", "/console/a/x/y")
    ]

    assert len({page.body for page in pages}) == 1
    assert {page.status for page in pages} == {410}


@with_server
async def test_no_page_contains_the_secret_and_no_header_but_that_of_the_redirect(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()

    answers = [
        await link.visitor.open(link.path),
        await link.visitor.send(link.path, {**form, "digest": "0"}),
        await link.visitor.send(link.path, form),
        await link.visitor.open(link.path),
    ]

    for answer in answers:
        assert link.secret not in answer.body.decode()
        assert answer.headers["referrer-policy"] == "strict-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert "set-cookie" not in answer.headers
    assert answers[2].headers["location"] == link.path


@with_server
async def test_no_log_contains_the_secret(
    server: LiveServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await a_link(server)
    caplog.set_level(logging.DEBUG)

    async def fail(*_: object) -> None:
        raise RuntimeError("the store is broken")

    await link.visitor.open(link.path)
    monkeypatch.setattr(server.rig.team.store, "find_by_name", fail)
    answer = await link.visitor.open(link.path)

    assert answer.status == 500
    assert "http_handler_failed" in str([record.__dict__ for record in caplog.records])
    assert link.secret not in str([record.__dict__ for record in caplog.records])


@with_server
async def test_a_large_form_is_read_for_a_link_that_works_and_refused_for_any_other(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form("answer", answer="No. " * 10_000)

    wrong = await Visitor(server).send("/console/a/pal_wrong", {**form, "more": "x" * 200_000})
    right = await Visitor(server).send(link.path, {**form, "more": "x" * 200_000})

    assert (wrong.status, right.status) == (413, 303)


@with_server
async def test_requests_by_a_link_are_not_counted_for_its_key(server: LiveServer) -> None:
    """Whoever a link was forwarded to cannot keep its person from working."""

    class Anything:
        scope = EVERYBODY
        untimed = while_suspended = True
        decides = False

    link = await a_link(server)
    authenticator = Authenticator(server.rig.team, limited=True, monotonic=lambda: 0.0)
    holder = await authenticator.check_link(link.secret, "peer")
    for _ in range(server.rig.limits.requests_burst):
        await authenticator.admit_link(Anything(), holder, "")
    with pytest.raises(RateLimited):
        await authenticator.admit_link(Anything(), holder, "")

    caller = await authenticator.caller(server.rig.secrets["key_default_human_ann"], "", "peer")

    assert caller.user == "ann"
