"""The approvals of the console: what waits, one held message to the letter, and decisions by form."""

from __future__ import annotations

from parley.domain.directory.callers import KeyKind
from tests.conformance.ocip.governed import admin_of, decide, held, inbox, pair, person, put_policy
from tests.rigs.team import CHANNEL, LiveServer, with_server
from tests.rigs.visitor import Visitor, field_of, person_signed_in, text_of

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \"' &amp; ]]> [a](javascript:x)"


@with_server
async def test_a_person_decides_without_script(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob", "We promise it.")
    visitor = await person_signed_in(server)
    path = f"/console/approvals/{waits['approval']}"

    queue = await visitor.open("/console/approvals")
    page = await visitor.open(path)
    sent = await visitor.send(path, {"decision": "approve", "digest": field_of(page, "digest"), "note": "fine with me"})
    after = await visitor.open(path)

    assert "alice → bob" in text_of(queue)
    assert f'href="{path}"' in queue.body.decode()
    assert "We promise it." in text_of(page).replace("promise", " promise ").replace("  ", " ")
    assert (sent.status, sent.headers["location"]) == (303, path)
    assert "Approved by ann" in text_of(after)
    assert "Note: fine with me" in text_of(after)
    assert 'id="decide"' not in after.body.decode()
    assert [message["payload"] for message in await inbox(bob)] == [{"text": "We promise it."}]


@with_server
async def test_markup_of_a_message_stays_text(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob", f"We promise. {HOSTILE}", note=HOSTILE)
    visitor = await person_signed_in(server)

    queue = (await visitor.open("/console/approvals")).body.decode()
    page = (await visitor.open(f"/console/approvals/{waits['approval']}")).body.decode()

    for html in (queue, page):
        assert "<script>alert" not in html
        assert "<img src=x" not in html
    assert "onerror=alert(2)&gt;" in page


@with_server
async def test_nothing_of_a_long_message_is_cut_off(server: LiveServer) -> None:
    alice, _ = await pair(server)
    words = "We promise. " + "x" * 60_000 + " the end"
    waits = await held(alice, "bob", words)

    page = await (await person_signed_in(server)).open(f"/console/approvals/{waits['approval']}")

    assert "x" * 60_000 + " the end</div>" in page.body.decode()


@with_server
async def test_hidden_characters_and_mixed_scripts_are_marked_where_they_are(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob", "We prom\u200bise it\u202e at \u0430pple.com")

    page = await (await person_signed_in(server)).open(f"/console/approvals/{waits['approval']}")

    html = page.body.decode()
    mark = '<span class="hid" title="zero width space">U+200B</span>'
    assert f'<mark class="detected" title="promise">prom{mark}ise</mark>' in html
    assert '<mark class="confusable" title="Cyrillic, Latin">\u0430pple</mark>' in html
    assert "2 characters cannot be seen." in text_of(page)
    assert "\u202e" not in html


@with_server
async def test_a_decision_about_what_has_changed_is_refused_with_what_was_typed_kept(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    visitor = await person_signed_in(server)

    answer = await visitor.send(
        f"/console/approvals/{waits['approval']}", {"decision": "approve", "digest": "0" * 64, "note": 'keep "this"'}
    )

    assert answer.status == 409
    assert "Not decided: " in text_of(answer)
    assert field_of(answer, "digest") == waits["digest"]
    assert 'value="keep &quot;this&quot;"' in answer.body.decode()


@with_server
async def test_what_another_person_decided_meanwhile_is_shown(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    visitor = await person_signed_in(server)
    await decide(await person(server, "ann"), waits, "reject", note="not now")

    answer = await visitor.send(
        f"/console/approvals/{waits['approval']}", {"decision": "approve", "digest": waits["digest"]}
    )

    assert answer.status == 409
    assert "approval_decided" in text_of(answer)
    assert "Rejected by ann" in text_of(answer)


@with_server
async def test_an_answer_of_the_person_is_sent_in_place_of_the_message(server: LiveServer) -> None:
    alice, bob = await pair(server)
    waits = await held(alice, "bob")
    visitor = await person_signed_in(server)

    sent = await visitor.send(
        f"/console/approvals/{waits['approval']}",
        {"decision": "answer", "digest": waits["digest"], "answer": "We cannot."},
    )

    assert sent.status == 303
    assert [message["payload"] for message in await inbox(bob)] == [{"text": "We cannot."}]


@with_server
async def test_an_admin_reads_and_has_no_form(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    await admin_of(server)
    visitor = Visitor(server)
    await visitor.sign_in(await server.rig.key("", KeyKind.ADMIN))
    path = f"/console/approvals/{waits['approval']}"

    page = await visitor.open(path)
    tried = await visitor.send(path, {"decision": "approve", "digest": waits["digest"]})

    assert "Only a person can decide, and you have signed in with a key that is no person's." in text_of(page)
    assert 'id="decide"' not in page.body.decode()
    assert (tried.status, "human_required" in text_of(tried)) == (403, True)


@with_server
async def test_enter_in_the_note_presses_a_button_that_does_nothing(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")

    page = (await (await person_signed_in(server)).open(f"/console/approvals/{waits['approval']}")).body.decode()

    form = page.partition('id="decide"')[2]
    assert form.index("<button disabled hidden>") < form.index('value="approve"')


@with_server
async def test_the_approvals_of_other_people_are_not_there(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    visitor = await person_signed_in(server, "dee")

    queue = await visitor.open("/console/approvals")
    page = await visitor.open(f"/console/approvals/{waits['approval']}")

    assert "Nothing waits for you." in text_of(queue)
    assert (page.status, "alice" in text_of(page)) == (404, False)


@with_server
async def test_changed_policies_are_told_before_somebody_decides(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")
    await put_policy(server, "enabled: true\nmax_rounds: 2")

    page = await (await person_signed_in(server)).open(f"/console/approvals/{waits['approval']}")

    assert "The policies have changed since this was held." in text_of(page)


@with_server
async def test_a_person_sees_which_channel_and_intent_a_message_goes_to(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob")

    page = await (await person_signed_in(server)).open(f"/console/approvals/{waits['approval']}")

    channel = (await alice.get(f"/channels/{CHANNEL}")).json
    intent = (await alice.get(f"/intents/{channel['intent_id']}")).json
    assert f"Channel {channel['name']} Intent {intent['title']}" in text_of(page)


@with_server
async def test_a_commitment_in_mixed_letters_is_marked_as_both(server: LiveServer) -> None:
    alice, _ = await pair(server)
    waits = await held(alice, "bob", "We \u0430gree to it.")

    page = await (await person_signed_in(server)).open(f"/console/approvals/{waits['approval']}")

    assert '<mark class="detected confusable" title="agree; Cyrillic, Latin">\u0430gree</mark>' in page.body.decode()


@with_server
async def test_a_text_with_more_commitment_words_than_are_marked_says_so(server: LiveServer) -> None:
    alice, _ = await pair(server)
    visitor = await person_signed_in(server, "ann")
    pages = []

    for count in (49, 63):
        waits = await held(alice, "bob", "We promise. " * count)
        pages.append(await visitor.open(f"/console/approvals/{waits['approval']}"))

    said = "Only 50 commitment words of a text are marked. There may be more"
    assert [said in text_of(page) for page in pages] == [False, True]
    assert [page.body.decode().count('<mark class="detected"') for page in pages] == [49, 50]
    # Below the message.
    html = pages[1].body.decode()
    assert html.index("We <mark") < html.index("Only 50 commitment") < html.index("As JSON, to the letter")
