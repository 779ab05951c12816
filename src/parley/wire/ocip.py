"""OCIP as JSON: the envelope as exactly the fields of the specification, and what a sender may ask for; pure.

Strict: a wrong type, a missing field or one too many makes an envelope invalid; nothing falls back to a default.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from parley.domain.content.classification import Classification, DataItem, level_of
from parley.domain.content.envelope import Envelope, Ext, Origin, Purpose, ReplyPolicy, Source, Wishes, purpose_of
from parley.domain.content.redaction import text_of
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.errors.rules import EnvelopeInvalid
from parley.domain.times import parse_time, stamp
from parley.wire.parts import ACCEPTS, CONVERSATION_ID, FORWARDED, forwarded_of, is_partial, is_question

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    from parley.domain.message.message import Pattern

OCIP, EXT, DISCLOSURE, DATA = "ocip", "ocip_ext", "disclosure", "data"
_TYPE, _LEVEL = "exchange_type", "classification"
# Any of these puts a message under the rules; the others say more about one that is.
_ANNOTATES = frozenset({OCIP, EXT, _TYPE, _LEVEL, DATA, "max_rounds"})
_WISHES = frozenset({*_ANNOTATES, "conversation_id", "expires_at", "parent_message_id"})
# What a sender writes under these names is replaced by what the rules say; everything else is passed on.
_STAMPED = frozenset({OCIP, EXT, DISCLOSURE, DATA})
# A value of a fixed list can hold nothing else; a conversation is looked at by the name that the envelope gives it.
_CHECKED = frozenset({_TYPE, _LEVEL, "conversation_id"})
_FIELDS = (
    "version",
    "message_type",
    "source_agent",
    "classification",
    "conversation_id",
    "exchange_round",
    "max_rounds",
    "capabilities",
    "reply_policy",
    "requires_commitment",
    "expires_at",
)
_SOURCE = ("instance_id", "user_id", "org_unit", "tenant_id")
_CAPABILITIES = ("can_commit", "can_share")
ENVELOPE_FIELDS = frozenset({*_FIELDS, *_SOURCE, *_CAPABILITIES})
_ITEM = frozenset({"source", "fields", "classification", "description"})
_SENDER_KIND = "sender_kind"
_VERSION = re.compile(r"1\.[0-9]{1,4}", re.ASCII)
_ID = CONVERSATION_ID
_MOST_ROUNDS = 1_000_000
# Stands in a template for what differs; nothing that is encoded as JSON changes it.
_PLACE = "<differs>"
_MOST_ITEMS = 100
_encode = msgspec.json.Encoder().encode


# ---------------------------------------------------------------- to domain


def wishes_of(metadata: Mapping[str, Any]) -> Wishes | None:
    """What a sender asks for in a message's metadata; None when it asks for nothing.

    What cannot be read is a refusal for the rules to make, and to record. Other programs use some of these names for
    other things: where the sender itself did not put the message under the rules, it may be none at all.
    """
    if _WISHES.isdisjoint(metadata):
        return None
    try:
        return _wishes(metadata)
    except EnvelopeInvalid as error:
        return Wishes(problem=error, meant=not _ANNOTATES.isdisjoint(metadata))


def _wishes(metadata: Mapping[str, Any]) -> Wishes:
    envelope = metadata.get(OCIP)
    expires_at = metadata.get("expires_at")
    wishes = Wishes(
        purpose=_one_of(Purpose, metadata[_TYPE], _TYPE) if _TYPE in metadata else None,
        classification=_one_of(Classification, metadata[_LEVEL], _LEVEL) if _LEVEL in metadata else None,
        conversation_id=_id(metadata["conversation_id"], "conversation_id") if "conversation_id" in metadata else "",
        max_rounds=_rounds(metadata["max_rounds"], "max_rounds") if "max_rounds" in metadata else None,
        expires_at=stamp(parse_time(_moment(expires_at, "expires_at"))) if "expires_at" in metadata else "",
        data=read_data(metadata[DATA]) if DATA in metadata else (),
        envelope=read_envelope(envelope) if OCIP in metadata else None,
        parent_message_id=_id(metadata["parent_message_id"], "parent_message_id")
        if "parent_message_id" in metadata
        else "",
        # Only we say what travels beside an envelope: who says it asks to be stamped.
        meant=EXT in metadata,
    )
    if wishes.envelope is not None:
        _check_agree(wishes, wishes.envelope)
    return wishes


def _check_agree(wishes: Wishes, envelope: Envelope) -> None:
    """Refuse a value that is given twice and differs."""
    if wishes.classification not in (None, envelope.classification):
        _wrong(_LEVEL, "is not that of the envelope")
    if wishes.conversation_id not in ("", envelope.conversation_id):
        _wrong("conversation_id", "is not that of the envelope")
    if wishes.max_rounds not in (None, envelope.max_rounds):
        _wrong("max_rounds", "is not that of the envelope")
    if wishes.expires_at not in ("", stamp(parse_time(envelope.expires_at))):
        _wrong("expires_at", "is not that of the envelope")
    meant = purpose_of(envelope.reply_policy, requires_commitment=envelope.requires_commitment)
    if wishes.purpose not in (None, meant):
        _wrong(_TYPE, f"the envelope is one of a {meant.value}")


def read_envelope(value: object) -> Envelope:
    """The envelope in a document, or `EnvelopeInvalid` with the field that is wrong."""
    fields = _object(value, "", _FIELDS)
    source = _object(fields["source_agent"], "source_agent", _SOURCE)
    capabilities = _object(fields["capabilities"], "capabilities", _CAPABILITIES)
    version = _text(fields["version"], "version")
    if not _VERSION.fullmatch(version):
        _wrong("version", "only 1.x is known")
    shares = capabilities["can_share"]
    if not isinstance(shares, list) or len(shares) > len(Classification):
        _wrong("capabilities.can_share", "must be a list of levels")
    return Envelope(
        version=version,
        message_type=_one_of(Origin, fields["message_type"], "message_type"),
        source_agent=Source(*[_text(source[name], f"source_agent.{name}") for name in _SOURCE]),
        classification=_one_of(Classification, fields["classification"], "classification"),
        conversation_id=_id(fields["conversation_id"], "conversation_id"),
        exchange_round=_rounds(fields["exchange_round"], "exchange_round"),
        max_rounds=_rounds(fields["max_rounds"], "max_rounds"),
        can_commit=_flag(capabilities["can_commit"], "capabilities.can_commit"),
        can_share=tuple([_one_of(Classification, level, "capabilities.can_share") for level in shares]),
        reply_policy=_one_of(ReplyPolicy, fields["reply_policy"], "reply_policy"),
        requires_commitment=_flag(fields["requires_commitment"], "requires_commitment"),
        expires_at=_moment(fields["expires_at"], "expires_at"),
    )


def read_data(value: object, where: str = DATA) -> tuple[DataItem, ...]:
    """The data items that a sender says are in its message."""
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        _wrong(where, f"must be a list of at most {_MOST_ITEMS} items")
    return tuple([_item(item, f"{where}[{place}]") for place, item in enumerate(value)])


def _item(value: object, where: str) -> DataItem:
    if not isinstance(value, dict) or not value.keys() <= _ITEM or "source" not in value:
        _wrong(where, "must have source, fields, classification and description, and nothing else")
    fields = value.get("fields", [])
    if not isinstance(fields, list) or not all(isinstance(field, str) and 0 < len(field) <= 256 for field in fields):
        _wrong(f"{where}.fields", "must be a list of names")
    described = value.get("description", "")
    if not isinstance(described, str):
        _wrong(f"{where}.description", "must be a text")
    level = level_of(value.get("classification"))
    return DataItem(_text(value["source"], f"{where}.source"), tuple(fields), level, described[:200])


def _object(value: object, where: str, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        _wrong(where or OCIP, "must be an object")
    prefix = f"{where}." if where else ""
    for name in names:
        if name not in value:
            _wrong(prefix + name, "is missing")
    for name in value:
        if name not in names:
            _wrong(prefix + str(name)[:64], "is no field of the envelope")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 256:
        _wrong(where, "must be a text of 1 to 256 characters")
    return value


def _id(value: object, where: str) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        _wrong(where, "must be an id: letters, digits and . _ : @ / + - , at most 128")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        _wrong(where, "must be true or false")
    return value


def _rounds(value: object, where: str) -> int:
    # A boolean is a number to Python, not to the specification.
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_ROUNDS:
        _wrong(where, "must be a whole number from 1 on")
    return value


def _moment(value: object, where: str) -> str:
    try:
        parse_time(value if isinstance(value, str) else "")
    except Invalid:
        _wrong(where, "must be an RFC 3339 time with an offset")
    return str(value)


def _one_of(kind: type[Any], value: object, where: str) -> Any:  # noqa: ANN401  # of the kind that is asked for
    choice = _NAMES[kind].get(value) if isinstance(value, str) else None
    if choice is None:
        _wrong(where, f"must be one of {', '.join(_NAMES[kind])}")
    return choice


def _wrong(field: str, detail: str) -> NoReturn:
    raise EnvelopeInvalid.because([Problem("invalid", field, detail)])


_NAMES: dict[type[StrEnum], dict[str, Any]] = {
    kind: {choice.value: choice for choice in kind} for kind in (Classification, Origin, Purpose, ReplyPolicy)
}


# ---------------------------------------------------------------- from domain


def envelope_document(envelope: Envelope) -> dict[str, Any]:
    """The seventeen fields of the specification, in its order."""
    capabilities = {"can_commit": envelope.can_commit, "can_share": list(envelope.can_share)}
    fields: dict[str, Any] = msgspec.to_builtins(
        _envelope_fields(envelope, envelope.source_agent._asdict(), capabilities)
    )
    return fields


def _envelope_fields(envelope: Envelope, source: object, capabilities: object) -> dict[str, Any]:
    return {
        "version": envelope.version,
        "message_type": envelope.message_type,
        "source_agent": source,
        "classification": envelope.classification,
        "conversation_id": envelope.conversation_id,
        "exchange_round": envelope.exchange_round,
        "max_rounds": envelope.max_rounds,
        "capabilities": capabilities,
        "reply_policy": envelope.reply_policy,
        "requires_commitment": envelope.requires_commitment,
        "expires_at": envelope.expires_at,
    }


def _encodable(envelope: Envelope) -> dict[str, Any]:
    """The envelope for the encoder. What it shares with the others of its sender is encoded once."""
    capabilities = _encoded_capabilities(envelope.can_share, envelope.can_commit)
    return _envelope_fields(envelope, _encoded_source(envelope.source_agent), capabilities)


@lru_cache(4096)
def _encoded_source(source: Source) -> msgspec.Raw:
    return msgspec.Raw(_encode(source._asdict()))


@lru_cache(64)  # there are few lists of levels
def _encoded_capabilities(can_share: tuple[Classification, ...], can_commit: object) -> msgspec.Raw:
    return msgspec.Raw(_encode({"can_commit": can_commit, "can_share": can_share}))


def ext_document(ext: Ext, label: str) -> dict[str, Any]:
    """What travels beside the envelope."""
    document: dict[str, Any] = {
        "exchange_id": ext.exchange_id,
        "exchange_type": ext.purpose.value,
        "hops": ext.hops,
        "policy_version": ext.policy,
        "disclosure": {"ai": True, "label": label} if label else None,
    }
    if ext.approval_id:
        document["approval"] = {"id": ext.approval_id, "by": ext.approved_by}
        if ext.signature:
            document["approval"]["signature"] = ext.signature
    if ext.shared:
        document["shared"] = [item_document(item) for item in ext.shared]
    if ext.withheld:
        document["withheld"] = [item_document(item) for item in ext.withheld]
    if ext.outcome:
        document["outcome"] = ext.outcome
    return document


def item_document(item: DataItem) -> dict[str, Any]:
    return {
        "source": item.source,
        "fields": list(item.fields),
        "classification": item.classification.value,
        "description": item.description,
    }


def _passed_on(metadata: bytes) -> tuple[dict[str, Any], bool]:
    """What of a sender's metadata its receivers get as it was written, and whether it declares data."""
    fields: dict[str, Any] = msgspec.json.decode(metadata) if len(metadata) > 2 else {}
    declares = DATA in fields
    for name in _STAMPED & fields.keys():
        del fields[name]
    return fields, declares


_CONVERSATION = b'"conversation_id":"%b"'
_NO_CONVERSATION = _CONVERSATION % _PLACE.encode()


class OcipFormat:
    """See `ports.outside.Envelopes`."""

    def body(self, payload: bytes) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.json.decode(payload)
        return fields

    def payload(self, body: dict[str, Any]) -> bytes:
        return _encode(body)

    def wishes(self, metadata: bytes) -> Wishes | None:
        return wishes_of(msgspec.json.decode(metadata))

    def written_text(self, metadata: bytes) -> str:
        fields, _ = _passed_on(metadata)
        written = {name: value for name, value in fields.items() if name not in _CHECKED}
        return text_of(written) if written else ""

    def is_partial(self, pattern: Pattern, metadata: bytes) -> bool:
        return is_partial(pattern, metadata)

    def is_question(self, metadata: bytes) -> bool:
        return is_question(metadata)

    def forwarded(self, metadata: bytes) -> tuple[str, str]:
        return forwarded_of(metadata)

    def with_parts(self, metadata: bytes) -> bytes:
        return _encode({**msgspec.json.decode(metadata, type=dict[str, Any]), ACCEPTS: True})

    def with_forwarded(self, metadata: bytes, request_id: str, asker: str, by: tuple[str, ...]) -> bytes:
        fields = msgspec.json.decode(metadata, type=dict[str, Any])
        return _encode({**fields, FORWARDED: {"request_id": request_id, "asker": asker, "by": list(by)}})

    def with_sender_kind(self, metadata: bytes, *, by_person: bool) -> bytes:
        fields = msgspec.json.decode(metadata, type=dict[str, Any])
        fields.pop(_SENDER_KIND, None)
        return _encode({**fields, _SENDER_KIND: Origin.HUMAN.value} if by_person else fields)

    def stamped(self, metadata: bytes, envelope: Envelope, ext: Ext, label: str, data: tuple[DataItem, ...]) -> bytes:
        fields, declares = _passed_on(metadata)
        if declares:
            fields[DATA] = [item_document(item) for item in data]
        fields[OCIP] = _encodable(envelope)
        fields[EXT] = ext_document(ext, label)
        if label:
            fields[DISCLOSURE] = label
        return _encode(fields)

    def stamp_template(
        self, metadata: bytes, envelope: Envelope, ext: Ext, label: str, conversation_id: str = ""
    ) -> bytes:
        place, gaps = _PLACE.encode(), 3
        if conversation_id:
            metadata, gaps = self.without_conversation(metadata, conversation_id), 4
        if not metadata:
            return b""
        envelope = envelope._replace(conversation_id=_PLACE, expires_at=_PLACE)
        stamped = self.stamped(metadata, envelope, ext._replace(exchange_id=_PLACE), label, ())
        return stamped.replace(b"%", b"%%").replace(place, b"%b") if stamped.count(place) == gaps else b""

    def without_conversation(self, metadata: bytes, conversation_id: str) -> bytes:
        # An id has nothing that would have to be escaped.
        field = _CONVERSATION % conversation_id.encode()
        return metadata.replace(field, _NO_CONVERSATION) if metadata.count(field) == 1 else b""
