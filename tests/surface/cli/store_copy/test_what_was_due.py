"""What one server has left to do when it stops, the one on the copy does."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.postgres.cluster import until
from tests.rigs.webhook_receiver import OK, a_receiver, status
from tests.surface.cli.store_copy.installation import Node, copying, serving, take_along
from tests.surface.stage import Stage

pytestmark = pytest.mark.slow


def a_channel(node: Node) -> str:
    with node.connection("alice") as alice:
        intent = alice.post("intents", body={"title": "To move", "access": ["bob"]})["id"]
        made: str = alice.post("intents", intent, "channels", body={"name": "talk"})["id"]
        return made


def test_a_webhook_that_nobody_took_is_pushed_again_and_goes_on_from_there(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    with a_receiver() as receiver:
        receiver.answer = status(503)
        with serving(tmp_path / "data") as node, node.connection("alice") as alice:
            channel = a_channel(node)
            alice.post("subscriptions", body={"webhook_url": receiver.url, "subscriber_id": "bob"})
            alice.post("channels", channel, "messages", body={"payload": {"text": "before"}, "message_type": "notify"})
            until(lambda: "before" in receiver.texts)
        assert stage.run(*copying(tmp_path / "data", dsn)).code == 0
        receiver.got.clear()
        receiver.answer = OK

        with serving(tmp_path / "new", "--store", dsn, key=node.key) as moved, moved.connection("alice") as alice:
            alice.post("channels", channel, "messages", body={"payload": {"text": "after"}, "message_type": "notify"})
            until(lambda: "after" in receiver.texts)

        assert receiver.texts == ["before", "after"]


def test_a_message_whose_time_ends_meanwhile_expires_on_the_copy(stage: Stage, dsn: str, tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node, node.connection("alice") as alice:
        channel = a_channel(node)
        soon = datetime.now(UTC) + timedelta(seconds=8)
        body = {"payload": {}, "message_type": "request", "to": "bob", "expires_at": soon.isoformat()}
        asked: dict[str, Any] = alice.post("channels", channel, "messages", body=body)
        assert asked["status"] == "delivered"
    assert stage.run(*copying(tmp_path / "data", dsn)).code == 0

    with serving(tmp_path / "new", "--store", dsn, key=node.key) as moved, moved.connection("alice") as alice:
        path = ("channels", channel, "messages", asked["id"])
        until(lambda: alice.get(*path)["status"] == "expired")


def test_checkpoints_are_gone_on_with_and_know_a_source_that_was_put_back(
    stage: Stage, dsn: str, tmp_path: Path
) -> None:
    data, new, older = tmp_path / "data", tmp_path / "new", tmp_path / "older"
    with serving(data) as node:
        meet(stage, node)
        assert stage.run("backup", str(tmp_path / "older.db"), "--data", str(data)).code == 0
        for agent in ("bob", "carol"):
            assert stage.run("suspend", "agent", agent, "--reason", "a test").code == 0
        until(lambda: signed(data) >= 2)
    # A whole and sound store, only that there was more in it when the last checkpoint was signed.
    shutil.copytree(data, older)
    assert stage.run("restore", str(tmp_path / "older.db"), "--data", str(older), "--force").code == 0
    put_back = stage.run(*copying(older, tmp_path / "back"))
    assert (put_back.code, put_back.error) == (13, "log_changed")
    assert "audit log of" in put_back.err

    assert stage.run(*copying(data, dsn)).code == 0
    take_along(data, new)
    before = signed(new)
    with serving(new, "--store", dsn, key=node.key) as moved:
        meet(stage, moved)
        assert stage.run("resume", "agent", "bob").code == 0
        until(lambda: signed(new) > before)
        old = [word for one in (data / "checkpoints").iterdir() for word in ("--checkpoints", str(one))]
        verified = stage.run("audit", "verify", *old)
        assert verified.code == 0, verified


def meet(stage: Stage, node: Node) -> None:
    stage.patch.setenv("PARLEY_URL", node.url)
    stage.patch.setenv("PARLEY_KEY", node.key)


def signed(data: Path) -> int:
    """How many entries the checkpoints cover that lie beside a store."""
    whole = [one.read_text().rpartition("\n")[0] for one in (data / "checkpoints").glob("*.jsonl")]
    lines = [line for text in whole for line in text.splitlines()]
    return max([json.loads(line)["size"] for line in lines], default=0)


def test_more_than_a_page_of_the_longest_messages(stage: Stage, dsn: str, tmp_path: Path) -> None:
    with serving(tmp_path / "data") as node, node.connection("alice") as alice:
        channel = a_channel(node)
        for n in range(12):
            body = {"payload": {"texts": ["ü" * 30_000] * 4, "n": n}, "message_type": "notify"}
            alice.post("channels", channel, "messages", body=body)
        said = alice.get("channels", channel, "messages")
    assert stage.run(*copying(tmp_path / "data", dsn)).code == 0
    assert stage.run(*copying(dsn, tmp_path / "back")).code == 0

    with serving(tmp_path / "back", key=node.key) as home, home.connection("alice") as alice:
        assert alice.get("channels", channel, "messages") == said
