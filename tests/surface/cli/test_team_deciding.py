"""What people do about governed exchange: look at what waits, decide, watch exchanges, and pull the kill switch."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import pytest

from parley.domain.exchange.notice import APPROVAL_TOLD
from parley.domain.mailbox.listing import Item
from parley.domain.times import from_stamp, local_time
from tests.surface.cli.team_stage import PATIENCE, Server, Team, typed_on_terminal
from tests.surface.stage import PROJECT, Ran, Stage


@pytest.fixture
def team(ruled_team: Team) -> Team:
    """These tests change the rules: those of other tests stay as they were."""
    return ruled_team


T = TypeVar("T")
HIDDEN = "I commit\u200b to the \u202eplan"
HELD = 9


class People(NamedTuple):
    """An agent that acts for a person, whom it talks to, their keys, and the person's own."""

    team: Team
    channel: str
    agent: str
    other: str
    user: str
    agent_key: str
    user_key: str

    def hold(self, text: str = "I commit to the plan.", *more: str) -> dict[str, Any]:
        """A message that waits for the person."""
        ran = self.speak(text, *more, "--json")
        assert (ran.code, ran.err) == (HELD, ""), ran
        found: dict[str, Any] = ran.json
        return found

    def speak(self, text: str, *more: str) -> Ran:
        words = ["--type", "request", "--to", self.other, "--field", f"text={text}", "--key", self.agent_key, *more]
        return self.team.run("post", self.channel, "--purpose", "information_query", *words)

    def messages(self) -> list[dict[str, Any]]:
        """What agents and people said; what the server told the agent about it is not part of it."""
        return [one for one in self.team.said("messages", self.channel) if one["sender"] != "system"]

    def decide(self, *words: str) -> Ran:
        return self.team.run("approvals", *words, "--key", self.user_key)


@pytest.fixture
def people(team: Team) -> People:
    mark = uuid4().hex[:8]
    agent, other, user = f"alice-{mark}", f"bob-{mark}", f"ann-{mark}"
    team.said("agent", "register", agent, "--user", user)
    team.said("agent", "register", other, "--user", f"ben-{mark}")
    agent_key = team.said("key", "create", "--agent", agent)["key"]
    user_key = team.said("key", "create", "--kind", "human", "--user", user)["key"]
    return People(team, team.channel(), agent, other, user, agent_key, user_key)


# ---------------------------------------------------------------- speaking under rules


def test_a_message_under_rules_says_its_purpose_level_rounds_and_data(people: People, tmp_path: Path) -> None:
    items = tmp_path / "shared.yaml"
    items.write_text("# what is shared\n- source: crm\n  fields: [name, city]\n  classification: internal\n")

    words = ["--classification", "internal", "--conversation", "conv-figures", "--max-rounds", "2", "--data"]
    ran = people.speak("Which city?", *words, str(items), "--json")

    assert (ran.code, ran.err) == (0, "")
    metadata = ran.json["metadata"]
    assert (metadata["ocip"]["max_rounds"], metadata["ocip"]["conversation_id"]) == (2, "conv-figures")
    assert metadata["ocip_ext"]["exchange_type"] == "information_query"
    assert metadata["data"][0]["source"] == "crm"


@pytest.mark.parametrize(
    "text",
    [
        '[{"source": "crm", "fields": ["name"], "classification": "internal"}]',
        '{"data": [{"source": "crm", "fields": ["name"], "classification": "internal"}]}',
        "- source: crm\n  fields: [name]\n  classification: internal\n",
        "data:\n  - source: crm\n    fields: [name]\n    classification: internal\n",
    ],
)
def test_data_is_a_list_in_json_or_yaml(people: People, tmp_path: Path, text: str) -> None:
    file = tmp_path / "data"
    file.write_text(text)

    ran = people.speak("Which name?", "--data", str(file), "--json")

    assert (ran.code, ran.err) == (0, "")
    assert [one["source"] for one in ran.json["metadata"]["data"]] == ["crm"]


@pytest.mark.parametrize("text", ["", "crm", "{", '{"a": 1}', "a: 1\n", "- a: &x 1\n"])
def test_a_file_without_such_a_list_is_refused_before_anything_is_sent(
    people: People, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "data"
    file.write_text(text)

    ran = people.speak("Which name?", "--data", str(file))

    assert (ran.code, ran.error, ran.out) == (2, "invalid", "")
    assert str(file) in ran.err


def test_what_is_said_twice_about_a_message_is_refused(people: People) -> None:
    ran = people.speak("Which name?", "--metadata", '{"exchange_type": "meeting_scheduling"}')

    assert (ran.code, ran.error) == (2, "invalid")
    assert "exchange_type is given twice" in ran.err


def test_a_message_that_waits_for_a_person_says_so_in_one_line_and_by_its_exit_code(people: People) -> None:
    ran = people.speak("I commit to the plan.")

    assert (ran.code, ran.err) == (HELD, "")
    found = re.fullmatch(rf"Held for approval by {people.user}: (.+) \(approval (appr_\w+)\)\n", ran.out)
    assert found is not None, ran.out
    shown = json.loads(people.decide("show", found[2], "--json").out)
    assert (shown["status"], shown["reason"]) == ("pending", found[1])


def test_a_held_question_does_not_wait_for_an_answer(people: People) -> None:
    words = ["--to", people.other, "--field", "text=Do you approve?", "--key", people.agent_key]

    ran = people.team.run("ask", people.channel, "--purpose", "information_query", *words)
    as_json = people.team.run("ask", people.channel, "--purpose", "information_query", *words, "--json")

    assert (ran.code, ran.out.startswith(f"Held for approval by {people.user}: ")) == (HELD, True)
    assert (as_json.code, as_json.json["status"]) == (HELD, "held")


def test_a_held_answer_says_so_too(people: People) -> None:
    team = people.team
    asked = team.said(
        "post",
        people.channel,
        "--agent",
        people.other,
        "--to",
        people.agent,
        "--type",
        "request",
        "--purpose",
        "information_query",
        "--field",
        "text=Which plan?",
    )

    words = ["--channel", people.channel, "--field", "text=I approve the plan.", "--key", people.agent_key]
    ran = team.run("answer", asked["id"], *words)

    assert (ran.code, ran.out.startswith(f"Held for approval by {people.user}: ")) == (HELD, True), ran


# ---------------------------------------------------------------- approvals


def test_what_waits_is_listed_for_its_person_and_for_nobody_else(people: People) -> None:
    held = people.hold()
    stranger = people.team.said("key", "create", "--user", f"eve-{people.user}")["key"]

    ran = people.decide("list")
    other = people.team.run("approvals", "list", "--key", stranger)

    (line,) = [one for one in ran.out.splitlines() if held["approval"] in one]
    assert all(word in line for word in ("pending", "commitment", people.user, people.agent, people.other, "internal"))
    assert (other.code, other.out) == (0, "No messages held for approval.\n")
    assert people.decide("list", "--status", "approved").out == "No matching approvals.\n"


def test_show_prints_exactly_what_would_be_sent_with_hidden_characters_made_visible_and_flagged(people: People) -> None:
    held = people.hold(HIDDEN)

    shown = people.decide("show", held["approval"]).out

    assert '"text": "I commit⟨U+200B⟩ to the ⟨U+202E⟩plan"' in shown
    assert not re.search("[\u200b\u202e]", shown)
    assert "2 invisible characters" in shown
    assert "1 x U+200B ZERO WIDTH SPACE" in shown
    assert "1 x U+202E RIGHT-TO-LEFT OVERRIDE" in shown
    assert f"{people.agent} (acting for {people.user}) to {people.other}: pending" in shown
    for label, name in (("reason", "reason"), ("exchange", "exchange_id"), ("digest", "digest")):
        assert f"\n{label}: {held[name]}\n" in shown
    assert f"\nexpires: {local_time(from_stamp(held['expires_at']))}\n" in shown
    assert f"\nconversation: {held['conversation_id']}\n" in shown
    assert "\nkeywords: commit\n" in shown
    assert "classification: internal" in shown


def test_approve_shows_it_and_sends_the_digest_of_what_it_showed(people: People) -> None:
    held = people.hold()

    ran = people.decide("approve", held["approval"], "--yes", "--note", "agreed")

    assert (ran.code, ran.err) == (0, "")
    assert '"text": "I commit to the plan."' in ran.out
    assert ran.out.splitlines()[-1].startswith(f"Approved {held['approval']}: sent as msg_")
    shown = people.decide("show", held["approval"], "--json").json
    assert (shown["status"], shown["note"], shown["decided_by"]) == ("approved", "agreed", people.user)
    (said,) = people.messages()
    assert (said["id"], said["metadata"]["ocip"]["message_type"]) == (shown["message_id"], "agent-assisted")


def test_without_a_terminal_approving_needs_a_word(people: People) -> None:
    held = people.hold()

    ran = people.decide("approve", held["approval"])

    assert (ran.code, ran.error, ran.out) == (2, "invalid", "")
    assert "--yes" in ran.err
    assert people.decide("show", held["approval"], "--json").json["status"] == "pending"


def test_a_digest_of_something_else_approves_nothing(people: People) -> None:
    held = people.hold()

    wrong = people.decide("approve", held["approval"], "--digest", "0" * 64)
    right = people.decide("approve", held["approval"], "--digest", held["digest"], "--json")

    assert (wrong.code, wrong.error) == (4, "approval_stale")
    assert (right.code, right.json["status"]) == (0, "approved")


@pytest.mark.parametrize(
    ("typed", "code", "status"), [("y\n", 0, "approved"), ("\n", 1, "pending"), ("n\n", 1, "pending")]
)
def test_on_a_terminal_it_asks_and_only_a_yes_counts(people: People, typed: str, code: int, status: str) -> None:
    held = people.hold()

    ended, shown = typed_on_terminal(typed, "approvals", "approve", held["approval"], "--key", people.user_key)

    assert (ended, "Send exactly this message? [y/N]" in shown) == (code, True)
    assert "I commit to the plan." in shown
    assert people.decide("show", held["approval"], "--json").json["status"] == status


def test_no_key_but_a_persons_decides_and_says_so_in_one_line_before_anything_is_shown(people: People) -> None:
    held = people.hold()

    own, admin = people.agent_key, people.team.server.key
    for key, *words in ((own, "approve", "--yes"), (own, "reject"), (own, "answer", "no"), (admin, "approve", "--yes")):
        ran = people.team.run("approvals", words[0], held["approval"], *words[1:], "--key", key)
        assert (ran.code, ran.error, ran.out) == (6, "human_required", "")
        assert f"only {people.user} can decide this" in ran.err
    assert people.decide("show", held["approval"], "--json").json["status"] == "pending"


def test_who_may_decide_is_named_when_it_is_held_listed_and_shown(lone_team: Team) -> None:
    team = lone_team
    said = "agent-to-agent:\n  self_approval: false\n  approvers: [dee, cy]\n"
    team.said("policy", "put", "enterprise/default", "-", stdin=said.encode())
    for agent in ("alice", "bob"):
        team.said("agent", "register", agent, "--user", "ann")
    words = ["--agent", "alice", "--to", "bob", "--purpose", "information_query", "--field", "text=I commit to it."]

    ran = team.run("post", team.channel(), *words)

    found = re.fullmatch(r"Held for approval by (\w+ or \w+): .+ \(approval (appr_\w+)\)\n", ran.out)
    assert found is not None, ran
    assert set(found[1].split(" or ")) == {"cy", "dee"}
    assert f"deciders: {found[1]}\n" in team.run("approvals", "show", found[2]).out
    assert f" {found[1]}  alice " in team.run("approvals", "list").out
    own = team.said("key", "create", "--user", "ann")["key"]
    refused = team.run("approvals", "approve", found[2], "--yes", "--key", own)
    assert (refused.code, refused.error, refused.out) == (6, "self_approval", "")
    assert f"only {found[1]} can decide this" in refused.err


def test_where_nobody_may_decide_it_is_said_what_to_do(team: Team) -> None:
    words = ["--agent", "orphan", "--to", "other", "--purpose", "information_query", "--field", "text=I commit to it."]
    team.said("agent", "register", "other")

    ran = team.run("post", team.channel(), *words)

    what_to_do = "set the agent's person with: parley agent register AGENT --user USER; or set approvers in the policy"
    assert ran.out.startswith("Held for approval by no one (no approver is set): ")
    assert ran.out.endswith(f"; {what_to_do}\n")
    assert what_to_do in team.run("approvals", "list").out
    assert "nobody" not in team.run("approvals", "list", "--status", "rejected").out


def test_who_decides_sees_what_was_said_before(people: People) -> None:
    first = people.speak("Which plan do you mean?", "--conversation", f"talk-{people.agent}", "--json").json
    answer = people.team.run(
        *(
            "answer",
            first["id"],
            "--channel",
            people.channel,
            "--agent",
            people.other,
            "--field",
            "text=We promise the blue\u202e one.",
        )
    )
    assert answer.code == HELD, answer
    approval = re.findall(r"appr_\w+", answer.out)[0]

    shown = people.team.run("approvals", "show", approval).out

    assert "Previous messages:\n  Round 1, " in shown
    assert "Which plan do you mean?" in shown


def test_which_key_decides_is_in_the_help(stage: Stage) -> None:
    shown = stage.run("approvals", "approve", "--help").out

    assert "PARLEY_KEY" in shown
    assert "PARLEY_HUMAN_KEY" in shown


def test_what_was_decided_and_why_is_in_the_list_of_entries(people: People) -> None:
    held = people.hold()
    people.decide("reject", held["approval"], "--note", "not before Monday")

    shown = people.team.run("audit", "list", "--action", "approval_decided", "--side", people.agent).out

    heads, line = shown.splitlines()
    assert (heads.split()[-5:], people.user in line) == (["OUTCOME", "ACTOR", "POLICY", "EXCHANGE", "REASON"], True)
    assert re.search(r" rejected +\S+ +\S+ +\S+ +not before Monday$", line)


def test_the_list_shows_the_words_of_each_message_and_the_end_of_an_id_is_enough(people: People) -> None:
    held = people.hold()
    words = people.team.said("approvals", "show", held["approval"])["payload"]["text"]

    shown = people.team.run("approvals", "list").out
    suffix = held["approval"][-6:]

    assert words[:40] in next(line for line in shown.splitlines() if held["approval"] in line)
    assert people.team.said("approvals", "show", suffix.lower())["id"] == held["approval"]
    assert people.team.run("approvals", "show", "x").code != 0
    assert people.decide("reject", suffix).code == 0
    assert people.team.said("approvals", "show", held["approval"])["status"] == "rejected"


def test_a_rejected_message_never_goes_out_and_is_decided_once(people: People) -> None:
    held = people.hold()

    ran = people.decide("reject", held["approval"], "--note", "not before Monday")
    again = people.decide("approve", held["approval"], "--yes")

    assert (ran.code, ran.out.startswith(f"Rejected {held['approval']}: ")) == (0, True)
    see = f"see parley approvals show {held['approval']}"
    assert (again.code, again.err) == (4, f"error: it was rejected [approval_decided]\nhint: {see}\n")
    assert again.out == ""
    assert people.team.run("approvals", "approve", held["approval"], "--yes").out == ""  # with an admin key
    assert people.messages() == []
    exchange = people.team.said("exchange", "show", held["exchange_id"])
    assert exchange["outcome"] == "denied"


@pytest.mark.parametrize("way", ["text", "file", "input"])
def test_a_person_answers_in_its_own_words(people: People, tmp_path: Path, way: str) -> None:
    held = people.hold()
    file = tmp_path / "answer"
    file.write_text("Let us talk.")
    given = {"text": ["Let us talk."], "file": ["--body-file", str(file)], "input": []}[way]

    words = ["approvals", "answer", held["approval"], *given, "--key", people.user_key]
    ran = people.team.run(*words, stdin=b"Let us talk.\n")

    assert (ran.code, ran.err) == (0, "")
    (said,) = people.messages()
    assert (said["payload"], said["metadata"]["ocip"]["message_type"]) == ({"text": "Let us talk."}, "human")


def test_the_only_message_that_waits_needs_no_id(people: People) -> None:
    nothing = people.decide("show")
    unseen = people.decide("approve", "--yes")
    held = people.hold()
    shown = people.decide("show")
    ended, approved = typed_on_terminal("y\n", "approvals", "approve", "--key", people.user_key)

    for said in ("no message is held for approval", "see all: parley approvals list --status all"):
        assert said in nothing.err
    for said in ("--yes without an ID approves what you have not seen", "add the ID, or leave out --yes"):
        assert said in unseen.err
    assert held["approval"] in shown.out
    assert (ended, "I commit to the plan." in approved) == (0, True)
    assert [message["payload"] for message in people.messages()] == [{"text": "I commit to the plan."}]


def test_of_several_that_wait_none_is_chosen(people: People) -> None:
    first, second = people.hold()["approval"], people.hold("I promise it.")["approval"]

    ended, shown = typed_on_terminal("y\n", "approvals", "approve", "--key", people.user_key)

    assert ended == 4
    for approval, text in ((first, "I commit to the plan."), (second, "I promise it.")):
        assert f"{text} [{approval[-4:]}]" in " ".join(shown.split())
    assert "2 messages are held for approval" in shown
    assert people.messages() == []


def test_what_a_person_wrote_is_shown_as_the_persons(people: People) -> None:
    held = people.hold()
    people.decide("answer", held["approval"], "Let us talk.")

    shown = people.team.run("exchange", "show", held["exchange_id"][-6:]).out
    (turn,) = people.team.said("exchange", "show", held["exchange_id"])["transcript"]

    assert f"\n  1  {people.user} (instead of {people.agent}): Let us talk.\n" in shown
    assert turn == {"round": 1, "sender": people.agent, "summary": "Let us talk.", "person": people.user}


def test_what_an_agent_wrote_and_a_person_approved_is_the_agents(people: People) -> None:
    held = people.hold()
    people.decide("approve", held["approval"], "--yes")

    (turn,) = people.team.said("exchange", "show", held["exchange_id"])["transcript"]

    assert turn == {"round": 1, "sender": people.agent, "summary": "I commit to the plan."}


def test_exchanges_are_found_by_the_end_of_an_id(people: People) -> None:
    held = people.hold()
    other = people.hold("I promise it.", "--conversation", f"conv-{people.agent}")
    shown = people.team.said("exchange", "show", held["exchange_id"])

    by_conversation = people.team.said("exchange", "list", "--conversation", shown["conversationId"][-6:])
    by_name = people.team.said("exchange", "list", "--conversation", f"conv-{people.agent}")
    after = people.team.said("exchange", "list", "--agent", people.agent, "--after", held["exchange_id"][-6:])
    entries = people.team.said("audit", "list", "--exchange", held["exchange_id"][-6:])
    unknown = people.team.run("exchange", "list", "--conversation", "nowhere")

    assert [exchange["exchangeId"] for exchange in by_conversation] == [held["exchange_id"]]
    assert [exchange["exchangeId"] for exchange in by_name] == [other["exchange_id"]]
    assert [exchange["exchangeId"] for exchange in after] == [other["exchange_id"]]
    assert {entry["exchange_id"] for entry in entries} == {held["exchange_id"]}
    assert 'no conversation "nowhere" [not_found]\nhint: see parley exchange list\n' in unknown.err


@pytest.mark.parametrize("given", [["text", "--body-file", "x"], [""], ["-"]])
def test_an_answer_that_says_nothing_or_too_much_is_refused(people: People, given: list[str]) -> None:
    held = people.hold()

    ran = people.decide("answer", held["approval"], *given)

    assert (ran.code, ran.error) == (2, "invalid")


def test_what_is_not_there_is_not_found(people: People) -> None:
    for words in (["show"], ["approve", "--yes"], ["reject"], ["answer", "no"]):
        ran = people.decide(words[0], "appr_of_nobody", *words[1:])
        assert (ran.code, ran.error) == (3, "not_found")


# ---------------------------------------------------------------- being told


@pytest.mark.slow
def test_what_waits_is_told_in_the_persons_own_mailbox_and_not_again_after_a_restart(
    stage: Stage, tmp_path: Path
) -> None:
    (stage.here / "parley.toml").write_text(f'approvals_home = "{stage.home}"\napprovals_project = "{PROJECT}"\n')
    server = Server(tmp_path / "data").start()
    try:
        stage.patch.setenv("PARLEY_URL", server.url)
        stage.patch.setenv("PARLEY_KEY", server.key)
        team = Team(stage, server)
        team.intent = team.said("intent", "create", "Told", "--access", "open")["id"]
        channel = team.channel()
        for agent in ("alice", "bob"):
            team.said("agent", "register", agent, "--user", "gemini")
        words = ["--agent", "alice", "--to", "bob", "--type", "request", "--purpose", "information_query"]
        speak = ["post", channel, *words, "--field", "text=I commit to the blue elephant", "--json"]

        first = team.run(*speak)
        until(lambda: letters(stage), 1)
        # A letter is there a moment before it is written down that it is; killed in between, a server would tell twice.
        until(lambda: team.said("audit", "list", "--action", APPROVAL_TOLD), 1)
        server.kill()
        server.start()
        second = team.run(*[word.replace("blue", "green") for word in speak])
        told = until(lambda: letters(stage), 2)
    finally:
        server.stop()

    assert (first.code, second.code, len(told)) == (HELD, HELD, 2)
    messages = [stage.mailbox("gemini").read(one.id) for one in told]
    shown = sorted(re.findall(r"parley approvals show (\w+)", "".join(str(one.body) for one in messages)))
    assert shown == sorted((first.json["approval"], second.json["approval"]))
    for message in messages:
        assert (message.sender, message.kind.value) == ("parley", "notification")
        assert "elephant" not in str(message.body) + message.subject


def letters(stage: Stage) -> list[Item]:
    return stage.mailbox("gemini").inbox()


def until(look: Callable[[], list[T]], number: int) -> list[T]:
    """What is found, once there is so much of it; a server sweeps every second."""
    end = time.monotonic() + PATIENCE
    while len(found := look()) < number:
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.1)
    return found


# ---------------------------------------------------------------- exchanges


def test_an_exchange_is_shown_as_a_transcript_with_what_waits(people: People) -> None:
    first = people.speak("Which city?", "--conversation", "conv-a", "--json").json
    held = people.hold("I commit to it.", "--conversation", "conv-a")
    exchange_id = first["metadata"]["ocip_ext"]["exchange_id"]

    shown = people.team.run("exchange", "show", exchange_id, "--key", people.user_key).out

    assert f"{people.agent} to {people.other}: information_query, escalated, round 1 of 3" in shown
    assert f"  1  {people.agent}: Which city?" in shown
    assert f"Held for approval: parley approvals show {held['approval']}" in shown
    assert "held: I commit to it." in shown


def test_exchanges_are_found_by_outcome_agent_and_conversation(people: People) -> None:
    first = people.speak("Which city?", "--conversation", f"conv-{people.agent}", "--json").json
    exchange_id = first["metadata"]["ocip_ext"]["exchange_id"]

    def ids(*words: str) -> list[str]:
        return [one["exchangeId"] for one in people.team.said("exchange", "list", *words)]

    assert ids("--agent", people.agent) == [exchange_id]
    assert ids("--conversation", f"conv-{people.agent}", "--outcome", "in_progress") == [exchange_id]
    assert ids("--agent", people.agent, "--outcome", "denied") == []
    table = people.team.run("exchange", "list", "--agent", people.agent).out
    assert all(word in table for word in (exchange_id, "in_progress", "1/3", people.other))
    assert people.team.run("exchange", "list", "--agent", "nobody").out == "No exchanges.\n"


def test_an_exchange_is_closed_with_a_reason_and_takes_nothing_more(people: People) -> None:
    first = people.speak("Which city?", "--conversation", "conv-b", "--json").json
    exchange_id = first["metadata"]["ocip_ext"]["exchange_id"]

    ran = people.team.run("exchange", "close", exchange_id, "--reason", "settled", "--key", people.agent_key)
    late = people.speak("And the street?", "--conversation", "conv-b")

    assert (ran.code, ran.out) == (0, f"Closed {exchange_id} after round 1: resolved\n")
    assert (late.code, late.error) == (4, "exchange_closed")
    shown = people.team.run("exchange", "show", exchange_id).out
    assert "reason: settled" in shown


def test_what_waits_for_a_person_only_a_person_closes(people: People) -> None:
    held = people.hold()

    refused = people.team.run("exchange", "close", held["exchange_id"], "--key", people.agent_key)
    closed = people.team.run("exchange", "close", held["exchange_id"], "--key", people.user_key)

    assert (refused.code, refused.error) == (6, "human_required")
    assert closed.code == 0
    assert people.decide("show", held["approval"], "--json").json["status"] == "closed"


# ---------------------------------------------------------------- the kill switch


def test_a_suspended_agent_is_refused_until_it_is_resumed(people: People) -> None:
    team = people.team
    ran = team.run("suspend", "agent", people.agent, "--reason", "it loops")
    assert (ran.code, ran.out, ran.err) == (0, f"Suspended agent {people.agent}, from the next message on\n", "")

    refused = people.speak("Which city?")
    listed = team.run("suspensions").out
    resumed = team.run("resume", "agent", people.agent)
    again = team.run("resume", "agent", people.agent)

    assert (refused.code, refused.error) == (6, "suspended")
    assert "it loops" in refused.err
    assert re.search(rf"^agent +{people.agent} .* it loops$", listed, re.MULTILINE)
    assert (resumed.code, again.code, again.error) == (0, 3, "not_found")
    assert people.speak("Which city?").code == 0


@pytest.mark.parametrize("by_title", [True, False], ids=["title", "end of the id"])
@pytest.mark.parametrize("verb", ["post", "ask"])
def test_a_message_of_a_suspended_agent_to_a_channel_by_name_is_refused_on_record(
    people: People, verb: str, *, by_title: bool
) -> None:
    team = people.team
    key = ["--key", people.agent_key]
    intent = team.said("intent", "create", f"Launch {people.user}", "--access", people.other, *key)
    team.said("channel", "create", intent["id"], "news", *key)
    team.said("suspend", "agent", people.agent, "--reason", "it loops")
    words = ["--intent", intent["title"] if by_title else intent["id"][-8:], "--to", people.other, "--field", "text=?"]
    words += [*key, *(["--type", "request"] if verb == "post" else [])]

    refused = team.run(verb, "news", *words)
    entries = team.said("audit", "list", "--side", people.agent, "--action", "agent_exchange")

    assert (refused.code, refused.error) == (6, "suspended")
    recorded = [(entry["document"]["to"], entry["document"]["outcome"]) for entry in entries]
    assert recorded == [(people.other, "denied")]
    assert entries[0]["document"]["code"] == "suspended"


def test_json_of_agents_and_of_an_explanation_says_what_is_suspended(people: People) -> None:
    team = people.team
    team.said("suspend", "agent", people.agent, "--reason", "it loops")

    agents = {agent["agent_id"]: agent["suspended"] for agent in team.said("agent", "list", "--server")}
    explained = team.said("policy", "explain", "--from", people.agent, "--to", people.other)
    back = team.said("policy", "explain", "--from", people.other, "--to", people.other)

    assert (agents[people.agent], agents[people.other]) == (True, False)
    assert explained["suspensions"] == [{"what": "agent", "name": people.agent, "reason": "it loops"}]
    assert back["suspensions"] == []


def test_what_nobody_knows_is_suspended_with_a_note(people: People) -> None:
    team, nobody = people.team, f"nobody-{people.user}"

    agent = team.run("suspend", "agent", nobody)
    pair = team.run("suspend", "pair", people.agent, nobody)
    unit = team.run("suspend", "org", nobody)

    assert (agent.code, pair.code, unit.code) == (0, 0, 0)
    assert agent.err == pair.err == f"note: no registered agent {nobody}\n"
    assert unit.err == f"note: no registered agent in org unit {nobody}\n"
    for words in (["agent", nobody], ["pair", people.agent, nobody], ["org", nobody]):
        assert team.run("resume", *words).code == 0


def test_a_pair_is_suspended_in_any_order(people: People) -> None:
    team = people.team
    made = team.said("suspend", "pair", people.other, people.agent)

    refused = people.speak("Which city?")
    ran = team.run("resume", "pair", people.agent, people.other)

    assert made["name"] == f"{people.agent},{people.other}"
    assert (refused.code, refused.error) == (6, "suspended")
    assert (ran.code, ran.out) == (0, f"Resumed pair {people.agent} and {people.other}, from the next message on\n")


def test_an_org_unit_is_suspended_and_the_others_go_on(people: People) -> None:
    team, unit = people.team, f"sales-{people.user}"
    team.said("agent", "register", people.agent, "--org-unit", unit)
    team.said("agent", "register", people.other, "--org-unit", unit)
    assert people.speak("Which city?").code == 0

    team.said("suspend", "org", unit)
    refused = people.speak("Which city?")
    lifted = team.said("resume", "org", unit)

    assert (refused.code, refused.error, lifted) == (6, "suspended", {"status": "lifted"})


def test_a_whole_tenant_is_suspended(lone_team: Team) -> None:
    channel = lone_team.channel()
    lone_team.said("agent", "register", "codex")
    assert lone_team.run("suspensions").out == "No suspensions.\n"

    ran = lone_team.run("suspend", "tenant", "--reason", "drill")
    refused = lone_team.run("post", channel, "--agent", "claude", "--to", "codex", "--field", "a=b")
    lone_team.said("resume", "tenant")

    assert (ran.code, ran.out) == (0, "Suspended the tenant, from the next message on\n")
    assert (refused.code, refused.error) == (6, "suspended")
    assert lone_team.run("post", channel, "--agent", "claude", "--to", "codex", "--field", "a=b").code == 0


def test_only_an_admin_suspends(people: People) -> None:
    for words in (["suspend", "agent", people.other], ["resume", "agent", people.other], ["suspensions"]):
        ran = people.team.run(*words, "--key", people.agent_key)
        assert (ran.code, ran.error) == (6, "scope_required")


# ---------------------------------------------------------------- agents


def test_an_admin_says_what_the_rules_know_of_an_agent(people: People) -> None:
    name = f"carol-{people.user}"
    made = people.team.said(
        *("agent", "register", name, "--user", "ann", "--org-unit", "sales", "--team", "west"),
        *("--max-classification", "confidential", "--no-queries", "--no-auto-respond"),
        *("--exchange-types", "information_query,meeting_scheduling", "--max-rounds", "2"),
    )

    told = {name: made[name] for name in ("user_id", "org_unit", "team", "max_classification", "max_rounds_accepted")}
    assert told == {
        "user_id": "ann",
        "org_unit": "sales",
        "team": "west",
        "max_classification": "confidential",
        "max_rounds_accepted": 2,
    }
    assert (made["can_receive_queries"], made["can_auto_respond"]) == (False, False)
    assert made["supported_exchange_types"] == ["information_query", "meeting_scheduling"]
    again = people.team.said("agent", "register", name, "--queries")
    assert (again["can_receive_queries"], again["can_auto_respond"], again["org_unit"]) == (True, False, "sales")


def test_an_agent_cannot_say_it_of_itself(people: People) -> None:
    words = ["agent", "register", people.agent, "--max-classification", "restricted", "--key", people.agent_key]

    ran = people.team.run(*words)

    assert ran.code == 6
