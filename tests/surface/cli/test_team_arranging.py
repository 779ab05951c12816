"""`parley intent`, `channel`, `agent`, `key` and `tenant` against a real server."""

from __future__ import annotations

import pytest

import parley
from tests.surface.cli.team_stage import Team

# ---------------------------------------------------------------- intents


def test_an_intent_is_active_as_soon_as_it_is_created(team: Team) -> None:
    ran = team.run("intent", "create", "Research Q1", "--description", "with care")

    assert ran.code == 0
    intent = ran.out.partition("[")[2].partition("]")[0]
    shown = team.said("intent", "show", intent)
    assert (shown["title"], shown["description"], shown["status"]) == ("Research Q1", "with care", "active")


@pytest.mark.parametrize(
    ("options", "policy", "agents"),
    [
        ((), "closed", []),
        (("--access", "open"), "open", []),
        (("--access", "closed"), "closed", []),
        (("--access", "bob,carol"), "closed", ["bob", "carol"]),
        (("--access", "bob", "--access", "carol"), "closed", ["bob", "carol"]),
    ],
)
def test_who_has_access_is_said_when_an_intent_is_created(
    team: Team, options: tuple[str, ...], policy: str, agents: list[str]
) -> None:
    intent = team.said("intent", "create", "Research Q1", *options)["id"]

    with parley.Client(team.server.url, key=team.server.key) as client:
        acl = client.get_acl(intent)
    assert (acl.default_policy, [entry.principal_id for entry in acl.entries]) == (policy, agents)


def test_an_agent_that_has_no_name_gets_no_access(team: Team) -> None:
    ran = team.run("intent", "create", "Research Q1", "--access", "two words")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "access" in ran.err


def test_a_message_to_an_agent_that_is_not_let_in_names_the_command_that_does(team: Team) -> None:
    intent = team.said("intent", "create", "Ours", "--agent", "alice")["id"]
    team.said("agent", "register", "bob")

    ran = team.run("post", "desk", "--intent", intent, "--agent", "alice", "--to", "bob", "--field", "a=b")
    assert (ran.code, ran.error) == (6, "not_member")
    assert f"parley intent assign {intent} bob" in ran.err

    team.said("intent", "assign", intent, "bob")
    assert team.run("post", "desk", "--intent", intent, "--agent", "alice", "--to", "bob", "--field", "a=b").code == 0


def test_a_draft_stays_one_until_it_is_activated(team: Team) -> None:
    draft = team.said("intent", "create", "Later", "--draft")

    active = team.said("intent", "activate", draft["id"])

    assert (draft["status"], active["status"]) == ("draft", "active")


def test_the_log_of_an_intent_is_shown_all_or_by_type(team: Team) -> None:
    team.said("intent", "assign", team.intent, "bob")

    events = team.said("intent", "events", team.intent)
    assigned = team.run("intent", "events", team.intent, "--type", "agent_assigned")

    assert events[0]["event_type"] == "intent_created"
    assert [event["payload"]["agent_id"] for event in events if event["event_type"] == "agent_assigned"] == ["bob"]
    assert "agent_assigned" in assigned.out
    assert "intent_created" not in assigned.out


@pytest.mark.parametrize(("verb", "status"), [("complete", "completed"), ("abandon", "abandoned")])
def test_an_intent_that_ends_closes_its_channels(team: Team, verb: str, status: str) -> None:
    channel = team.channel()

    ran = team.run("intent", verb, team.intent, "--reason", "enough")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"Intent A test's own [{team.intent}] is {status}; its channels are closed\n"
    assert team.said("channel", "show", channel)["status"] == "closed"
    again = team.run("intent", "activate", team.intent)
    assert (again.code, again.error) == (4, "bad_transition")


def test_intents_are_listed_by_status_and_page(team: Team) -> None:
    made = [team.said("intent", "create", f"Draft {number}", "--draft")["id"] for number in range(3)]

    drafts = [one["id"] for one in team.said("intent", "list", "--status", "draft", "--limit", "1000")]
    page = team.said("intent", "list", "--limit", "2", "--offset", "1")
    shown = team.run("intent", "list", "--status", "draft")

    assert set(made) <= set(drafts)
    assert team.intent not in drafts
    assert len(page) == 2
    assert shown.out.splitlines()[0].split() == ["ID", "STATUS", "VERSION", "CHANGED", "CREATED", "BY", "TITLE"]


def test_an_agent_is_assigned_and_taken_off_again(team: Team) -> None:
    team.said("intent", "assign", team.intent, "codex", "--role", "coordinator")
    words = team.run("intent", "assign", team.intent, "gemini").out
    taken = team.said("intent", "assign", team.intent, "codex", "--remove")

    assert words == f"Assigned gemini to {team.intent} as worker\n"
    assert taken == {"intent_id": team.intent, "agent_id": "codex", "assigned": False}


@pytest.mark.parametrize(
    "words",
    [
        ["intent", "show", "intent_x"],
        ["intent", "complete", "intent_x"],
        ["intent", "assign", "intent_x", "codex"],
        ["channel", "list", "intent_x"],
        ["channel", "create", "intent_x", "name"],
        ["channel", "show", "chan_x"],
        ["channel", "close", "chan_x"],
        ["agent", "show", "nobody-at-all", "--server"],
        ["agent", "heartbeat", "nobody-at-all"],
        ["key", "revoke", "key_x"],
        ["key", "rotate", "key_x"],
        ["audit", "verify", "intent_x"],
        ["audit", "export", "intent_x"],
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_exit_code_3(team: Team, words: list[str]) -> None:
    ran = team.run(*words)

    assert (ran.code, ran.error, ran.out) == (3, "not_found", "")


# ---------------------------------------------------------------- channels


def test_a_channel_is_created_with_all_its_options(team: Team) -> None:
    words = ("--explicit", "--member", "claude,codex", "--member", "gemini", "--audit", "--ttl", "2h")

    made = team.said("channel", "create", team.intent, "review", *words, "--max-messages", "5", "-a", "claude")

    assert (made["name"], made["member_policy"], sorted(made["members"])) == (
        "review",
        "explicit",
        ["claude", "codex", "gemini"],
    )
    assert made["options"] == {"audit": True, "ttl_seconds": 7200, "max_messages": 5}
    assert made["created_by"] == "claude"


def test_a_taken_name_is_a_conflict(team: Team) -> None:
    team.channel("taken")

    ran = team.run("channel", "create", team.intent, "taken")

    assert (ran.code, ran.error) == (4, "name_taken")


def test_channels_are_listed_and_shown(team: Team) -> None:
    channel = team.channel("one")
    team.post(channel, "--field", "a=b")

    listed = team.run("channel", "list", team.intent).out.splitlines()
    shown = team.run("channel", "show", "one", "--intent", team.intent).out.splitlines()

    assert listed[1].split()[:4] == ["one", "open", "intent", "1"]
    assert f"id: {channel}" in shown
    assert "message count: 1" in shown


def test_an_intent_without_channels_says_how_to_make_one(team: Team) -> None:
    assert f"parley channel create '{team.intent}' NAME" in team.run("channel", "list", team.intent).out


def test_nothing_more_is_said_in_a_closed_channel(team: Team) -> None:
    channel = team.channel()
    team.post(channel, "--field", "a=b")

    closed = team.run("channel", "close", channel)
    ran = team.run("post", channel, "-a", "claude", "--field", "a=b")

    assert closed.out == f"Closed channel questions [{channel}]\n"
    assert (ran.code, ran.error) == (4, "channel_closed")
    assert len(team.said("messages", channel)) == 1


def test_a_deleted_channel_is_gone_and_its_name_is_free(team: Team) -> None:
    channel = team.channel("fleeting")

    team.said("channel", "close", channel, "--delete")

    assert team.run("channel", "show", channel).error == "not_found"
    assert team.channel("fleeting") != channel


# ---------------------------------------------------------------- agents


def agent_of(team: Team) -> str:
    """A name that no other test has."""
    return f"agent-{team.intent[-8:].lower()}"


def test_an_agent_registers_beats_and_leaves(team: Team) -> None:
    name = agent_of(team)
    words = ("--capability", "python,review", "--role", f"role-{name}", "--title", "A helper", "--metadata", '{"a": 1}')

    registered = team.said("agent", "register", name, *words)
    beat = team.said("agent", "heartbeat", name, "--load", "2")
    shown = team.said("agent", "show", name, "--server")
    left = team.run("agent", "leave", name)
    late = team.run("agent", "heartbeat", name)

    assert (registered["agent_id"], registered["capabilities"]) == (name, ["python", "review"])
    assert (registered["name"], registered["metadata"]) == ("A helper", {"a": 1})
    assert beat["next_heartbeat_at"] > beat["server_timestamp"]
    assert (shown["status"], shown["capacity"]["current_load"]) == ("active", 2)
    assert left.out == f"{name} has left the server and all its channels\n"
    assert (late.code, late.error) == (3, "agent_gone")


def test_an_agent_may_drain_before_it_leaves(team: Team) -> None:
    name = agent_of(team)
    team.said("agent", "register", name)

    assert team.said("agent", "leave", name, "--drain")["status"] == "draining"


def test_the_agent_may_stand_in_the_environment(team: Team) -> None:
    team.stage.patch.setenv("PARLEY_AGENT", agent_of(team))

    assert team.said("agent", "register")["agent_id"] == agent_of(team)
    assert team.run("agent", "heartbeat").code == 0


def test_without_a_name_nobody_registers(team: Team) -> None:
    ran = team.run("agent", "register")

    assert (ran.code, ran.error) == (3, "unknown_sender")


def test_the_servers_agents_are_only_listed_when_asked_for(team: Team) -> None:
    name = agent_of(team)
    team.said("agent", "register", name, "--role", f"role-{name}")

    mailboxes = team.said("agent", "list")
    registered = team.said("agent", "list", "--server")
    of_role = team.said("agent", "list", "--server", "--role", f"role-{name}")
    table = team.run("agent", "list", "--url", team.server.url, "--status", "active").out

    assert [one["agent"] for one in mailboxes] == ["claude", "codex", "gemini"]
    assert name in [one["agent_id"] for one in registered]
    assert [one["agent_id"] for one in of_role] == [name]
    assert table.splitlines()[0].split() == ["AGENT", "STATUS", "LAST", "SEEN", "ROLE", "ORG", "UNIT", "LEVEL"]


def test_the_list_says_who_is_there_and_who_belongs_where(lone_team: Team) -> None:
    team = lone_team
    team.said("agent", "register", "ann-bot", "--user", "ann", "--org-unit", "sales")
    team.said("agent", "register", "bob-bot", "--org-unit", "engineering", "--max-classification", "confidential")
    team.said("agent", "heartbeat", "bob-bot")
    team.said("agent", "register", "carl-bot")
    team.said("agent", "leave", "carl-bot", "--drain")

    rows = [line.split() for line in team.run("agent", "list", "--server").out.splitlines()]

    assert rows[0] == ["AGENT", "STATUS", "LAST", "SEEN", "ORG", "UNIT", "FOR", "LEVEL"]
    assert rows[1:] == [
        ["ann-bot", "never", "seen", "-", "sales", "ann", "internal"],
        ["bob-bot", "online", rows[2][2], "engineering", "-", "confidential"],
        ["carl-bot", "stopping", "-", "default", "-", "internal"],
    ]


# ---------------------------------------------------------------- keys and tenants


def test_a_key_of_an_agent_speaks_as_it_and_as_nobody_else(team: Team) -> None:
    channel = team.channel()
    ran = team.run("key", "create", "--agent", "codex")
    secret = ran.out.strip()

    assert ran.err.startswith("Created key key_")
    assert "; printed to standard output, only now" in ran.err
    assert team.said("post", channel, "--key", secret, "--field", "a=b")["sender"] == "codex"
    other = team.run("post", channel, "--key", secret, "--agent", "claude", "--field", "a=b")
    assert (other.code, other.error) == (6, "sender_mismatch")
    ruling = team.run("key", "list", "--key", secret)
    assert (ruling.code, ruling.error) == (6, "scope_required")


def test_a_key_of_a_service_speaks_for_any_agent(team: Team) -> None:
    channel = team.channel()
    secret = team.said("key", "create", "--kind", "service", "--expires", "1d")["key"]

    senders = [
        team.said("post", channel, "--key", secret, "--agent", name, "--field", "a=b")["sender"]
        for name in ("claude", "codex")
    ]

    assert senders == ["claude", "codex"]


def test_a_key_needs_a_kind_or_somebody_it_is_for(team: Team) -> None:
    ran = team.run("key", "create")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "--agent NAME, --user NAME" in ran.err


def test_a_revoked_key_opens_nothing(team: Team) -> None:
    made = team.said("key", "create", "--agent", "codex")

    revoked = team.run("key", "revoke", made["id"])
    ran = team.run("channel", "list", team.intent, "--key", made["key"])

    assert revoked.out == f"Revoked key {made['id']} of agent codex; its streams are closed\n"
    assert (ran.code, ran.error) == (6, "unauthorized")


def test_a_rotated_key_is_replaced_at_once(team: Team) -> None:
    made = team.said("key", "create", "--agent", "codex")

    new = team.said("key", "rotate", made["id"])

    assert new["agent_id"] == "codex"
    assert team.run("channel", "list", team.intent, "--key", made["key"]).error == "unauthorized"
    assert team.run("channel", "list", team.intent, "--key", new["key"]).code == 0


def test_keys_are_listed_without_their_secrets(team: Team) -> None:
    made = team.said("key", "create", "--user", "ada@example.org")

    table = team.run("key", "list").out
    listed = {one["id"]: one for one in team.said("key", "list")}

    assert any(made["id"] in row and "ada@example.org" in row for row in table.splitlines())
    assert made["key"] not in table
    assert "key" not in listed[made["id"]]


def test_a_tenant_is_walled_off(team: Team) -> None:
    name = f"tenant-{team.intent[-8:].lower()}"
    created = team.run("tenant", "create", name, "--title", "Walled")
    secret = team.said("key", "create", "--kind", "admin", "--tenant", name)["key"]

    assert f"parley key create --kind admin --tenant {name}" in created.out
    assert team.said("intent", "list", "--key", secret) == []
    assert team.run("intent", "show", team.intent, "--key", secret).error == "not_found"
    again = team.run("tenant", "create", name)
    assert (again.code, again.error) == (4, "name_taken")
    ruling = team.run("tenant", "create", "another", "--key", secret)
    assert (ruling.code, ruling.error) == (6, "scope_required")


def test_an_agent_in_the_environment_does_not_narrow_what_an_admin_sees(team: Team) -> None:
    team.stage.patch.setenv("PARLEY_AGENT", "codex")

    assert team.run("key", "list").code == 0
    assert team.run("audit", "verify", team.intent).code == 0


def test_a_key_is_for_an_agent_or_for_a_person(team: Team) -> None:
    ran = team.run("key", "create", "--user", "ann", "--agent", "codex")

    assert (ran.code, ran.error, ran.out) == (2, "invalid", "")
    assert "for an agent or for a person" in ran.err
