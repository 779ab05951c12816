"""`parley withdraw`, and Ctrl-C in `parley ask`, against a real server."""

from __future__ import annotations

import signal

from tests.surface.cli.team_stage import Team, ended


def request_to(team: Team, agent: str) -> str:
    """The first request to an agent in the channel, as soon as it is there."""
    read = team.said("messages", "questions", "--intent", team.intent, "-a", agent, "--wait", "30s")
    request: str = read[0]["id"]
    return request


def test_a_request_is_withdrawn_by_its_sender_and_by_nobody_else(team: Team) -> None:
    channel = team.channel()
    asked = team.post(channel, "--to", "codex", "--type", "request", "--field", "q=1")

    denied = team.run("withdraw", asked, "--channel", channel, "--agent", "codex")
    done = team.run("withdraw", asked, "--channel", "questions", "--intent", team.intent, "--agent", "claude")
    again = team.said("withdraw", asked, "--channel", channel, "--agent", "claude")
    late = team.run("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")

    assert (denied.code, done.code, late.code) == (6, 0, 4)
    assert done.out == f"Withdrawn: {asked} to codex\n"
    assert (again["id"], again["state"]) == (asked, "withdrawn")
    assert "was withdrawn by claude" in late.err


def test_what_is_answered_cannot_be_withdrawn(team: Team) -> None:
    channel = team.channel()
    asked = team.post(channel, "--to", "codex", "--type", "request", "--field", "q=1")
    team.said("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")

    late = team.run("withdraw", asked, "--channel", channel, "--agent", "claude")

    assert (late.code, late.out) == (4, "")
    assert "is answered already" in late.err


def test_ctrl_c_in_ask_withdraws_the_question(team: Team) -> None:
    channel = team.channel()
    words = ("ask", channel, "--to", "codex", "--timeout", "60s", "--field", "q=1", "--agent", "claude")
    process = team.spawn(*words)
    asked = request_to(team, "codex")

    process.send_signal(signal.SIGINT)

    assert ended(process).code == 130
    late = team.run("answer", asked, "--channel", channel, "--agent", "codex", "--field", "a=1")
    assert "was withdrawn by claude" in late.err
