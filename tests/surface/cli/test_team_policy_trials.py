"""`parley policy explain` and `replay` against a real server."""

from __future__ import annotations

import pytest

from parley.cli.rules import trials as policy_trials
from tests.surface.cli.team_stage import Team


@pytest.fixture
def team(ruled_team: Team) -> Team:
    """These tests change the rules: those of other tests stay as they were."""
    return ruled_team


pytestmark = pytest.mark.slow

STRICT = "agent-to-agent:\n  max_classification: public\n"
LOOSE = "agent-to-agent:\n  commitments: report\n  cross_org: true\n"


@pytest.fixture
def traffic(lone_team: Team) -> Team:
    """One message delivered, one held, one denied."""
    team = lone_team
    for agent, org in (("alice", "engineering"), ("bob", "engineering"), ("mia", "sales")):
        team.said("agent", "register", agent, "--org-unit", org, "--user", f"{agent}.h")
    channel = team.channel()
    for to, text, code in (("bob", "hello", 0), ("bob", "We promise it.", 9), ("mia", "hello", 6)):
        words = ("--agent", "alice", "--to", to, "--type", "request", "--purpose", "information_query")
        ran = team.run("post", channel, *words, "--field", f"text={text}")
        assert ran.code == code, ran
    return team


def test_a_folder_is_all_that_would_be_in_force(traffic: Team) -> None:
    folder = traffic.stage.here / "policies" / "enterprise"
    folder.mkdir(parents=True)
    (folder / "new.yaml").write_text(LOOSE)

    ran = traffic.run("policy", "replay", "policies")

    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[0].split() == ["TIME", "FROM", "AND", "TO", "BEFORE", "NOW", "REASON"]
    assert [" ".join(one.split()[2:]) for one in lines[1:3]] == [
        "alice to bob hold allow no policy forbids it",
        "alice to mia deny allow no policy forbids it",
    ]
    assert lines[-3:] == [
        "Tried without enterprise/default, which is in force but not in policies.",
        "3 messages tried: 0 now denied, 0 now held, 2 now released.",
        "1 message tried without content, by the detections recorded then.",
    ]


def test_a_file_takes_the_place_of_one_document(traffic: Team) -> None:
    folder = traffic.stage.here / "org"
    folder.mkdir()
    (folder / "engineering.yaml").write_text(STRICT)

    found = traffic.said("policy", "replay", "org/engineering.yaml")

    assert [(one["receiver"], one["was"], one["now"]) for one in found["changes"]] == [
        ("bob", "allow", "deny"),
        ("bob", "hold", "deny"),
    ]
    assert (found["messages"], found["with_content"], found["denied"], found["next"]) == (3, 2, 2, None)


def test_a_long_replay_is_asked_for_in_pieces_and_ends_where_it_is_told_to(
    traffic: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_trials, "_BATCH", 1)
    (traffic.stage.here / "default.yaml").write_text(LOOSE)

    whole = traffic.said("policy", "replay", "default.yaml")
    some = traffic.run("policy", "replay", "default.yaml", "--limit", "2")

    assert (whole["messages"], whole["released"], len(whole["changes"])) == (3, 2, 2)
    assert "2 messages tried" in some.out
    assert "There are more than 2 messages" in some.out
    assert "Tried as document enterprise/default." in some.out


def test_only_what_was_sent_since_is_tried(traffic: Team) -> None:
    (traffic.stage.here / "default.yaml").write_text(LOOSE)

    assert traffic.said("policy", "replay", "default.yaml", "--since", "1h")["messages"] == 3
    assert traffic.run("policy", "replay", "default.yaml", "--since", "2099-01-01T00:00:00Z").code == 2
    assert traffic.run("policy", "replay", "default.yaml", "--since", "soon").code == 2


def test_a_broken_document_is_named_by_the_file_that_lies_here(traffic: Team) -> None:
    (traffic.stage.here / "bad.yaml").write_text("agent-to-agent:\n  max_round: 2\n")

    ran = traffic.run("policy", "replay", "bad.yaml")

    assert (ran.code, ran.error) == (2, "policy_invalid")
    assert "bad.yaml:2: max_round" in ran.err


def test_a_message_is_explained_by_the_servers_directory(traffic: Team) -> None:
    ran = traffic.run("policy", "explain", "--from", "alice", "--to", "mia", "--text", "hello")

    assert ran.code == 0
    assert ran.out.splitlines()[-1] == ("deny (policy_denied): the policy allows nothing from engineering to sales")
    found = traffic.said("policy", "explain", "--from", "alice", "--to", "bob", "--purpose", "information_query")
    assert (found["verdict"], found["governed"]) == ("allow", True)
