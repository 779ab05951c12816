"""`parley queue` and `parley dead` against a real server."""

from __future__ import annotations

import parley
from tests.surface.cli.team_stage import Team


def a_dead_letter(team: Team, role: str) -> tuple[str, str]:
    """A message to any holder of a role that codex could not finish: its channel and its id."""
    channel = team.channel()
    with parley.Client(team.server.url, key=team.server.key, agent="codex") as client:
        client.register_agent("codex", role_id=role)
        client.assign_agent(team.intent, "codex")
        posted = team.said("post", channel, "-a", "claude", "--to", f"any:{role}", "--field", "task=build")
        (job,) = client.claim_jobs("codex")
        client.fail_job("codex", job.id, job.lease, "no disk")
    return channel, posted["id"]


def test_a_dead_letter_is_listed_shown_retried_and_dropped(team: Team) -> None:
    _, letter = a_dead_letter(team, "coder")

    listed = team.run("dead", "list", "--queue", "any:coder").out
    shown = team.run("dead", "show", letter).out
    assert "no disk" in listed
    assert letter in listed
    assert "error:    no disk" in shown
    assert '{"task": "build"}' in shown
    assert team.said("dead", "show", letter)["message"]["payload"] == {"task": "build"}
    assert team.run("dead", "retry", letter).out == f"{letter} waits in any:coder again\n"
    assert team.said("dead", "list", "--queue", "any:coder") == []

    again = team.run("dead", "drop", letter)
    assert (again.code, again.err) == (3, "error: no such dead letter [not_found]\n")


def test_queues_are_counted_by_state(team: Team) -> None:
    channel, letter = a_dead_letter(team, "tester")
    team.said("post", channel, "-a", "claude", "--to", "any:tester", "--field", "task=test")

    counts = {"queue": "any:tester", "waiting": 1, "claimed": 0, "done": 0}
    assert {**counts, "dead": 1} in team.said("queue")
    assert "any:tester" in team.run("queue").out
    assert team.said("dead", "drop", letter) == {"id": letter, "dropped": True}
    assert {**counts, "dead": 0} in team.said("queue")


def test_without_any_there_is_a_sentence(team: Team) -> None:
    assert team.run("dead", "list", "--queue", "any:nobody").out == "No dead letters.\n"


def test_dead_alone_lists_dead_letters(team: Team) -> None:
    assert team.run("dead", "--queue", "any:nobody").out == "No dead letters.\n"
    assert team.run("dead").code == 0
    assert "dead has: list, show, retry, drop" in team.run("dead", "7K2M").err
