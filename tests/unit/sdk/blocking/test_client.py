"""The blocking client, which is generated: each area once, on a real server over HTTP."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from parley.domain.directory.callers import KeyKind
from parley.domain.errors.errors import Invalid, NotFound, Unavailable
from parley.domain.errors.team import AskTimeout
from parley.domain.receipts import DeliveryReceipt, ReceiptState
from parley.sdk.blocking.client import Client
from parley.sdk.client.client import AsyncClient
from tests.rigs.fake_outbound import FakeOutbound
from tests.rigs.team import CHANNEL, INTENT, LiveServer, with_server

URL = "http://127.0.0.1:1"
GENERATOR = Path(__file__).parents[4] / "tools" / "gen_client.py"


def test_the_blocking_client_is_fresh() -> None:
    checked = subprocess.run([sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, "")


def speaks_for_an_agent_to_a_server(alice: Client) -> None:
    assert alice.health().status == "ready"
    assert alice.server_info().api_base_url == "/api/v1"
    with pytest.raises(NotFound):
        alice.get_channel("chan_nobodys")


def opens_channels(alice: Client) -> None:
    opened = alice.open_channel(INTENT, "questions", ["bob"])
    assert alice.open_channel(INTENT, "questions") == opened
    assert opened in alice.list_channels(INTENT)
    assert alice.close_channel(opened.id).status == "closed"
    alice.delete_channel(opened.id)


def sends_messages(alice: Client) -> None:
    message = alice.send_message(CHANNEL, payload={"text": "hello"})
    assert alice.list_messages(CHANNEL) == alice.search("hello") == [message]
    with pytest.raises(AskTimeout):
        alice.ask(CHANNEL, None, "bob", {"text": "Anybody?"}, timeout=0.05, wait_for_responders=True)


def reads_receipts(alice: Client) -> None:
    message = alice.send_message(CHANNEL, to="bob", payload={"text": "hello"})
    assert alice.message_status(message).receipts == (DeliveryReceipt("bob", ReceiptState.QUEUED),)
    with pytest.raises(AskTimeout, match="is queued, not acted"):
        alice.wait_until(message, "acted", wait=timedelta(milliseconds=10))
    with pytest.raises(Invalid, match="acknowledged or acted"):
        alice.wait_until(message, "injected")


def sets_timers(alice: Client) -> None:
    timer = alice.schedule_message(CHANNEL, to="bob", payload=["later"], after=60)
    assert alice.list_timers() == [timer] == [alice.get_timer(timer.id)]
    alice.cancel_timer(timer.id)
    assert alice.list_timers() == []


def follows_streams(alice: Client) -> None:
    message = alice.send_message(CHANNEL, payload={"text": "hello"})
    with closing(alice.follow(channel=CHANNEL, after="0")) as items:
        message_of_stream = next(items).message
    assert message_of_stream is not None
    assert message_of_stream.id == message.id
    with closing(alice.follow()) as items, pytest.raises(Invalid, match="name what to follow"):
        next(items)


def changes_intents(alice: Client) -> None:
    intent = alice.create_intent("Launch", status="active")
    assert alice.update_state(intent.id, {"phase": "two"}).state == {"phase": "two"}
    assert alice.complete_intent(intent.id).status == "completed"
    assert intent.id in [known.id for known in alice.list_intents()]


def writes_events(alice: Client) -> None:
    event = alice.log_event(INTENT, "noted", {"text": "hello"})
    assert event in alice.list_events(INTENT)
    assert alice.verify_events(INTENT).valid


def manages_access(alice: Client) -> None:
    alice.set_acl(INTENT, "closed")
    grant = alice.grant_access(INTENT, "bob", "write")
    assert alice.get_acl(INTENT).entries == [grant]
    assert alice.list_access_requests(INTENT) == []
    alice.revoke_access(INTENT, grant.id)


def plans_tasks(alice: Client) -> None:
    task = alice.create_task(INTENT, "Write it", capabilities_required=["writing"])
    assert alice.update_task(task.id, priority="high").priority == "high"
    assert [known.id for known in alice.list_tasks(INTENT)] == [task.id]


def registers_agents(alice: Client) -> None:
    registered = alice.register_agent("alice", capabilities=["python"])
    assert registered.capabilities == ["python"]
    assert alice.open_bookmark("alice", "default", start="now").open == []
    assert alice.list_roles() == []


def claims_jobs(alice: Client) -> None:
    alice.register_agent("alice")
    assert (alice.claim_jobs("alice"), alice.list_dead(), alice.count_queues()) == ([], [], [])


def subscribes_webhooks(alice: Client) -> None:
    alice.register_agent("alice")
    subscription = alice.subscribe("https://example.com/hook", intent_id=INTENT)
    assert [known.id for known in alice.list_subscriptions()] == [subscription.id]
    alice.unsubscribe(subscription.id)


def looks_for_decisions(admin: Client) -> None:
    assert (admin.list_approvals(), admin.list_exchanges()) == ([], [])
    assert admin.suspend("agent", "bob").name == "bob"
    admin.lift_suspension("agent", "bob")


def puts_policies_into_force(admin: Client) -> None:
    policy = admin.put_policy("enterprise", "all", "agent-to-agent:\n  enabled: true\n")
    assert admin.get_policy("enterprise", "all").text == policy.text
    assert admin.policy_history()


def reads_the_audit_log(admin: Client) -> None:
    admin.suspend("agent", "bob")
    assert admin.list_audit().entries
    assert all(line.endswith(b"\n") for line in admin.export_audit())


def makes_keys(admin: Client) -> None:
    key = admin.create_key("agent", agent_id="bob")
    assert key.id in [known.id for known in admin.list_keys()]
    assert admin.revoke_key(key.id).revoked_at is not None


def signs_browsers_in(admin: Client) -> None:
    assert admin.create_login_link().once.startswith("pso_")
    assert (admin.list_sessions(), admin.end_sessions()) == ([], 0)


ALICE = [
    speaks_for_an_agent_to_a_server,
    opens_channels,
    sends_messages,
    reads_receipts,
    sets_timers,
    follows_streams,
    changes_intents,
    writes_events,
    manages_access,
    plans_tasks,
    registers_agents,
    claims_jobs,
    subscribes_webhooks,
]
ADMIN = [looks_for_decisions, puts_policies_into_force, reads_the_audit_log, makes_keys, signs_browsers_in]


@pytest.mark.parametrize("story", [*ALICE, *ADMIN], ids=lambda story: story.__name__)
@with_server
async def test_the_blocking_client(server: LiveServer, story: Callable[[Client], None]) -> None:
    server.rig.team.outbound = FakeOutbound()
    key = await (server.rig.key("alice") if story in ALICE else server.rig.key("", KeyKind.ADMIN))

    def carried_out() -> None:
        with Client(f"http://127.0.0.1:{server.listener.port}", key=key) as client:
            story(client)

    await asyncio.to_thread(carried_out)


def test_every_area_has_its_story() -> None:
    assert len(ALICE) + len(ADMIN) == len(Client.__bases__) == len(AsyncClient.__bases__)


def test_a_client_can_speak_for_another_agent_by_the_same_key_and_connections() -> None:
    client = Client(URL, key="secret", agent="alice")

    other = client.as_agent("bob")

    assert (repr(client), repr(other)) == (f"Client('{URL}', agent='alice')", f"Client('{URL}', agent='bob')")
    assert other.connection.transport is client.connection.transport


def test_where_no_server_is_the_error_says_what_to_do() -> None:
    with Client(URL, key="secret") as client, pytest.raises(Unavailable, match="parley up"):
        client.health()
