"""Three servers on one database: whoever speaks to any of them speaks to all, as if there were only one."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.node_group import PATIENCE, Group, Stream, Voice, a_group
from tests.postgres.cluster import a_cluster

pytestmark = pytest.mark.slow
A, B, C = range(3)
ROUNDS = 100
ANSWERER = """\
import parley

@parley.Agent("bob", start="beginning")
class Bob:
    @parley.on_message()
    async def answer(self, message):
        return {"text": message.payload["text"] + "!"}

Bob().run()
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with a_cluster(fsync="on") as cluster, a_group(cluster, tmp_path_factory.mktemp("group"), 3) as group:
        yield group


@pytest.fixture
def group(servers: Group) -> Group:
    return servers.in_new_tenant()


def test_a_stream_of_one_server_shows_what_is_said_on_another_and_goes_on_at_a_third(group: Group) -> None:
    _, channel = group.voice(A, "alice").place()
    path = f"/subscribe/channels/{channel}"
    stream = Stream(group.voice(A, "bob"), path)
    said = [f"{number}" for number in range(60)]

    # When the servers take turns, half of it while nobody follows
    for number, text in enumerate(said[:20]):
        group.voice(number % 3, "alice").say(channel, text)
    seen = stream.texts(20)
    stream.close()
    for number, text in enumerate(said[20:40]):
        group.voice(number % 3, "alice").say(channel, text)
    resumed = Stream(group.voice(C, "bob"), path, after=stream.last)
    for number, text in enumerate(said[40:]):
        group.voice(number % 3, "alice").say(channel, text)

    # Then everything comes in its order, without gap or repeat
    assert seen + resumed.texts(40) == said
    resumed.close()


def test_what_is_said_on_all_servers_at_once_comes_in_one_order_everywhere(group: Group) -> None:
    _, channel = group.voice(A, "alice").place()
    streams = [Stream(group.voice(node, "bob"), f"/subscribe/channels/{channel}") for node in (A, B, C)]

    with ThreadPoolExecutor(6) as crowd:
        list(crowd.map(lambda number: group.voice(number % 3, "alice").say(channel, f"{number}"), range(90)))

    orders = [stream.texts(90) for stream in streams]
    for stream in streams:
        stream.close()
    assert orders[A] == orders[B] == orders[C] == group.voice(B, "bob").texts(channel)
    assert sorted(map(int, orders[A])) == list(range(90))


def test_who_waits_at_one_server_hears_what_is_said_on_another(group: Group) -> None:
    _, channel = group.voice(A, "alice").place()

    with ThreadPoolExecutor(1) as waiting:
        polled = waiting.submit(group.voice(A, "bob").get, f"/channels/{channel}/messages?wait=60")
        group.voice(B, "alice").say(channel, "here")
        found = polled.result(PATIENCE).json

    assert [one["payload"]["text"] for one in found] == ["here"]


def test_a_question_at_one_server_is_answered_at_another(group: Group) -> None:
    _, channel = group.voice(A, "alice").place()
    inbox = Stream(group.voice(B, "bob"), "/subscribe/agents/bob")

    def answer() -> None:
        asked = inbox.next()
        assert asked is not None
        group.voice(B, "bob").done("POST", f"/channels/{channel}/messages/{asked.data['id']}/reply", _says("fine"))

    with ThreadPoolExecutor(1) as bob:
        answering = bob.submit(answer)
        answer_ = group.voice(A, "alice").done("POST", f"/channels/{channel}/ask", _asks("How?"))
        answering.result()

    inbox.close()
    assert (answer_["payload"], answer_["sender"]) == ({"text": "fine"}, "bob")


def test_a_question_at_one_server_is_answered_by_an_agent_of_the_sdk_at_another(group: Group, tmp_path: Path) -> None:
    (tmp_path / "bob.py").write_text(ANSWERER)
    environment = {"HOME": str(tmp_path), "PARLEY_URL": group.nodes[C].url, "PARLEY_KEY": group.key}
    agent = subprocess.Popen([sys.executable, "bob.py"], cwd=tmp_path, env=environment)
    try:
        _, channel = group.voice(A, "alice").place()
        answers = [
            group.voice(node, "alice").done("POST", f"/channels/{channel}/ask", _asks(f"{node}"))["payload"]["text"]
            for node in (A, B, C)
        ]
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait(60)
    assert answers == ["0!", "1!", "2!"]


def test_what_waits_for_a_person_at_one_server_is_decided_at_another_and_heard_of_at_a_third(group: Group) -> None:
    admin = group.voice(A)
    for agent, user in (("carol", "cleo"), ("dave", "dan")):
        admin.done("POST", "/agents/register", {"agent_id": agent, "org_unit": "engineering", "user_id": user})
    cleo = admin.new_key(kind="human", user_id="cleo")["key"]
    _, channel = group.voice(B, "carol").place()
    inbox = Stream(group.voice(C, "dave"), f"/subscribe/channels/{channel}")

    # Given a commitment that is held on one server
    said = {"payload": {"text": "I commit to it."}, "to": "dave", "message_type": "request"}
    governed = {**said, "metadata": {"exchange_type": "commitment_request"}}
    held = group.voice(A, "carol").post(f"/channels/{channel}/messages", governed)
    assert held.status == 202
    approval = held.json["approval"]
    assert group.voice(C, "dave").texts(channel) == []

    # When its person decides at another
    shown = group.voice(B, key=cleo).done("GET", f"/approvals/{approval}")
    decision = {"decision": "approve", "digest": shown["digest"]}
    group.voice(B, key=cleo).done("POST", f"/approvals/{approval}/decision", decision)

    # Then it is said at the third, and the sender can see so there
    assert inbox.texts(1) == ["I commit to it."]
    inbox.close()
    assert group.voice(C, "carol").done("GET", f"/approvals/{approval}")["status"] == "approved"


def test_who_is_removed_at_one_server_is_out_at_all_of_them_at_once(group: Group) -> None:
    _, channel = group.voice(A, "alice").place("alice", "bob")
    stream = Stream(group.voice(B, "bob"), f"/subscribe/channels/{channel}")
    group.voice(A, "alice").say(channel, "before")
    assert stream.texts(1) == ["before"]

    group.voice(A, "alice").done("PATCH", f"/channels/{channel}", {"remove_members": ["bob"]})
    refused = group.voice(B, "bob").get(f"/channels/{channel}/messages")
    group.voice(C, "alice").say(channel, "after")

    assert refused.status in (403, 404)
    assert [event.name for event in stream.until_its_end()] == ["revoked"]
    stream.close()


def test_a_key_that_is_revoked_at_one_server_is_of_no_use_at_any_other(group: Group) -> None:
    _, channel = group.voice(A, "alice").place()
    key = group.voice(A).new_key(kind="agent", agent_id="erin")
    erin = group.voice(B, "erin", key["key"])
    stream = Stream(erin, f"/subscribe/channels/{channel}")
    with ThreadPoolExecutor(1) as waiting:
        polled = waiting.submit(group.voice(C, "erin", key["key"]).get, f"/channels/{channel}/messages?wait=60")
        assert erin.texts(channel) == []

        group.voice(A).done("DELETE", f"/keys/{key['id']}")

        assert erin.get(f"/channels/{channel}/messages").status == 401
        assert [event.name for event in stream.until_its_end()] == ["revoked"]
        group.voice(A, "alice").say(channel, "not for you")
        assert polled.result(PATIENCE).status == 401
    stream.close()


def test_a_key_is_good_everywhere_as_soon_as_it_is_made(group: Group) -> None:
    for number in range(10):
        made = group.voice(number % 3).new_key(kind="service")
        for node in (A, B, C):
            assert group.voice(node, key=made["key"]).get("/intents").status == 200


def test_a_request_that_is_repeated_at_another_server_is_carried_out_once(group: Group) -> None:
    _, channel = group.voice(A, "alice").place()
    once = {"Idempotency-Key": "one"}

    first = group.voice(A, "alice").say(channel, "once", **once)
    again = [group.voice(node, "alice").say(channel, "once", **once) for node in (B, C, A)]

    assert [one["id"] for one in again] == [first["id"]] * 3
    assert group.voice(B, "alice").texts(channel) == ["once"]
    other = group.voice(B, "alice").post(f"/channels/{channel}/messages", {"payload": {"text": "other"}}, **once)
    assert (other.status, other.json["code"]) == (422, "idempotency_mismatch")


def test_a_request_that_is_sent_to_all_servers_at_the_same_moment_is_carried_out_once(group: Group) -> None:
    _, channel = group.voice(A, "alice").place()
    for number in range(10):
        ready = threading.Barrier(3)

        def say(node: int, number: int = number, ready: threading.Barrier = ready) -> str:
            ready.wait()
            said = group.voice(node, "alice").say(channel, f"{number}", **{"Idempotency-Key": f"key-{number}"})
            return str(said["id"])

        with ThreadPoolExecutor(3) as crowd:
            assert len(set(crowd.map(say, (A, B, C)))) == 1
    assert group.voice(A, "alice").texts(channel) == [f"{number}" for number in range(10)]


def test_whatever_one_server_has_confirmed_every_other_one_shows(group: Group) -> None:
    _, channel = group.voice(A, "alice").place()
    for number in range(ROUNDS):
        said = group.voice(number % 3, "alice").say(channel, f"{number}")
        shown = group.voice((number + 1) % 3, "bob").done("GET", f"/channels/{channel}/messages?since={number}")
        assert [one["id"] for one in shown] == [said["id"]]


def test_a_policy_that_is_put_at_one_server_judges_at_every_other_at_once(group: Group) -> None:
    admin = group.voice(A)
    for agent in ("frank", "grace"):
        admin.done("POST", "/agents/register", {"agent_id": agent, "org_unit": "law", "user_id": agent[0]})
    _, channel = group.voice(A, "frank").place()

    def asks(voice: Voice) -> int:
        body = {"payload": {"text": "status?"}, "to": "grace", "message_type": "request"}
        governed = {**body, "metadata": {"exchange_type": "information_query"}}
        return voice.post(f"/channels/{channel}/messages", governed).status

    for number in range(5):
        allowed = f"agent-to-agent:\n  exchange_types: [information_query]\n  # {number}\n"
        admin.done("PUT", "/policies/org/law", {"text": allowed})
        assert [asks(group.voice(node, "frank")) for node in (A, B, C)] == [201] * 3
        refused = f"agent-to-agent:\n  exchange_types: [meeting_scheduling]\n  # {number}\n"
        group.voice(B).done("PUT", "/policies/org/law", {"text": refused})
        assert [asks(group.voice(node, "frank")) for node in (A, B, C)] == [403] * 3


def _says(text: str) -> dict[str, object]:
    return {"payload": {"text": text}}


def _asks(text: str) -> dict[str, object]:
    return {"payload": {"text": text}, "to": "bob", "timeout": PATIENCE - 5, "wait_for_responders": True}
