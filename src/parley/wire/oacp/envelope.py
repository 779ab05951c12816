"""OCIP in a message file: `ocip:` is the envelope, `ocip_ext:` stands beside it, `disclosure:` is the label; pure.

    ocip: {"version": "1.0", "message_type": "agent-generated", "source_agent": {"instance_id": "alice", ...}, ...}
    ocip_ext: {"exchange_id": "exch_01K...", "exchange_type": "information_query", "hops": 1, ...}
    disclosure: "Sent by an assistant"

Each stands on one line, which is JSON, too: the OACP tool finds the message that it answers with a reader that knows
only lines. A block is read as well. A number or a flag stands without quotes, in its one spelling; a text that YAML
would take for something else stands in quotes. Anything else is an invalid envelope: never a default, and never a
person's message.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from parley.domain.content.envelope import Carried, Ext, Purpose
from parley.domain.errors.errors import Problem
from parley.domain.errors.rules import EnvelopeInvalid
from parley.domain.limits import DEFAULT_LIMITS
from parley.wire.ocip import (
    DATA,
    DISCLOSURE,
    ENVELOPE_FIELDS,
    EXT,
    OCIP,
    envelope_document,
    ext_document,
    read_data,
    read_envelope,
)
from parley.wire.yaml.strict import read_located
from parley.wire.yaml.write import flow

if TYPE_CHECKING:
    from parley.domain.content.classification import DataItem
    from parley.domain.content.envelope import Envelope
    from parley.domain.limits import Limits
    from parley.domain.message.message import Message, Value
    from parley.wire.yaml.strict import Path, Place

_NUMBERS = frozenset({"exchange_round", "max_rounds", "hops"})
_FLAGS = frozenset({"can_commit", "requires_commitment", "ai"})
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_SPELLED = {"true": True, "false": False}
# What YAML takes for a number, a flag or nothing when it stands without quotes.
_TYPED = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*|0x[0-9A-Fa-f]+|0o?[0-7]+|\.inf|\.nan)"
    r"|true|false|yes|no|on|off|null|~|",
    re.ASCII | re.IGNORECASE,
)
_EXT = frozenset(
    {
        "exchange_id",
        "exchange_type",
        "hops",
        "policy_version",
        "disclosure",
        "approval",
        "shared",
        "withheld",
        "outcome",
    }
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}", re.ASCII)
_MOST_HOPS = 1_000_000
_LONGEST = 256


class OacpEnvelopes:
    """See `ports.mailbox.MailEnvelopes`."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits

    def read(self, content: bytes) -> Carried:
        located = read_located(content.decode("utf-8", "replace"), self._limits)
        if located.refusals:
            _wrong(OCIP, str(located.refusals[0]))
        fields, places = located.fields, located.places
        if OCIP not in fields:
            _wrong(OCIP, "is missing")
        envelope = read_envelope(_typed((OCIP,), fields[OCIP], places))
        ext, label = _beside(_typed((EXT,), fields[EXT], places)) if EXT in fields else (None, "")
        conversation_id = fields.get("conversation_id")
        if conversation_id is not None and conversation_id != envelope.conversation_id:
            _wrong("conversation_id", "is not that of the message")
        return Carried(envelope, ext, label)

    def stamped(self, message: Message, envelope: Envelope, ext: Ext, label: str) -> Message:
        other_extras = {key: value for key, value in message.extras.items() if key not in (OCIP, EXT, DISCLOSURE)}
        document = {key: value for key, value in ext_document(ext, label).items() if value is not None}
        extras: dict[str, Value] = {
            **other_extras,
            OCIP: _rendered(envelope_document(envelope)),
            EXT: _rendered(document),
        }
        if label:
            extras[DISCLOSURE] = label
        return message._replace(extras=extras, conversation_id=envelope.conversation_id)


def annotation_lines(message: Message) -> str:
    """The lines of a file that a message has because of the rules."""
    typed = typed_extras(message)
    return "\n".join([f"{key}: {flow(typed[key])}" for key in (OCIP, EXT, DISCLOSURE) if key in typed])


def typed_extras(message: Message) -> dict[str, Value]:
    """What a message carries, numbers and flags as what they are: for programs, and for the file."""
    return {key: _encoded("", value) if key in (OCIP, EXT) else value for key, value in message.extras.items()}


def read_items(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> tuple[DataItem, ...]:
    """The data items in a file that a sender names: YAML or JSON, a list, alone or under `data`."""
    first = text.lstrip()[:1]
    whole = f"{DATA}:\n{text}" if first == "-" else f"{{{DATA}: {text}}}" if first == "[" else text
    located = read_located(whole, limits)
    if located.refusals:
        raise EnvelopeInvalid.because([Problem("invalid", DATA, f"{name}: {located.refusals[0]}")])
    if located.fields.keys() != {DATA}:
        raise EnvelopeInvalid.because([Problem("invalid", DATA, f"{name}: must hold a list under `{DATA}:`")])
    return read_data(located.fields[DATA])


def _typed(path: Path, value: Value, places: dict[Path, Place]) -> Any:  # noqa: ANN401  # whatever stands there
    """The value with the types that YAML gives it, but only in their one spelling."""
    if isinstance(value, dict):
        return {key: _typed((*path, key), item, places) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed((*path, place), item, places) for place, item in enumerate(value)]
    name = str(path[-1])
    if value is None:
        _wrong(".".join(map(str, path)), "has no value")
    text, plain = str(value), places[path].plain
    if plain and name in _NUMBERS and _NUMBER.fullmatch(text):
        return int(text)
    if plain and name in _FLAGS and text in _SPELLED:
        return _SPELLED[text]
    if path[0] == OCIP and isinstance(path[-1], str) and name not in ENVELOPE_FIELDS:
        _wrong(".".join(map(str, path)), "is not known")
    if (plain and _TYPED.fullmatch(text)) or name in _NUMBERS or name in _FLAGS:
        _wrong(".".join(map(str, path)), "is of the wrong type")
    return text


def _rendered(value: Any) -> Any:  # noqa: ANN401  # whatever a document holds
    """A document as a reader of the file sees it: every scalar is text."""
    if isinstance(value, dict):
        return {key: _rendered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rendered(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _encoded(name: str, value: Value) -> Value:
    """The other way round: numbers and flags under their names, so that they are written without quotes."""
    if isinstance(value, dict):
        return {key: _encoded(key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encoded(name, item) for item in value]
    if name in _NUMBERS and isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return _SPELLED.get(value, value) if name in _FLAGS and isinstance(value, str) else value


def _beside(value: object) -> tuple[Ext, str]:
    """What stands beside the envelope, and the label there."""
    if not isinstance(value, dict):
        _wrong(EXT, "must be an object")
    return _ext(value), _label(value)


def _ext(value: dict[str, Any]) -> Ext:
    for name in value:
        if name not in _EXT:
            _wrong(f"{EXT}.{str(name)[:64]}", "is not known")
    purposes = {purpose.value: purpose for purpose in Purpose}
    purpose = purposes.get(str(value.get("exchange_type")))
    if purpose is None:
        _wrong(f"{EXT}.exchange_type", f"must be one of {', '.join(purposes)}")
    hops = value.get("hops")
    if not isinstance(hops, int) or isinstance(hops, bool) or not 1 <= hops <= _MOST_HOPS:
        _wrong(f"{EXT}.hops", "must be a whole number from 1 on")
    approval = value.get("approval", {})
    if not isinstance(approval, dict) or not approval.keys() <= {"id", "by", "signature"}:
        _wrong(f"{EXT}.approval", "must have id, by and signature")
    return Ext(
        exchange_id=_id(value.get("exchange_id"), "exchange_id"),
        purpose=purpose,
        hops=hops,
        policy=_text(value.get("policy_version", ""), "policy_version"),
        approval_id=_id(approval["id"], "approval.id") if "id" in approval else "",
        approved_by=_id(approval["by"], "approval.by") if "by" in approval else "",
        signature=_text(approval.get("signature", ""), "approval.signature"),
        shared=read_data(value["shared"], f"{EXT}.shared") if "shared" in value else (),
        withheld=read_data(value["withheld"], f"{EXT}.withheld") if "withheld" in value else (),
        outcome=_text(value.get("outcome", ""), "outcome"),
    )


def _label(beside: dict[str, Any]) -> str:
    disclosure = beside.get(DISCLOSURE, {})
    if not isinstance(disclosure, dict) or not disclosure.keys() <= {"ai", "label"}:
        _wrong(f"{EXT}.{DISCLOSURE}", "must have ai and label")
    return _text(disclosure.get("label", ""), f"{DISCLOSURE}.label")


def _id(value: object, where: str) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        _wrong(f"{EXT}.{where}", "must be an id")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        _wrong(f"{EXT}.{where}", "must be a short text")
    return value


def _wrong(field: str, detail: str) -> NoReturn:
    raise EnvelopeInvalid.because([Problem("invalid", field, detail)])
