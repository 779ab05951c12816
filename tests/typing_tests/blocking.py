"""A program that waits for each answer: what a type checker knows about it."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import parley


def channels(client: parley.Client, intent: parley.Intent) -> None:
    channel = client.create_channel(intent.id, "questions", ["data-agent"], "explicit", {"audit": True})
    assert_type(channel, parley.Channel)
    assert_type(channel.options, parley.ChannelOptions)
    assert_type(channel.closed_at, datetime | None)
    assert_type(client.list_channels(intent.id), list[parley.Channel])
    assert_type(client.open_channel(intent.id, "questions", options=parley.ChannelOptions(audit=True)), parley.Channel)
    assert_type(client.close_channel(channel.id).status, str)
    client.update_channel(channel.id, add_members=("bob",), options={"ttl_seconds": None})
    client.delete_channel(channel.id)


def messages(client: parley.Client, channel: parley.Channel) -> None:
    sent = client.send_message(channel.id, None, "bob", "notify", {"n": 1}, datetime.now(UTC) + timedelta(hours=1))
    assert_type(sent, parley.ChannelMessage)
    assert_type(sent.payload, dict[str, Any])
    assert_type(sent.created_at, datetime)
    assert_type(sent.error, str)
    again = client.send_message(channel.id, message_type=sent.message_type, payload=sent.payload)
    assert_type(client.reply_to(channel.id, again.id, "bob", {"answer": 42}), parley.ChannelMessage)
    assert_type(client.list_messages(channel.id, sent.id, limit=10), list[parley.ChannelMessage])
    assert_type(client.list_messages(channel.id, since=sent.created_at, wait=5.0), list[parley.ChannelMessage])
    assert_type(client.list_messages(channel.id, since=sent.seq), list[parley.ChannelMessage])
    assert_type(client.ask(channel.id, None, "bob", {"question": "?"}, timeout=5), parley.ChannelMessage)
    assert_type(client.ask_all(channel.id, None, "role:data", {"question": "?"}), list[parley.ChannelMessage])
    client.send_batch(channel.id, [{"payload": {"n": 1}}, {"payload": {"n": 2}, "to": "bob"}])
    for found in client.search("schema", channel.id):
        assert_type(found.kind, str)


def following(client: parley.Client, channel: parley.Channel) -> str:
    stream = client.follow(channel=channel.id)
    assert_type(stream, Generator[parley.StreamItem, None, None])
    for item in stream:
        if item.message is not None:
            assert_type(item.message, parley.ChannelMessage)
        if item.event is not None:
            assert_type(item.event.payload, dict[str, Any])
            stream.close()
            return item.id
    return ""


def work(client: parley.Client) -> None:
    intent = client.create_intent("Research", state={"phase": 1}, constraints=["cheap"], status="active")
    assert_type(intent, parley.Intent)
    assert_type(client.update_state(intent.id, {"phase": 2}, version=intent.version), parley.Intent)
    client.patch_state(intent.id, [{"op": "set", "path": "phase", "value": 3}])
    assert_type(client.assign_agent(intent.id, "bob"), parley.Assignment)
    assert_type(client.log_event(intent.id, "comment", {"text": "hello"}), parley.Event)
    task = client.create_task(intent.id, "Read", input={"pages": 7}, depends_on=["task_1"])
    assert_type(client.update_task(task.id, status="completed", output=[1, 2]), parley.Task)
    assert_type(client.get_acl(intent.id).entries, list[parley.Grant])
    client.set_acl(intent.id, "closed", client.get_acl(intent.id).entries)
    client.set_acl(intent.id, "closed", [{"principal_id": "bob", "permission": "write"}])
    assert_type(client.complete_intent(intent.id).state, dict[str, Any])


def people(client: parley.Client) -> None:
    for approval in client.list_approvals("pending"):
        assert_type(approval, parley.Approval)
        assert_type(approval.detected_keywords, list[str])
        if approval.barred is None:
            assert_type(client.approve(approval, "fine"), parley.Approval)
        client.answer(approval, {"text": "I say it myself."})
    page = client.list_audit(since="2026-01-01T00:00:00Z")
    while page.next is not None:
        assert_type(page.entries, list[parley.AuditEntry])
        page = client.list_audit(after=page.next)
    with open("audit.jsonl", "wb") as file:
        file.writelines(client.export_audit())
    assert_type(client.effective_policy("alice").policy, dict[str, Any] | None)
    assert_type(client.create_key("agent", agent_id="bob").key, str)


def main() -> None:
    with parley.Client("http://127.0.0.1:8420", key="secret", timeout=5, patience=0) as client:
        assert_type(client, parley.Client)
        assert_type(client.as_agent("bob"), parley.Client)
        assert_type(client.url, str)
        assert_type(client.health().status, str)
        assert_type(client.server_info().implementation.version, str)
        for intent in client.list_intents("active"):
            channels(client, intent)
        work(client)
        people(client)
