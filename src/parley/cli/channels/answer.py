"""`parley answer`: answer a request in a channel, in whole or in part, with a question or with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.cli.channels.post import show_posted
from parley.cli.command import Command
from parley.cli.parts.lookup import add_channel_option, message_of
from parley.cli.parts.payload import add_payload, add_purpose, read_metadata, read_text_or_payload
from parley.cli.parts.remote import add_server_options, connection_of, without_none
from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    import argparse

_FAILURE_CODE = "agent_failed"
# Option -> what is printed before the id of the message.
_KINDS = {
    "partial": "Answered in part with",
    "progress": "Told the progress with",
    "question": "Asked back with",
    "error": "Answered with an error,",
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_channel_option(parser, "the request")
    parser.add_argument("text", nargs="?", default=None, metavar="TEXT", help='a payload of one text: {"text": TEXT}')
    kinds = parser.add_argument_group("instead of the answer (one of these)").add_mutually_exclusive_group()
    for option, meaning in (
        ("--partial", "send a part of the answer; more follows"),
        ("--progress", "say how far it is; the answer follows"),
        ("--question", "ask TEXT back; the sender asks on with: parley ask --follow-up"),
        ("--error", "refuse, or say that it failed: TEXT is the reason"),
    ):
        kinds.add_argument(option, action="store_const", dest="kind", const=option[2:], default="", help=meaning)
    add_payload(parser)
    add_purpose(parser)
    add_server_options(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Parts and progress reach whoever asked with `parley ask --stream`; the first\n"
        "answer that is neither ends the request. With --error, `ask` fails with the\n"
        "reason.\n\n"
        "Exit code 4: the request is answered, withdrawn, expired or handed on already,\n"
        "or takes no parts. Exit code 9: the answer is held for approval."
    )


def _answer(args: argparse.Namespace) -> int:
    payload, metadata = read_text_or_payload(args), read_metadata(args) or {}
    connection = connection_of(args)
    payload, metadata = _marked(args.kind, connection.agent, payload, metadata)
    channel, message = message_of(connection, args)
    body = without_none({"payload": payload, "metadata": metadata or None})
    posted = connection.post("channels", channel, "messages", message, "reply", body=body)
    return show_posted(args, posted, _KINDS.get(args.kind, "Answered with"))


def _marked(
    kind: str, agent: str, payload: dict[str, Any], metadata: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Payload and metadata of an answer of this kind, as the SDK writes and reads them."""
    from parley.sdk.protocol.failures import Failure
    from parley.wire.parts import ARTIFACT, PARTIAL, PROGRESS

    if kind == "partial":
        return payload, {**metadata, PARTIAL: ARTIFACT}
    if kind == "progress":
        return payload, {**metadata, PARTIAL: PROGRESS}
    if not kind:
        return payload, metadata
    text = payload.get("text")
    if not isinstance(text, str) or not text.strip():
        raise Invalid(f"--{kind} needs a text", hint="write it as TEXT or with --body")
    if kind == "error":
        failure = Failure(_FAILURE_CODE, text)
        return failure.payload(agent), {**metadata, **failure.metadata}
    rest = {name: value for name, value in payload.items() if name != "text"}
    return {"question": text, **rest}, {**metadata, "kind": "question"}


COMMANDS = {
    "answer": Command(
        "Answer a request in a channel",
        _add_arguments,
        _answer,
        (
            "parley answer 7K2M --channel questions 'Schema v2.3' --agent codex",
            "parley answer 7K2M --channel questions --field answer=v2.3 --agent codex",
            "parley answer 7K2M --channel questions --progress 'half of it' --agent codex",
            "parley answer 7K2M --channel questions --question 'Which city?' --agent codex",
            "parley answer 7K2M --channel questions --error 'not before Friday' --agent codex",
        ),
    ),
}
