"""`parley status MESSAGE` and `parley post --until` against a real server."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import parley
from tests.surface.cli.team_stage import Team


def channel_with_codex(team: Team) -> str:
    with parley.Client(team.server.url, key=team.server.key, agent="codex") as client:
        client.register_agent("codex")
    return team.channel()


def in_thread(work: Callable[[], None]) -> Thread:
    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_status_shows_how_far_a_message_of_a_server_has_come(team: Team) -> None:
    channel = channel_with_codex(team)
    posted = team.said("post", channel, "-a", "claude", "--to", "codex", "--field", "text=hi")
    queued = team.run("status", posted["id"], "-a", "claude")
    with parley.Client(team.server.url, key=team.server.key, agent="codex") as client:
        client.mark_read(channel, posted["id"])

    assert (queued.code, queued.out) == (0, f"{posted['id']} to codex: queued\n")
    shown = team.run("status", posted["id"], "-a", "claude").out.splitlines()
    assert shown[0].startswith(f"{posted['id']} to codex: acknowledged since ")
    assert shown[2].split()[1:] == ["acknowledged", "read"]
    status = team.said("status", posted["id"], "-a", "claude")
    assert (status["state"], status["receipts"][0]["steps"][0]["evidence"]) == ("acknowledged", "read")
    refused = team.run("status", posted["id"], "-a", "codex")
    assert (refused.code, refused.err) == (3, "error: no such message [not_found]\n")


def test_post_waits_until_a_state_and_says_which_one_was_reached(team: Team) -> None:
    channel = channel_with_codex(team)
    words = ("post", channel, "-a", "claude", "--to", "codex", "--field", "text=hi")
    late = team.run(*words, "--until", "acknowledged", "--wait", "0.1")

    def read() -> None:
        with parley.Client(team.server.url, key=team.server.key, agent="codex") as client:
            for item in client.follow(agent="codex", after="0"):
                if item.message is not None and item.message.channel_id == channel and item.message.seq == 2:
                    client.mark_read(channel, item.message.id)
                    return

    reader = in_thread(read)
    done = team.said(*words, "--until", "acknowledged", "--wait", "60s")
    reader.join(60)

    assert late.code == 8
    assert "error: not acknowledged within 0.1 (codex: queued) [ask_timeout]" in late.err
    assert "hint: look again with: parley status msg_" in late.err
    assert (done["state"], done["payload"]) == ("acknowledged", {"text": "hi"})


def test_post_waits_for_the_answer(team: Team) -> None:
    channel = channel_with_codex(team)
    words = ("post", channel, "-a", "claude", "--to", "codex", "--field", "text=Ready?", "--until", "answer")
    late = team.run(*words, "--type", "request", "--wait", "0.1")

    def answer() -> None:
        with parley.Client(team.server.url, key=team.server.key, agent="codex") as client:
            for item in client.follow(agent="codex", after="0"):
                if item.message is not None and item.message.channel_id == channel and item.message.seq == 2:
                    client.reply_to(channel, item.message.id, payload={"text": "Yes."})
                    return

    agent = in_thread(answer)
    shown = team.run(*words, "--type", "request", "--wait", "60s")
    agent.join(60)

    assert (late.code, "no answer within 0.1 (codex: queued)" in late.err) == (8, True)
    assert shown.out.endswith("text: Yes.\n")
    assert team.run(*words).err.startswith("error: nobody answers a notify")
    assert "--wait needs --until" in team.run(*words[:-2], "--wait", "5s").err
    assert "leave out --at and --in" in team.run(*words[:-1], "acted", "--in", "5m").err
