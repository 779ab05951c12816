"""Links to approvals over the API: who creates one, what is kept of it, and when it ends."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from parley.adapters.process import SystemIds
from parley.app.team.decisions import approvals, links
from parley.app.team.decisions.approvals import ApprovalDecision
from parley.app.team.decisions.links import LINKS_OF_AN_APPROVAL
from parley.app.team.work import sweep
from parley.domain.directory.callers import NO_TENANT, Caller, KeyKind, key_digest
from parley.domain.errors.team import ScopeRequired, Unauthorized
from parley.domain.exchange.approval import Decision
from parley.domain.exchange.link import ApprovalLink
from parley.domain.store.changes import RecordQuery
from parley.domain.times import from_stamp, stamp
from parley.surfaces.console.loading import load_console
from parley.surfaces.http.http1.message import Request
from parley.surfaces.http.origins import LOCAL_NAMES, Origins
from parley.surfaces.http.server import Reach, serve
from tests.conformance.ocip.governed import admin_of, audit_of, decide, held, inbox, pair, person, put_policy, refused
from tests.rigs.approval_links import a_link, link_to
from tests.rigs.http_client import Client
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import Visitor

pytestmark = pytest.mark.both_stores


async def stored(server: LiveServer) -> tuple[ApprovalLink, ...]:
    return await server.rig.team.store.find(ApprovalLink, NO_TENANT, RecordQuery())


@with_server
async def test_a_person_creates_a_link_to_what_it_may_decide_and_only_its_digest_is_kept(server: LiveServer) -> None:
    server.rig.team.approval_links = True
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    ann = await person(server, "ann")

    answer = await ann.post(f"/approvals/{waits['approval']}/link")

    assert (answer.status, answer.json["approval"]) == (201, waits["approval"])
    secret = answer.json["path"].removeprefix("/console/a/")
    (link,) = await stored(server)
    assert secret.startswith("pal_")
    assert link.digest == key_digest(secret)
    assert (link.content_digest, link.key_id, link.user_id) == (waits["digest"], "key_default_human_ann", "ann")
    assert secret not in str(link)
    # It ends after a day; the approval may end before.
    assert from_stamp(link.expires_at) == server.rig.clock.at + timedelta(hours=24)
    approval = (await ann.get(f"/approvals/{waits['approval']}")).json
    assert answer.json["expires_at"] <= approval["expires_at"]


@with_server
async def test_a_secret_of_a_link_has_256_random_bits(server: LiveServer) -> None:
    server.rig.team.ids = SystemIds(lambda: 1)
    link = await a_link(server)

    assert len(link.secret.removeprefix("pal_")) == 43
    assert await link_to(link.ann, link.approval) != link.path


@with_server
async def test_links_are_off_until_the_operator_allows_them(server: LiveServer) -> None:
    assert server.rig.team.approval_links is False
    alice, _ = await pair(server)
    waits = await held(alice, "bob")

    answer = await (await person(server, "ann")).post(f"/approvals/{waits['approval']}/link")

    assert refused(answer) == (403, "approval_links_off")
    assert 'approval_links = "decide"' in answer.json["detail"]
    assert await stored(server) == ()


@with_server
async def test_only_a_person_who_may_decide_creates_a_link(server: LiveServer) -> None:
    server.rig.team.approval_links = True
    alice, bob = await pair(server)
    waits = await held(alice, "bob")
    path = f"/approvals/{waits['approval']}/link"
    service = await server.client("", KeyKind.SERVICE)

    for client in (alice, bob, await admin_of(server), service):
        assert refused(await client.post(path)) == (403, "human_required")
    assert refused(await (await person(server, "dee")).post(path)) == (404, "not_found")
    assert refused(await (await person(server, "ann")).post("/approvals/appr_none/link")) == (404, "not_found")
    assert refused(await server.with_key("").post(path)) == (401, "unauthorized")
    await put_policy(server, "enabled: true\nself_approval: false\napprovers: [eve]")
    assert refused(await (await person(server, "ann")).post(path)) == (403, "self_approval")
    eve = await person(server, "eve")
    assert refused(await decide(eve, waits, "approve")) == (409, "approval_stale")  # which she has to look at again
    assert (await eve.post(path)).status == 201


@with_server
async def test_a_link_to_what_is_decided_or_expired_is_refused(server: LiveServer) -> None:
    server.rig.team.approval_links = True
    alice, _ = await pair(server)
    first = await held(alice, "bob", "We promise one.")
    ann = await person(server, "ann")
    await decide(ann, first, "reject")
    second = await held(alice, "bob", "We promise two.", conversation_id="conv-2")
    server.rig.clock.pass_by(seconds=timedelta(days=60).total_seconds())

    for waits in (first, second):
        assert refused(await ann.post(f"/approvals/{waits['approval']}/link")) == (409, "approval_decided")


@with_server
async def test_a_link_never_outlives_a_key_that_expires(server: LiveServer) -> None:
    server.rig.team.approval_links = True
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    end = stamp(server.rig.team.now() + timedelta(minutes=5))
    key = (await (await admin_of(server)).post("/keys", {"kind": "human", "user_id": "ann", "expires_at": end})).json

    answer = await server.with_key(key["key"]).post(f"/approvals/{waits['approval']}/link")

    assert from_stamp(answer.json["expires_at"]) == from_stamp(end)
    server.rig.clock.pass_by(seconds=300)
    with pytest.raises(Unauthorized):
        await links.find(server.rig.team, answer.json["path"].rpartition("/")[2])


@with_server
async def test_creating_and_using_a_link_is_in_the_audit_log_without_its_secret(server: LiveServer) -> None:
    link = await a_link(server)

    await link.visitor.send(link.path, await link.form())

    entries = await audit_of(await admin_of(server))
    (created,) = [entry for entry in entries if entry["action"] == "approval_link_created"]
    (decided,) = [entry for entry in entries if entry["action"] == "approval_decided"]
    assert (created["approval"], created["digest"]) == (link.approval, link.waits["digest"])
    assert (created["user_id"], created["key"], created["side"]) == ("ann", "key_default_human_ann", "@tenant")
    assert (decided["via"], decided["link"], decided["key"]) == ("link", created["link"], "key_default_human_ann")
    assert (decided["decision"], decided["actor"]) == ("approved", "ann")
    assert link.secret not in str(entries)


@pytest.mark.parametrize("decision", ["approve", "reject", "answer"])
@with_server
async def test_a_decision_by_key_says_nothing_of_a_link(server: LiveServer, decision: str) -> None:
    link = await a_link(server)

    assert (await decide(link.ann, link.waits, decision, answer="No.")).status == 200

    (decided,) = await audit_of(await admin_of(server), action="approval_decided")
    assert not {"via", "link"} & decided.keys()


@pytest.mark.parametrize("decision", ["approve", "reject", "answer"])
@with_server
async def test_every_decision_by_link_says_so(server: LiveServer, decision: str) -> None:
    link = await a_link(server)

    answer = await link.visitor.send(link.path, await link.form(decision, answer="No."))

    assert answer.status == 303
    (decided,) = await audit_of(await admin_of(server), action="approval_decided")
    assert decided["via"] == "link"


@with_server
async def test_the_oldest_link_of_a_person_to_one_approval_gives_way(server: LiveServer) -> None:
    first = await a_link(server)
    later = [await link_to(first.ann, first.approval) for _ in range(LINKS_OF_AN_APPROVAL)]

    assert len(await stored(server)) == LINKS_OF_AN_APPROVAL
    with pytest.raises(Unauthorized):
        await links.find(server.rig.team, first.secret)
    assert (await links.find(server.rig.team, later[0].rpartition("/")[2])).link.approval_id == first.approval


@with_server
async def test_links_that_are_created_at_once_are_counted_one_after_the_other(server: LiveServer) -> None:
    first = await a_link(server)
    team = server.rig.team
    ann = Caller("default", "ann", KeyKind.HUMAN, "key_default_human_ann", "ann")

    await asyncio.gather(*[links.create(team, ann, first.approval) for _ in range(3 * LINKS_OF_AN_APPROVAL)])

    assert len(await stored(server)) == LINKS_OF_AN_APPROVAL


@with_server
async def test_no_link_is_created_to_what_has_to_be_looked_at_again(server: LiveServer) -> None:
    link = await a_link(server)
    await put_policy(server, "enabled: true\nmax_rounds: 2")

    refused = await link.ann.post(f"/approvals/{link.approval}/link")

    assert (refused.status, refused.code) == (409, "approval_stale")


@with_server
async def test_what_a_rejection_by_link_closes_with_it_says_so(server: LiveServer) -> None:
    link = await a_link(server)
    other = await held(link.alice, "bob", "We promise more.", conversation_id=link.waits["conversation_id"])
    answer = await link.visitor.send(link.path, await link.form("reject"))
    assert answer.status == 303, answer

    entries = await audit_of(await admin_of(server), action="approval_decided")

    assert {entry["approval"] for entry in entries} == {link.approval, other["approval"]}
    assert {(entry["via"], bool(entry["link"]), bool(entry["key"])) for entry in entries} == {("link", True, True)}


@with_server
async def test_links_that_have_ended_are_swept(server: LiveServer) -> None:
    await a_link(server)
    assert len(await stored(server)) == 1
    await sweep.sweep(server.rig.team)
    assert len(await stored(server)) == 1

    server.rig.clock.pass_by(seconds=timedelta(hours=24).total_seconds())
    await sweep.sweep(server.rig.team)

    assert await stored(server) == ()


@with_server
async def test_a_link_works_after_a_restart_of_the_server(server: LiveServer) -> None:
    link = await a_link(server)

    await server.restart()
    server.rig.team.approval_links = True

    assert (await links.find(server.rig.team, link.secret)).link.approval_id == link.approval


@with_server
async def test_a_decision_by_link_is_checked_where_it_is_made(server: LiveServer) -> None:
    """Also without the page: a caller by link decides about its own approval, as it was, and nothing else."""
    link = await a_link(server)
    team = server.rig.team
    other = await held(link.alice, "bob", "We promise more.", conversation_id="conv-2")
    holder = await links.find(team, link.secret)
    caller = Caller("default", "ann", KeyKind.HUMAN, holder.key.id, "ann", link=holder.link.id)

    with pytest.raises(ScopeRequired):
        await approvals.decide(team, caller, other["approval"], ApprovalDecision(Decision.APPROVE, other["digest"]))
    with pytest.raises(Unauthorized):
        await approvals.decide(
            team,
            caller._replace(link="link_none"),
            link.approval,
            ApprovalDecision(Decision.APPROVE, link.waits["digest"]),
        )
    await (await admin_of(server)).delete("/keys/key_default_human_ann")
    with pytest.raises(Unauthorized):
        await approvals.decide(team, caller, link.approval, ApprovalDecision(Decision.REJECT, link.waits["digest"]))


@with_server
async def test_two_forms_at_the_same_moment_decide_once(server: LiveServer) -> None:
    link = await a_link(server)
    form = await link.form()

    answers = await asyncio.gather(*[Visitor(server).send(link.path, form) for _ in range(4)])

    assert sorted(answer.status for answer in answers) == [303, 409, 409, 409]
    assert [message["payload"] for message in await inbox(link.bob)] == [{"text": "We promise it."}]
    assert len(await audit_of(await admin_of(server), action="approval_decided")) == 1


@pytest.mark.parametrize(
    ("origins", "headers", "is_private"),
    [
        (Origins(LOCAL_NAMES), {b"host": b"127.0.0.1:8420"}, True),
        (Origins(LOCAL_NAMES), {b"host": b"localhost"}, True),
        (Origins(LOCAL_NAMES), {b"host": b"[::1]:8420"}, True),
        (Origins(LOCAL_NAMES, proxied=True), {b"host": b"127.0.0.1", b"x-forwarded-proto": b"http"}, False),
        (Origins(frozenset()), {b"host": b"parley.example:8420"}, False),
        (Origins(frozenset()), {b"host": b"10.0.0.7:8420"}, False),
        (Origins(frozenset()), {b"host": b"parley.example", b"x-forwarded-proto": b"https"}, True),
        (Origins(frozenset()), {b"host": b"parley.example", b"x-forwarded-proto": b"http"}, False),
        (Origins(frozenset(), encrypted=True), {b"host": b"parley.example"}, True),
        (Origins(frozenset(), proxied=True), {b"host": b"parley.example"}, True),
        (Origins(frozenset(), proxied=True), {b"host": b"parley.example", b"x-forwarded-proto": b"https"}, True),
        (Origins(frozenset(), proxied=True), {b"host": b"parley.example", b"x-forwarded-proto": b"http"}, False),
        (Origins(frozenset(), proxied=True), {b"host": b"p.example", b"x-forwarded-proto": b"HTTP, https"}, False),
    ],
)
def test_a_request_is_private_by_tls_through_a_proxy_or_on_this_machine(
    origins: Origins, headers: dict[bytes, bytes], is_private: bool
) -> None:
    request = Request("GET", "/", b"/", "", headers, b"", "10.0.0.1")

    assert origins.is_private(request) is is_private


@with_server
async def test_no_link_is_created_or_opened_in_the_clear_from_elsewhere(server: LiveServer) -> None:
    link = await a_link(server)
    reach, elsewhere = Reach(frozenset({"parley.example"})), {"Host": "parley.example"}
    listener = await serve(
        server.rig.team, "127.0.0.1", 0, now=time.time, monotonic=time.monotonic, reach=reach, limited=False,
        pages=load_console,
    )  # fmt: skip
    browser, ann = Client(listener.port), Client(listener.port, link.ann.headers["X-API-Key"])

    created = await ann.post(f"/approvals/{link.approval}/link", headers=elsewhere)
    opened = await browser.request("GET", link.path, headers=elsewhere)

    assert refused(created) == (403, "unsafe_mode")
    assert opened.status == 403
    assert "We promise" not in opened.body.decode()
    for client in (browser, ann):
        await client.close()
    await listener.drain(1.0)
