"""Channels, conversations and agents of the console, as a browser without script shows them."""

from __future__ import annotations

from datetime import timedelta

from parley.domain.times import stamp
from parley.surfaces.console.routes import ROUTES
from parley.surfaces.http.server import all_routes
from tests.conformance.ocip.governed import MESSAGES, decide, held, pair, person
from tests.rigs.team import CHANNEL, LiveServer, with_server
from tests.rigs.visitor import Visitor, person_signed_in, signed_in, text_of

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> ag\u200bree \u202eevil"
PATH = f"/console/channels/{CHANNEL}"


@with_server
async def test_a_person_follows_its_agents_without_script(server: LiveServer) -> None:
    alice, bob = await pair(server)
    asked = (
        await alice.post(MESSAGES, {"message_type": "request", "to": "bob", "payload": {"text": "Is it done?"}})
    ).json
    visitor = await person_signed_in(server, "ann")

    listed = await visitor.open("/console/channels")
    waits = await visitor.open(PATH)
    await bob.post(f"{MESSAGES}/{asked['id']}/reply", {"payload": {"status": "ok", "shard": {"number": 4}}})
    answered = await visitor.open(PATH)
    message = await visitor.open(f"{PATH}/messages/{asked['id']}")
    foreign = await (await person_signed_in(server, "eve")).open(PATH)

    assert f"# {CHANNEL} A alice : Is it done?" in text_of(listed)
    assert f'href="{PATH}?seat=alice"' in listed.body.decode()
    assert "1 request waits for an answer" in text_of(waits)
    assert "waits for bob" in text_of(waits)
    assert "as alice sees it" in text_of(waits)
    assert "waits" not in text_of(answered)
    assert "status ok shard number 4" in text_of(answered)
    assert "Request answered" in text_of(message)
    # What was said to one agent is for nobody else's person.
    assert "Is it done?" not in text_of(foreign)


@with_server
async def test_the_list_says_in_words_what_was_decided(server: LiveServer) -> None:
    alice, _ = await pair(server)
    ann = await person(server, "ann")
    visitor = await person_signed_in(server, "ann")
    newest = []

    for decision, note in (("reject", ""), ("reject", "Too early."), ("approve", "")):
        waits = await held(alice, "bob", "We promise it.")
        await decide(ann, waits, decision, note=note)
        newest.append(text_of(await visitor.open("/console/channels")))

    assert "system : approval decided: rejected 1" in newest[0]
    assert "system : approval decided: rejected, Too early. 2" in newest[1]
    assert "system : approval decided: approved" in newest[2]
    assert not any("None" in page or "null" in page for page in newest)


@with_server
async def test_bodies_stay_text_and_long_ones_are_a_page_of_their_own(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await alice.post(MESSAGES, {"payload": {"text": HOSTILE, HOSTILE: [HOSTILE]}, "metadata": {"note": HOSTILE}})
    long = (await alice.post(MESSAGES, {"payload": {"text": "x" * 64_000 + " the end"}})).json
    visitor = await signed_in(server)

    page = await visitor.open(PATH)
    whole = await visitor.open(f"{PATH}/messages/{long['id']}")

    html = page.body.decode()
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "\u202e" not in html
    assert '<span class="hid" title="zero width space">U+200B</span>' in html
    assert "Show the whole message (64,008 characters)" in text_of(page)
    assert len(html) < 40_000
    assert "x" * 64_000 + " the end</div>" in whole.body.decode()


@with_server
async def test_older_messages_and_those_after_one_are_pages_with_addresses(server: LiveServer) -> None:
    alice, _ = await pair(server)
    for first in (0, 100):
        await alice.post(
            f"/channels/{CHANNEL}/batch",
            {"messages": [{"sender": "alice", "payload": {"text": f"say-{n}"}} for n in range(first, first + 75)]},
        )
    visitor = await signed_in(server)

    newest = await visitor.open(PATH)
    older = await visitor.open(f"{PATH}?before=51")
    after = await visitor.open(f"{PATH}?since=148")

    assert 'href="/console/channels/chan_1?before=51"' in newest.body.decode()
    assert ("say-174" in text_of(newest), "say-49 " in text_of(newest)) == (True, False)
    assert ("say-49 " in text_of(older), "say-50 " in text_of(older)) == (True, False)
    assert [word for word in text_of(after).split() if word.startswith("say-")] == ["say-173", "say-174"]
    # What is said now does not belong at the end of an older page.
    assert "data-last" in newest.body.decode()
    assert "data-last" not in older.body.decode() + after.body.decode()


@with_server
async def test_a_conversation_is_shown_across_channels(server: LiveServer) -> None:
    alice, _ = await pair(server)
    await server.rig.channel("chan_2", label="other-room")
    for channel in (CHANNEL, "chan_2"):
        body = {"payload": {"text": f"in {channel}"}, "metadata": {"conversation_id": "conv-7"}}
        await alice.post(f"/channels/{channel}/messages", body)
    visitor = await person_signed_in(server, "ann")

    channel_page = await visitor.open(PATH)
    thread = await visitor.open("/console/threads/conv-7")

    assert 'href="/console/threads/conv-7?seat=alice"' in channel_page.body.decode()
    assert "2 messages in 2 channels" in text_of(thread)
    assert "# other-room" in text_of(thread)


@with_server
async def test_an_agent_is_green_only_while_it_is_there(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await held(alice, "bob")
    await alice.post(MESSAGES, {"message_type": "request", "to": "bob", "payload": {"text": "Is it done?"}})
    visitor = await signed_in(server)

    before = await visitor.open("/console/agents")
    async with bob.events("/agents/bob/subscribe"):
        during = await visitor.open("/console/agents")
        own = await visitor.open("/console/agents/bob")
    after = await visitor.open("/console/agents/bob")

    assert ("0 of 2 online" in text_of(before), "never seen" in text_of(before)) == (True, True)
    assert ("1 of 2 online" in text_of(during), 'class="presence on"' in during.body.decode()) == (True, True)
    assert "Last seen now Acts for B ben Org unit engineering" in text_of(own)
    assert "Open requests 1" in text_of(own)
    assert "enabled true enterprise/default" in text_of(own)
    assert "/console/suspend?what=agent&amp;name=bob" in own.body.decode()
    assert 'class="presence on"' not in after.body.decode()


@with_server
async def test_an_admin_begins_with_five_numbers_and_what_needs_somebody(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await held(alice, "bob", "We promise it.")
    asked = {"message_type": "request", "to": "bob", "payload": {"text": "Is it done?"}}
    expires_at = stamp(server.rig.clock.at + timedelta(minutes=5))
    await alice.post(MESSAGES, {**asked, "expires_at": expires_at})
    server.rig.clock.pass_by(seconds=600)
    visitor, ann = await signed_in(server), await person_signed_in(server, "ann")

    async with bob.events("/agents/bob/subscribe"):
        page = text_of(await visitor.open("/console"))
    person_begins = await ann.open("/console")

    assert "Waiting approvals 1 for a person Late requests 1 in the last 24 hours Agents online 1 of 2" in page
    assert "Denied 0 in the last hour Servers 1 all is well" in page
    assert "approval alice to bob: We promise it." in page
    assert "late request alice asked bob: Is it done?" in page
    assert person_begins.headers["location"] == "/console/approvals"


@with_server
async def test_an_address_is_decoded_once_and_no_step_of_it_is_another_path_of_the_api(server: LiveServer) -> None:
    visitor = await signed_in(server)
    paths = [route.path.split("/") for route in all_routes() if route.method == "GET"]
    # What stands in the API where another path has an id.
    literal = sorted({path[2] for path in paths if len(path) > 2 and "{" not in path[2]})
    pages = [route.steps for route in ROUTES if "*" in route.steps]

    for step in [*literal, "..", "a%2Fb", "%252e%252e%252f", "%E2%80%AE"]:
        for steps in pages:
            path = "/".join(["/console", *[step if part == "*" else part for part in steps]])
            assert (await visitor.open(path)).status < 500, path

    shown = text_of(await visitor.open("/console/policies/50%2525/a%2Fb%3Fc"))
    away = await Visitor(server).open("/console/policies/50%2525/a%2Fb%3Fc")
    assert "50%25/a/b?c" in shown
    assert away.headers["location"] == "/console/login?next=%2Fconsole%2Fpolicies%2F50%252525%2Fa%252Fb%253Fc"
