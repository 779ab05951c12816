"""The server does what its OpenAPI document says and nothing else, whatever it is sent: 5,000 calls made from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import checks
from schemathesis.core.result import Ok

from parley.surfaces.http import openapi
from parley.surfaces.http.server import all_routes
from tests.rigs.process import ADMIN_KEY, ServerProcess, running

pytestmark = pytest.mark.slow

CALLS = 5_000
SHARDS = 4
# More than an even share, because some operations have nothing that could be varied.
EACH = 50
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def operations() -> list[Any]:
    """Every operation but the streams, which end only when one leaves."""
    document = openapi.document(route for route in all_routes() if not route.streams)
    schema = schemathesis.openapi.from_dict(document)
    return [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with running(tmp_path / "data") as process:
        yield process


class Known:
    """Ids of things that exist, so that calls get further than to a 404."""

    def __init__(self, session: requests.Session, url: str) -> None:
        api = f"{url}/api/v1"
        self.intent_id = session.post(f"{api}/intents", json={"title": "t", "access": "open"}).json()["id"]
        channel = session.post(f"{api}/intents/{self.intent_id}/channels", json={"name": "c"})
        self.channel_id = channel.json()["id"]
        said: dict[str, Any] = {"to": "alice", "message_type": "request", "payload": {}}
        self.message_id = session.post(f"{api}/channels/{self.channel_id}/messages", json=said).json()["id"]
        self.agent_id = "alice"
        session.post(f"{api}/agents/register", json={"agent_id": "alice", "org_unit": "sales", "user_id": "ann"})
        session.post(f"{api}/agents/register", json={"agent_id": "bob", "org_unit": "sales", "user_id": "ben"})
        governed: dict[str, Any] = {"to": "bob", "message_type": "request", "metadata": {"classification": "public"}}
        posts = f"{api}/channels/{self.channel_id}/messages"
        asked = session.post(posts, json={**governed, "payload": {"text": "hello"}}).json()
        self.exchange_id = asked["metadata"]["ocip_ext"]["exchange_id"]
        self.approval_id = session.post(posts, json={**governed, "payload": {"text": "I promise."}}).json()["approval"]
        text = "agent-to-agent:\n  max_rounds: 2\n"
        session.put(f"{api}/policies/org/sales", json={"text": text})
        self.scope, self.name = "org", "sales"
        session.get(f"{api}/audit/export")
        self.entry_id, self.size = session.get(f"{api}/audit").json()["entries"][0]["id"], "latest"
        self.task_id = session.post(f"{api}/tasks", json={"intent_id": self.intent_id, "name": "t"}).json()["id"]

    def put_into(self, case: schemathesis.Case[Any], number: int) -> None:
        """Real ids in the path of every second call; nobody waits for long; the key that calls is not taken away.

        By the number of the call, not by the case's id: that is drawn anew in every run.
        """
        parameters = case.path_parameters or {}
        for name in parameters:
            known = getattr(self, name, None)
            if known is not None and number % 2:
                parameters[name] = known
        if case.query and "wait" in case.query:
            case.query["wait"] = 0.01
        third = number % 3 == 0
        if isinstance(case.body, dict) and third and case.method == "POST" and "/messages" in case.path:
            # Under the rules: such a message is held.
            case.body.update({"metadata": {"classification": "public"}, "payload": {"text": "I promise."}})
        if isinstance(case.body, dict):
            # Without one, an ask waits longer for its answer than this test does.
            timeout = case.body.get("timeout", 30 if case.path.endswith("/ask") else None)
            if isinstance(timeout, int | float):
                case.body["timeout"] = 0.01
            if isinstance(case.body.get("wait"), int | float):
                case.body["wait"] = 0.01
        if case.headers and "X-Agent-ID" in case.headers:
            case.headers["X-Agent-ID"] = "alice"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_call_is_answered_otherwise_than_described(server: ServerProcess, shard: int) -> None:
    session = requests.Session()
    session.headers.update({"X-API-Key": ADMIN_KEY, "X-Agent-ID": "alice"})
    known = Known(session, server.url)
    calls = 0

    def call(case: schemathesis.Case[Any]) -> None:
        nonlocal calls
        calls += 1
        known.put_into(case, calls)
        headers = {**dict(case.headers or {}), "X-API-Key": ADMIN_KEY}
        response = case.call(base_url=server.url, session=session, headers=headers, timeout=20)
        # That nobody answered an ask in time is described, and no fault of the server.
        unanswered = response.status_code == 504 and case.path.endswith("/ask")
        case.validate_response(response, checks=CHECKS[1:] if unanswered else CHECKS)

    for operation in operations()[shard::SHARDS]:
        bounds = settings(
            max_examples=EACH, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True
        )
        bounds(given(case=operation.as_strategy())(call))()
    session.close()

    print(f"{calls} calls")
    assert calls >= CALLS // SHARDS
    assert requests.get(f"{server.url}/readyz", timeout=20).status_code == 200


def test_the_shards_cover_every_operation() -> None:
    assert sum(len(operations()[shard::SHARDS]) for shard in range(SHARDS)) == len(operations())
