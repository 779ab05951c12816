"""The real SDK's synchronous client, unmodified, against our server."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest
from openintent import OpenIntentClient
from openintent.exceptions import ConflictError, NotFoundError, OpenIntentError
from openintent.models import AccessPolicy, EventType, IntentStatus, Permission
from openintent.streaming import SSEEvent

from tests.rigs.process import ADMIN_KEY, ServerProcess

_names = itertools.count(1)


_opened: list[OpenIntentClient] = []


def client(server: ServerProcess, agent: str) -> OpenIntentClient:
    _opened.append(OpenIntentClient(server.url, ADMIN_KEY, agent))
    return _opened[-1]


@pytest.fixture(autouse=True)
def closed_clients() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def an_intent(asker: OpenIntentClient) -> str:
    return str(asker.create_intent(f"interop {next(_names)}").id)


def a_channel(asker: OpenIntentClient) -> str:
    return str(asker.create_channel(an_intent(asker), f"channel-{next(_names)}")["id"])


def test_the_server_is_discovered(server: ServerProcess) -> None:
    assert "rfcUrls" in client(server, "alice").discover()


def test_a_channel_is_created_listed_got_and_closed(server: ServerProcess) -> None:
    alice = client(server, "alice")
    intent = an_intent(alice)

    made = alice.create_channel(intent, "data", members=["alice", "bob"], member_policy="explicit")
    listed = alice.list_channels(intent)
    got = alice.get_channel(made["id"])
    alice.close_channel(made["id"])

    assert [one["name"] for one in listed] == ["data"]
    assert got["members"] == ["alice", "bob"]
    with pytest.raises(NotFoundError):
        alice.get_channel(made["id"])


def test_a_message_is_sent_listed_got_read_and_answered(server: ServerProcess) -> None:
    alice, bob = client(server, "alice"), client(server, "bob")
    channel = a_channel(alice)

    request = alice.send_message(channel, "alice", "bob", "request", {"question": "which schema?"})
    listed = bob.list_messages(channel, to="bob")
    read = bob.mark_read(channel, request["id"])
    answer = bob.reply_to(channel, request["id"], "bob", {"answer": "v2.3"})
    after = alice.list_messages(channel, since=request["id"])

    assert request["status"] == "delivered"
    assert [one["id"] for one in listed] == [request["id"]]
    assert read["status"] == "read"
    assert read["read_at"]
    assert (answer["to"], answer["correlation_id"]) == ("alice", request["id"])
    assert [one["id"] for one in after] == [answer["id"]]
    assert alice.get_message(channel, answer["id"])["payload"] == {"answer": "v2.3"}


def answering(bob: OpenIntentClient, channel: str, count: int) -> threading.Thread:
    """An agent that answers the next `count` requests as fast as the SDK lets it."""

    def work() -> None:
        since = None
        left = count
        while left:
            for message in bob.list_messages(channel, since=since, to="bob"):
                since = message["id"]
                if message["message_type"] == "request":
                    bob.reply_to(channel, message["id"], "bob", {"answer": message["payload"]["n"]})
                    left -= 1
            time.sleep(0.002)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_ask_gets_its_answer_without_polling_for_half_a_second(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = client(server, "alice"), client(server, "bob")
    channel = a_channel(alice)
    naps: list[float] = []
    sleep = time.sleep

    def noted(seconds: float) -> None:
        naps.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", noted)
    thread = answering(bob, channel, 9)

    napped = 0
    for number in range(9):
        before = naps.count(0.5)
        answer = alice.ask(channel, "alice", "bob", {"n": number}, timeout=30)
        assert answer["payload"] == {"answer": number}
        napped += naps.count(0.5) > before

    thread.join(60)
    # Against its own server the SDK always sleeps for half a second; how long it takes here the benchmark says.
    assert napped < 5


def test_an_ask_that_nobody_answers_times_out_in_the_client(server: ServerProcess) -> None:
    alice = client(server, "alice")
    channel = a_channel(alice)

    with pytest.raises(TimeoutError):
        alice.ask(channel, "alice", "bob", {"q": 1}, timeout=0.3)


def test_a_duplicate_name_is_a_conflict_even_when_it_spells_another_word(server: ServerProcess) -> None:
    alice = client(server, "alice")
    intent = an_intent(alice)
    alice.create_channel(intent, "release-notes")

    with pytest.raises(ConflictError):
        alice.create_channel(intent, "release-notes")


def test_an_intent_lives_through_state_and_status_with_versions(server: ServerProcess) -> None:
    alice = client(server, "alice")
    intent = alice.create_intent("a goal", description="d", initial_state={"a": 1})

    patched = alice.update_state(intent.id, intent.version, {"b": 2})
    active = alice.set_status(intent.id, patched.version, IntentStatus.ACTIVE)
    with pytest.raises(ConflictError) as stale:
        alice.update_state(intent.id, intent.version, {"b": 3})
    done = alice.set_status(intent.id, active.version, IntentStatus.COMPLETED)

    assert patched.state.to_dict() == {"a": 1, "b": 2}
    assert stale.value.current_version == active.version
    assert done.status is IntentStatus.COMPLETED
    assert intent.id in [one.id for one in alice.list_intents(limit=1000)]
    assert alice.get_intent(intent.id).status is IntentStatus.COMPLETED


def test_agents_register_beat_and_leave(server: ServerProcess) -> None:
    carol = client(server, "carol")

    carol.register_agent("carol", ["billing"], role_id="clerk", metadata={"team": "x"})
    again = carol.register_agent("carol", ["billing", "audit"])
    record = carol.get_agent_record("carol")
    beat = carol.agent_heartbeat("carol")
    listed = carol.list_agents()
    carol.update_agent_status("carol", "deregistered")

    assert again.capabilities == ["billing", "audit"]
    assert record.status.value == "active"
    assert beat["status"] == "ok"
    assert "carol" in [one.agent_id for one in listed]
    with pytest.raises(OpenIntentError) as gone:
        carol.agent_heartbeat("carol")
    assert gone.value.status_code == 410


def test_events_are_logged_listed_and_verified_and_audited_messages_are_among_them(server: ServerProcess) -> None:
    alice = client(server, "alice")
    intent = an_intent(alice)
    channel = alice.create_channel(intent, "audited", options={"audit": True})["id"]

    alice.log_event(intent, EventType.COMMENT, {"text": "hello"})
    alice.send_message(channel, "alice", "bob", "notify", {"n": 1})
    events = alice.get_events(intent)
    messages = alice.get_events(intent, event_type=EventType.CHANNEL_MESSAGE)
    verified = alice.verify_event_chain(intent)

    assert {EventType.INTENT_CREATED, EventType.COMMENT, EventType.CHANNEL_MESSAGE} <= {
        one.event_type for one in events
    }
    assert [one.payload["payload"] for one in messages] == [{"n": 1}]
    assert verified.valid


def test_access_is_closed_requested_approved_and_revoked(server: ServerProcess) -> None:
    alice, dave = client(server, "alice"), client(server, "dave")
    intent = an_intent(alice)

    alice.set_acl(intent, AccessPolicy.CLOSED, [])
    with pytest.raises(NotFoundError):
        dave.get_intent(intent)
    asked = dave.request_access(intent, "dave", reason="please")
    alice.approve_access_request(intent, asked.id, permission=Permission.WRITE)
    assert dave.get_intent(intent).id == intent
    granted = alice.grant_access(intent, "erin", permission=Permission.READ, reason="until then")
    acl = alice.get_acl(intent)
    alice.revoke_access(intent, granted.id)

    assert acl.default_policy is AccessPolicy.CLOSED
    assert {one.principal_id for one in acl.entries} == {"dave", "erin"}
    assert {one.principal_id for one in alice.get_acl(intent).entries} == {"dave"}


def test_tasks_are_created_and_their_end_closes_their_channels(server: ServerProcess) -> None:
    alice = client(server, "alice")
    intent = an_intent(alice)

    task = alice.create_task(intent, "collect")
    channel = alice.create_channel(intent, "of-the-task", task_id=task.id)["id"]
    alice.update_task(task.id, task.version, status="completed")

    assert alice.get_channel(channel)["status"] == "closed"


@pytest.mark.both_stores
def test_a_subscriber_gets_messages_and_resumes_where_it_was_after_a_restart(server: ServerProcess) -> None:
    alice, bob = client(server, "alice"), client(server, "bob")
    channel = a_channel(alice)
    seen: list[int] = []
    subscribed = threading.Event()
    done = threading.Event()

    def follow() -> None:
        for event in bob.subscribe_agent():
            data = event.data
            if data.get("channel_id") == channel:
                seen.append(data["payload"]["n"])
                subscribed.set()
                if len(seen) == 20:
                    done.set()
                    return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    while not subscribed.is_set():  # the stream begins when it is open: say hello until it is
        alice.send_message(channel, "alice", "bob", "notify", {"n": 0})
        subscribed.wait(0.05)
    for number in range(1, 10):
        alice.send_message(channel, "alice", "bob", "notify", {"n": number})
    server.kill()
    server.start()
    for number in range(10, 40):
        alice.send_message(channel, "alice", "bob", "notify", {"n": number})

    assert done.wait(60)
    counted = [number for number in seen if number]
    assert counted == list(range(1, len(counted) + 1))


def test_an_agent_hears_of_its_assignment_under_the_name_that_its_runtime_knows(server: ServerProcess) -> None:
    alice, frank = client(server, "alice"), client(server, "frank")
    intent = an_intent(alice)
    heard: list[SSEEvent] = []

    def follow() -> None:
        for event in frank.subscribe_agent():
            heard.append(event)
            return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not heard and time.monotonic() < deadline:
        alice.assign_agent(intent, "frank")
        thread.join(0.1)
        alice.unassign_agent(intent, "frank")

    assert heard[0].type == "AGENT_ASSIGNED"
    assert heard[0].data["intent_id"] == intent
