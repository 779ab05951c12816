"""Commands on a server take titles, names and ends of ids; what is not unique or not there is said at once."""

from __future__ import annotations

import pytest

from tests.surface.cli.team_stage import Team

TITLE = "A test's own"


def a_channel(team: Team, name: str = "questions") -> str:
    return team.channel(name, "--agent", "claude")


# ---------------------------------------------------------------- intents and channels


@pytest.mark.parametrize(
    "words",
    [
        ("intent", "show"),
        ("intent", "events"),
        ("intent", "assign", "codex"),
        ("channel", "list"),
        ("channel", "create", "new"),
    ],
)
@pytest.mark.parametrize("spelling", ["title", "end", "lower end", "id", "none"])
def test_an_intent_is_named_by_its_title_the_end_of_its_id_or_not_at_all(
    lone_team: Team, words: tuple[str, ...], spelling: str
) -> None:
    intent = lone_team.intent
    names = {"title": [TITLE], "end": [intent[-5:]], "lower end": [intent[-5:].lower()], "id": [intent], "none": []}

    document = lone_team.said(*words[:2], *names[spelling], *words[2:])

    mentioned = str(document) if words[1] != "list" else intent
    assert intent in mentioned


def test_a_channel_is_named_by_its_name_or_the_end_of_its_id(lone_team: Team) -> None:
    channel = a_channel(lone_team)

    for name in ("questions", channel[-4:], channel):
        assert lone_team.said("channel", "show", name)["id"] == channel
        assert lone_team.said("channel", "show", name, "--intent", TITLE)["id"] == channel


def test_a_channel_is_posted_to_and_asked_in_without_its_intent(lone_team: Team) -> None:
    channel = a_channel(lone_team)
    lone_team.said("agent", "register", "codex")

    told = lone_team.said("post", "questions", "--to", "codex", "hello", "-a", "claude")
    to_all = lone_team.said("post", "questions", "hello", "-a", "claude")
    asked = lone_team.run("ask", "questions", "--to", "nobody", "hello?", "-a", "claude")

    assert (told["channel_id"], told["to"]) == (channel, "codex")
    assert (to_all["channel_id"], to_all["to"]) == (channel, None)
    assert (asked.code, asked.error) == (3, "no_responders")


def test_an_unknown_title_is_answered_at_once_with_similar_ones(lone_team: Team) -> None:
    ran = lone_team.run("channel", "list", "A tests own")
    other = lone_team.run("channel", "list", "Zebra")

    assert ran.err == f'error: no intent "A tests own" that you can see (did you mean "{TITLE}"?) [not_found]\n'
    assert other.err == 'error: no intent "Zebra" that you can see [not_found]\nhint: see parley intent list\n'
    assert (ran.code, other.code) == (3, 3)


def test_an_unknown_channel_is_answered_with_similar_ones(lone_team: Team) -> None:
    a_channel(lone_team, "goals")

    ran = lone_team.run("messages", "gaols")
    other = lone_team.run("messages", "zebra")

    assert ran.err == f'error: no channel "gaols" in intent "{TITLE}" (did you mean "goals"?) [not_found]\n'
    assert other.err.endswith(f" [not_found]\nhint: see parley channel list '{TITLE}'\n")
    assert (ran.code, other.code) == (3, 3)


def test_a_title_that_two_intents_have_is_refused_with_both(lone_team: Team) -> None:
    twin = lone_team.said("intent", "create", TITLE, "-a", "claude")["id"]

    ran = lone_team.run("channel", "list", TITLE)

    assert (ran.code, ran.error) == (4, "ambiguous")
    assert f'"{TITLE}" fits 2 intents: ' in ran.err
    assert f"[{twin[-4:]}] (active, by claude)" in ran.err
    assert lone_team.said("intent", "show", twin[-6:])["id"] == twin


def test_a_title_means_the_intent_that_is_not_over(lone_team: Team) -> None:
    lone_team.said("intent", "complete", TITLE)
    successor = lone_team.said("intent", "create", TITLE)["id"]

    assert lone_team.said("intent", "show", TITLE)["id"] == successor


# ---------------------------------------------------------------- the default intent


def test_the_variable_names_the_default_intent(lone_team: Team) -> None:
    other = lone_team.said("intent", "create", "Other")["id"]
    lone_team.stage.patch.setenv("PARLEY_INTENT", "Other")

    assert lone_team.said("channel", "create", "new")["intent_id"] == other
    assert lone_team.said("channel", "create", TITLE, "new")["intent_id"] == lone_team.intent


def test_of_several_intents_the_one_called_default_is_meant(lone_team: Team) -> None:
    made = lone_team.said("intent", "create", "default", "-a", "claude")["id"]

    assert lone_team.said("intent", "show")["id"] == made


def test_without_any_intent_one_is_created_in_which_only_its_creator_takes_part(lone_team: Team) -> None:
    lone_team.said("intent", "complete", TITLE)
    lone_team.said("agent", "register", "codex")
    note = (
        "note: created the intent default; only claude takes part in it so far\n"
        "hint: let others in: parley intent assign default AGENT\n"
    )

    looked = lone_team.run("channel", "list")
    posted = lone_team.run("post", "questions", "hello", "--to", "*", "-a", "claude")
    refused = lone_team.run("ask", "questions", "hello?", "--to", "codex", "-a", "claude")
    lone_team.said("intent", "assign", "default", "codex", "-a", "claude")
    accepted = lone_team.run("post", "questions", "hello?", "--to", "codex", "-a", "claude")

    assert (
        looked.err
        == "error: no intent that you can see [not_found]\nhint: create one with: parley intent create TITLE\n"
    )
    assert (posted.code, posted.err) == (0, note)
    assert refused.code != 0
    assert "parley intent assign" in refused.err
    assert (accepted.code, accepted.err) == (0, "")
    shown = lone_team.said("intent", "show", "default")
    assert (shown["status"], shown["created_by"]) == ("active", "claude")


def test_a_message_that_could_reach_nobody_creates_no_intent(lone_team: Team) -> None:
    lone_team.said("intent", "complete", TITLE)
    lone_team.said("agent", "register", "research")
    before = lone_team.said("intent", "list")

    ran = lone_team.run("post", "questions", "--agent", "reserch", "--to", "data-agent", "hi")

    assert (ran.code, ran.err) == (
        3,
        (
            'note: no agent "reserch" is registered yet (did you mean "research"?)\n'
            "error: no intent that reserch can see [not_found]\n"
            "hint: create one with: parley intent create TITLE --access data-agent\n"
        ),
    )
    assert lone_team.said("intent", "list") == before


@pytest.mark.parametrize(
    ("to", "meant"),
    [
        ("researcher", '"role:researcher" or "any:researcher"'),
        ("rol:researcher", '"role:researcher"'),
    ],
)
def test_the_name_of_a_role_leads_to_its_address(lone_team: Team, to: str, meant: str) -> None:
    lone_team.said("agent", "register", "ann", "--role", "researcher")
    a_channel(lone_team, "plan")

    ran = lone_team.run("ask", "plan", "--to", to, "--agent", "claude", "--field", "topic=x")

    assert f"(did you mean {meant}?)" in ran.err


def test_a_question_to_a_channel_alone_says_that_it_needs_an_agent(lone_team: Team) -> None:
    a_channel(lone_team, "plan")

    ran = lone_team.run("ask", "plan", "--agent", "claude", "--field", "topic=x")

    assert ran.err == 'error: "plan" is a channel: add --to AGENT [invalid]\n'


def test_intents_of_direct_channels_are_not_the_default(lone_team: Team) -> None:
    lone_team.said("agent", "register", "codex")
    lone_team.said("post", "codex", "hello", "-a", "claude")

    assert lone_team.said("intent", "show", "-a", "claude")["id"] == lone_team.intent


# ---------------------------------------------------------------- agents and channels of one name


def test_a_name_that_is_an_agent_and_a_channel_is_refused(lone_team: Team) -> None:
    a_channel(lone_team, "codex")
    lone_team.said("agent", "register", "codex")

    posted = lone_team.run("post", "codex", "hello", "-a", "claude")
    read = lone_team.run("messages", "codex", "-a", "claude")
    said_directly = lone_team.said("post", "codex", "hello", "--to", "codex", "-a", "claude")

    both = f'error: "codex" is an agent, and a channel in intent "{TITLE}" [ambiguous]'
    assert posted.err == f"{both}\nhint: for the agent add --to codex, for the channel --intent '{TITLE}'\n"
    assert read.err == f"{both}\nhint: for the agent add --direct, for the channel --intent '{TITLE}'\n"
    assert [one["id"] for one in lone_team.said("messages", "codex", "--direct", "-a", "claude")] == [
        said_directly["id"]
    ]
    assert lone_team.said("messages", "codex", "--intent", TITLE, "-a", "claude") == []


def test_messages_of_an_agent_are_those_with_you(lone_team: Team) -> None:
    lone_team.said("agent", "register", "codex")
    to_codex = lone_team.said("post", "codex", "hello", "-a", "claude")["id"]
    from_codex = lone_team.said("post", "claude", "hi", "-a", "codex")["id"]

    assert [one["id"] for one in lone_team.said("messages", "codex", "-a", "claude")] == [to_codex, from_codex]


def test_an_unknown_agent_is_named_with_similar_ones(lone_team: Team) -> None:
    lone_team.said("agent", "register", "codex")

    shown = lone_team.run("agent", "show", "cdex", "--server")
    left = lone_team.run("agent", "leave", "zebra")

    assert shown.err == 'error: no agent "cdex" (did you mean "codex"?) [not_found]\n'
    assert left.err == 'error: no agent "zebra" [not_found]\nhint: see parley agent list --server\n'


# ---------------------------------------------------------------- messages, timers, keys, tenants


def test_a_request_is_answered_by_the_end_of_its_id(lone_team: Team) -> None:
    a_channel(lone_team)
    lone_team.said("agent", "register", "codex")
    words = ("questions", "--to", "codex", "-a", "claude")
    first = lone_team.said("post", *words, "--type", "request", "one?")["id"]
    second = lone_team.said("post", *words, "--type", "request", "two?")["id"]

    answered = lone_team.said("answer", first[-5:], "--channel", "questions", "--field", "a=b", "-a", "codex")
    withdrawn = lone_team.said("withdraw", second[-5:], "--channel", "questions", "-a", "claude")
    unknown = lone_team.run("answer", "ZZZZZ", "--channel", "questions", "--field", "a=b", "-a", "codex")

    assert answered["correlation_id"] == first
    assert withdrawn["id"] == second
    assert unknown.err == ('error: no message "ZZZZZ" in this channel [not_found]\nhint: see parley messages CHANNEL\n')


def test_a_timer_is_cancelled_by_the_end_of_its_id(lone_team: Team) -> None:
    a_channel(lone_team)
    timer = lone_team.said("post", "questions", "later", "--to", "codex", "--in", "1h", "-a", "claude")["id"]

    cancelled = lone_team.said("timer", "cancel", timer[-5:], "-a", "claude")

    assert cancelled == {"status": "cancelled", "id": timer}


def test_a_key_is_named_by_its_holder_and_only_if_that_has_one(lone_team: Team) -> None:
    first = lone_team.said("key", "create", "--agent", "codex")["id"]
    rotated = lone_team.said("key", "rotate", "codex")["id"]
    second = lone_team.said("key", "create", "--agent", "codex")["id"]

    both = lone_team.run("key", "revoke", "codex")
    by_end = lone_team.said("key", "revoke", rotated[-5:])
    by_holder = lone_team.said("key", "revoke", "codex")

    assert first != rotated
    assert (both.code, both.error) == (4, "ambiguous")
    assert f"[{rotated[-4:]}] (agent)" in both.err
    assert (by_end["id"], by_holder["id"]) == (rotated, second)


def test_tenants_are_listed_for_the_operator(lone_team: Team) -> None:
    lone_team.said("tenant", "create", "acme", "--title", "Acme Ltd.")

    lines = lone_team.run("tenant", "list").out.splitlines()

    assert lines[0].split() == ["TENANT", "AGE", "NAME"]
    assert {line.split()[0] for line in lines[1:]} == {"default", "acme"}
