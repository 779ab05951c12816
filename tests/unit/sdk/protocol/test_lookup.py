"""Names become ids in as few requests as possible."""

from __future__ import annotations

from typing import Any

import pytest

from parley.domain.errors.errors import NotFound
from parley.sdk.protocol import lookup
from parley.sdk.protocol.flow import ApiSession, Flow
from parley.sdk.protocol.lookup import KEYS, FoundIntent
from parley.sdk.transport.port import Request, Response
from tests.unit.sdk.playing import said

INTENT = FoundIntent("intent_01M7H16BJG2G0T7VFEFHN4GRSJ", "Launch")


def a_session() -> ApiSession:
    return ApiSession("http://127.0.0.1:8420", new_key=lambda: "key", monotonic=lambda: 0.0)


def played(flow: Flow[Any], *documents: Any) -> tuple[Any, list[str]]:
    """What a flow returns, and the targets of its requests."""
    answers: list[Any] = list(documents)
    targets: list[str] = []
    try:
        request = next(flow)
        while True:
            assert isinstance(request, Request)
            targets.append(request.target.removeprefix("/api/v1/"))
            response: Response[Any] = said(answers.pop(0))
            request = flow.send(response)
    except StopIteration as end:
        return end.value, targets


def an_intent(number: int, title: str = "Launch", status: str = "active", by: str = "ann") -> dict[str, Any]:
    return {"id": f"intent_{number:026d}", "title": title, "status": status, "created_by": by}


@pytest.mark.parametrize(
    "flow",
    [
        lambda session: lookup.find_intent(session, INTENT.id),
        lambda session: lookup.find_channel(session, INTENT, "chan_01M7H16C2K5VXJ8Y6T4QZ0ABCD"),
        lambda session: lookup.find_message(session, "chan_1", "msg_01M7H16DAF6CDY192R30EBFZ3J"),
        lambda session: lookup.find_id(session, KEYS, "key_01M7H16DAF6CDY192R30EBFZ3J"),
    ],
)
def test_an_id_in_full_costs_no_request(flow: Any) -> None:
    assert played(flow(a_session()))[1] == []


def test_a_title_costs_one_request() -> None:
    found, targets = played(lookup.find_intent(a_session(), "Launch"), {"intents": [an_intent(1)]})

    assert (found.id, targets) == (an_intent(1)["id"], ["intents?name=Launch&limit=500"])


def test_similar_titles_cost_one_more() -> None:
    with pytest.raises(NotFound, match="Lanch") as error:
        played(lookup.find_intent(a_session(), "Lanch"), {"intents": []}, {"intents": [an_intent(1)]})

    assert error.value.hint == 'did you mean "Launch"?'


def test_the_default_intent_costs_one_request_and_is_created_with_a_key_for_the_agent() -> None:
    only, targets = played(
        lookup.find_default_intent(a_session(), create=True), {"intents": [an_intent(1), an_intent(2, by="system")]}
    )
    made, more = played(lookup.find_default_intent(a_session(), create=True), {"intents": []}, an_intent(3, "default"))

    assert (only.id, only.is_new, len(targets)) == (an_intent(1)["id"], False, 1)
    assert (made.id, made.is_new, more[1]) == (an_intent(3)["id"], True, "intents")


def test_a_default_intent_that_is_over_is_not_taken_for_a_new_one() -> None:
    over = an_intent(1, "default", "completed")

    made, targets = played(
        lookup.find_default_intent(a_session(), create=True), {"intents": []}, over, an_intent(2, "default")
    )

    assert (made.id, targets[1:]) == (an_intent(2)["id"], ["intents", "intents"])


def test_a_message_is_looked_for_on_every_page() -> None:
    pages = [[{"id": f"msg_{number:026d}", "message_type": "notify", "sender": "a"} for number in range(500)]]
    pages.append([{"id": "msg_01M7H16DAF6CDY192R30EBFZ3J", "message_type": "notify", "sender": "a"}])

    found, targets = played(lookup.find_message(a_session(), "chan_1", "FZ3J"), *pages)

    assert found == "msg_01M7H16DAF6CDY192R30EBFZ3J"
    assert targets[1] == f"channels/chan_1/messages?since=msg_{499:026d}&limit=500"
