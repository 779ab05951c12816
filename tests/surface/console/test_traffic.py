"""Traffic in the console: who talked to whom, as a matrix and a drawing, for those who may see it."""

from __future__ import annotations

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import held, pair, person, said, tell
from tests.rigs.team import LiveServer, with_server
from tests.rigs.visitor import Visitor, signed_in, text_of


@with_server
async def test_traffic_is_a_matrix_and_a_drawing_by_agent_person_and_org_unit(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await said(alice, "bob")
    await held(bob, "alice", "We promise it.")
    visitor = await signed_in(server, KeyKind.AUDITOR)

    page = await visitor.open("/console/traffic")
    people = await visitor.open("/console/traffic?by=user")
    empty = await visitor.open("/console/traffic?since=2020-01-01&until=2020-01-01")
    wrong = await visitor.open("/console/traffic?since=yesterday")

    html = page.body.decode()
    assert "alice bob 1 0 0" in text_of(page)
    assert ("1 held" in text_of(page), 'class="flow held w1"' in html, "style=" in html) == (True, True, False)
    assert "ann ben 1 0 0" in text_of(people)
    assert "parley traffic --since 7d" in text_of(empty)
    assert (page.status, empty.status, wrong.status) == (200, 200, 422)


@with_server
async def test_a_person_sees_the_traffic_of_its_agents_and_a_stranger_nothing(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await said(alice, "bob")
    await held(bob, "alice", "We promise it.")
    await tell(alice, "nobody-knows-<b>")
    texts = {}
    for name in ("ann", "zoe"):
        await person(server, name)
        visitor = Visitor(server)
        assert (await visitor.sign_in(server.rig.secrets[f"key_default_human_{name}"])).status == 303
        texts[name] = text_of(await visitor.open("/console/traffic"))

    assert "alice bob 1 0 0" in texts["ann"]
    # What is held of somebody else's agent is not theirs to know.
    assert "1 held" not in texts["ann"]
    assert "No messages in this period" in texts["zoe"]
