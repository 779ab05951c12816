"""RFC-0021, SDK integration: both clients have the eleven methods, and each line of the text runs as it stands."""

from __future__ import annotations

import ast
import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from parley import AsyncClient, Client
from parley.testing import Stage, stage
from parley.wire.api.records.channels import Channel, ChannelMessage
from tests.conformance.channels.rfc_sdk import CLIENT_METHODS, Agents
from tests.rigs.chosen_store import a_database

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES = [line.partition("#")[0].strip() for line in CLIENT_METHODS.splitlines() if line.startswith("client.")]
ASKER, ASKED = "research-agent-01", "data-agent-01"
ANSWER = {"answer": "v2.3", "confidence": 0.95}


def called(line: str) -> ast.Call:
    call = ast.parse(line, mode="eval").body
    assert isinstance(call, ast.Call)
    return call


def method(line: str) -> str:
    function = called(line).func
    assert isinstance(function, ast.Attribute)
    return function.attr


def parameters(line: str) -> list[tuple[str, object]]:
    """The parameters of the text, in their order, with their defaults."""
    call = called(line)
    bare: list[tuple[str, object]] = [(ast.unparse(one), None) for one in call.args]
    return bare + [(str(one.arg), ast.literal_eval(one.value)) for one in call.keywords]


def test_the_text_lists_eleven_methods() -> None:
    assert len({method(line) for line in LINES}) == 11


@pytest.mark.requirement("RFC21-S-METHODS")
@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_the_methods_stand_in_the_order_of_the_text(client: type) -> None:
    own = {name for line in LINES if (name := method(line))}
    written = [name for kind in client.__mro__[1:] for name in vars(kind) if name in own]

    assert written == [method(line) for line in LINES]


@pytest.mark.requirement("RFC21-S-METHODS")
@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize("line", LINES, ids=method)
def test_a_method_takes_what_the_text_gives_it_in_that_order(client: type, line: str) -> None:
    function = getattr(client, method(line))
    accepted = list(inspect.signature(function).parameters.values())[1:]
    wanted = parameters(line)

    assert [one.name for one in accepted[: len(wanted)]] == [name for name, _ in wanted]
    assert all(one.kind is not one.KEYWORD_ONLY for one in accepted[: len(wanted)])
    for one, (name, default) in zip(accepted, wanted, strict=False):
        if name in {word.arg for word in called(line).keywords}:
            assert one.default == default
    assert inspect.iscoroutinefunction(function) is (client is AsyncClient)


@pytest.fixture(name="team", scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with a_database(tmp_path_factory.mktemp("clients")) as store, stage(store=store) as team:
        team.start(Agents().data)
        yield team


def names_for(line: str, team: Stage) -> dict[str, Any]:
    """What stands for the words of a line: a channel of its own, and a request in it that waits for an answer."""
    client = team.client(ASKER)
    intent = client.create_intent(line, status="active", access="open")
    channel = client.create_channel(intent.id, "data-clarification")
    asked = team.client(ASKED).send_message(channel.id, to=ASKER, message_type="request", payload={"question": "Why?"})
    words = {"sender": ASKER, "to": ASKED, "payload": {"question": "What schema version?"}, "name": "progress"}
    return {"intent_id": intent.id, "channel_id": channel.id, "message_id": asked.id, **words}


def checked(line: str, said: Any, names: dict[str, Any]) -> None:  # noqa: ANN401
    """That a method did what its name says."""
    verb, channel, message = method(line), {"id": names["channel_id"]}, {"id": names["message_id"]}
    answered = {"message_type": "response", "sender": ASKED, "payload": ANSWER}
    fields: dict[str, dict[str, Any]] = {
        "create_channel": {"name": "progress", "member_policy": "intent"},
        "list_channels": channel,
        "get_channel": channel,
        "close_channel": channel | {"status": "closed"},
        "send_message": {"message_type": "notify", "payload": {}, "sender": ASKER},
        "reply_to": {"message_type": "response", "correlation_id": message["id"], "to": ASKED, "payload": {}},
        "list_messages": message,
        "get_message": message,
        "mark_read": message | {"status": "read"},
        "ask": answered,
        "ask_all": answered,
    }
    [one] = said if verb in {"list_channels", "list_messages", "ask_all"} else [said]
    assert isinstance(one, Channel if verb.endswith(("channel", "channels")) else ChannelMessage)
    assert {name: getattr(one, name) for name in fields[verb]} == fields[verb]


@pytest.mark.requirement(
    "RFC21-S-METHODS",
    "RFC21-S-CREATE-CHANNEL",
    "RFC21-S-CHANNELS",
    "RFC21-S-SEND",
    "RFC21-S-REPLY",
    "RFC21-S-READING",
    "RFC21-S-ASK",
    "RFC21-S-ASK-ALL",
)
@pytest.mark.parametrize("line", LINES, ids=method)
def test_a_line_of_the_text_runs(line: str, team: Stage) -> None:
    names = names_for(line, team)

    said = eval(line, {"client": team.client(ASKER), **names})

    checked(line, said, names)


@pytest.mark.requirement("RFC21-S-METHODS")
@pytest.mark.parametrize("line", LINES, ids=method)
def test_a_line_of_the_text_runs_when_it_is_awaited(line: str, team: Stage) -> None:
    names = names_for(line, team)

    async def awaited() -> object:
        async with team.async_client(ASKER) as client:
            return await eval(line, {"client": client, **names})

    checked(line, asyncio.run(awaited()), names)
