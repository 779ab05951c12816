"""`parley status MESSAGE`, `parley send --until` and the states in the outbox, with real hooks."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

import parley
from tests.surface.stage import Stage

PARLEY = (sys.executable, "-m", "parley.cli.main")
EVENT = {"session_id": "s1", "turn_id": "t1"}


@pytest.fixture(autouse=True)
def own_home(stage: Stage) -> None:
    stage.patch.setenv("HOME", str(stage.home))
    stage.patch.delenv("XDG_STATE_HOME", raising=False)


def hook(name: str, **fields: object) -> str:
    document = json.dumps({**EVENT, "hook_event_name": name, **fields})
    command = [*PARLEY, "hook", "--for", "codex"]
    ran = subprocess.run(command, input=document, capture_output=True, text=True, check=True)
    return ran.stdout


def stop() -> str:
    return hook("Stop", last_assistant_message="Done.", stop_hook_active=False)


def sent(stage: Stage, *options: str) -> str:
    message_id: str = stage.run("send", "--from", "claude", "codex", "mTLS or JWT?", "--json", *options).json["id"]
    return message_id


def state(stage: Stage, message_id: str) -> str:
    found: str = stage.run("status", message_id, "-a", "claude", "--json").json["state"]
    return found


def test_a_message_is_followed_from_its_mailbox_to_its_answer(stage: Stage) -> None:
    message_id = sent(stage)
    states = [state(stage, message_id)]
    assert hook("UserPromptSubmit", prompt="go")
    states.append(state(stage, message_id))
    stop()
    states.append(state(stage, message_id))
    stage.run("next", "-a", "codex")
    states.append(state(stage, message_id))
    stage.run("reply", "-a", "codex", "Signed JWTs.")
    states.append(state(stage, message_id))

    assert states == ["queued", "offered", "injected", "acknowledged", "acted"]
    shown = stage.run("status", message_id[-4:], "-a", "claude").out
    assert f"{message_id} to codex: acted since" in shown
    assert ["TIME", "STATE", "SESSION", "EVIDENCE"] in [line.split() for line in shown.splitlines()]
    assert [item["state"] for item in stage.run("outbox", "-a", "claude", "--json").json] == ["acted"]
    assert " acted " in stage.run("outbox", "-a", "claude").out


@pytest.mark.requirement("D-RECEIPT-FOREIGN")
def test_an_agent_without_receipts_is_named(stage: Stage) -> None:
    message_id = sent(stage)

    assert "queued (no receipts from this agent)" in stage.run("status", message_id, "-a", "claude").out


def test_a_message_that_a_model_reads_counts_as_acknowledged(stage: Stage) -> None:
    message_id = sent(stage)

    stage.run("read", message_id, "-a", "codex")
    by_a_person = state(stage, message_id)
    stage.patch.setenv("CODEX_THREAD_ID", "s1")
    stage.run("read", message_id, "-a", "codex")

    assert (by_a_person, state(stage, message_id)) == ("queued", "acknowledged")


def test_a_sender_who_waits_in_vain_gets_exit_code_8_and_the_state(stage: Stage) -> None:
    ran = stage.run("send", "--from", "claude", "codex", "Done?", "--until", "injected", "--wait", "1s")

    assert (ran.code, ran.error) == (8, "ask_timeout")
    assert "not injected within 1s (codex: queued)" in ran.err
    assert "to codex: queued" in ran.out


def test_a_sender_learns_that_the_model_has_seen_it(stage: Stage) -> None:
    command = [*PARLEY, "send", "--from", "claude", "codex", "Hello", "--until", "injected", "--wait", "1m", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
        while not stage.files("codex"):
            assert sender.poll() is None
            time.sleep(0.01)
        assert hook("UserPromptSubmit", prompt="go")
        stop()
        out, _ = sender.communicate(timeout=60)

    assert sender.returncode == 0
    document = json.loads(out)
    assert (document["type"], document["state"]) == ("notification", "injected")


def test_until_answer_is_wait_by_another_name(stage: Stage) -> None:
    ran = stage.run("send", "--from", "claude", "codex", "Done?", "--until", "answer", "--wait", "1s")

    assert (ran.code, ran.error) == (8, "ask_timeout")
    assert "no reply from codex within 1s" in ran.err


def test_until_and_dry_run_exclude_each_other(stage: Stage) -> None:
    assert stage.run("send", "--from", "claude", "codex", "x", "--until", "acted", "--dry-run").code == 2


def test_the_status_of_what_does_not_exist_is_an_error(stage: Stage) -> None:
    ran = stage.run("status", "zzzz", "-a", "claude")

    assert (ran.code, ran.error) == (3, "unknown_message")


def test_a_terminal_without_an_agent_is_shown_the_status_by_the_id(stage: Stage) -> None:
    message_id = sent(stage)
    before = sorted(stage.home.rglob("*"))

    assert stage.run("status", message_id).out == stage.run("status", message_id, "-a", "claude").out
    assert stage.run("status", message_id, "--json").json["receipts"][0]["to"] == "codex"
    assert sorted(stage.home.rglob("*")) == before


def test_without_an_agent_the_status_of_what_nobody_has_is_an_error_that_says_where_to_look(stage: Stage) -> None:
    sent(stage)

    ran = stage.run("status", "zzzz")

    assert (ran.code, ran.error) == (3, "unknown_message")
    assert "parley outbox --agent NAME" in ran.err


def test_a_program_follows_its_message(stage: Stage) -> None:
    with parley.Mailbox("demo", agent="claude", home=stage.home) as claude:
        message = claude.send("codex", "question", "Auth", "mTLS or JWT?")
        assert message.receipt.state == parley.ReceiptState.QUEUED
        with pytest.raises(parley.MessageTimeoutError, match="is queued, not acted"):
            message.wait_until("acted", wait="1s")
        with pytest.raises(parley.Invalid):
            message.wait_until("done")
        with parley.Mailbox("demo", agent="codex", home=stage.home) as codex:
            claimed = codex.next()
            assert claimed is not None
            assert claude.status(message.id).state == parley.ReceiptState.ACKNOWLEDGED
            claimed.reply("Signed JWTs.")
        assert message.wait_until("acted").state == parley.ReceiptState.ACTED
