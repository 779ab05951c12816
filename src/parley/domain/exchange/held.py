"""A mailbox message that waits for a person, as an approval keeps it, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parley.domain.content.classification import Classification, DataItem
from parley.domain.content.envelope import Purpose, Wishes
from parley.domain.content.redaction import text_of as joined_text
from parley.domain.content.redaction import texts_of, without_names
from parley.domain.exchange.approval import HeldDraft
from parley.domain.message.message import KINDS, PRIORITIES, Draft
from parley.domain.times import from_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Collection

    from parley.domain.message.message import Message

# What a person reads first.
_SAID = ("subject", "body", "context_keys")
_BESIDE = ("tag", "related_packet", "related_pr", "conversation_id")


def message_fields(message: Message) -> dict[str, Any]:
    """Everything in a message that its reader will read."""
    shown: dict[str, Any] = {name: getattr(message, name) for name in _SAID}
    return {name: value for name, value in shown.items() if value}


def text_of(message: Message) -> str:
    """All texts of a message as one, for those who look for words in it."""
    extras = {key: value for key, value in message.extras.items() if key not in _CARRIED}
    beside = [message.tag, message.related_packet]
    return "\n".join([message.subject, *texts_of(message.body), message.context_keys, *beside, *texts_of(extras)])


# What travels with a message because of the rules; nobody wrote it.
_CARRIED = frozenset({"ocip", "ocip_ext", "disclosure"})


def judged_text(message: Message, file: str, names: Collection[str], stamps: object = None, label: str = "") -> str:
    """All texts of a message that its reader gets, whatever field they are in, and the name of its file.

    `names` are known to the directory or the project, so that nobody chose them to say something; ids contain them.
    `stamps` are the parts of its envelope and of what stands beside it that its sender could write, `label` the
    disclosure that the rules give it. The conversation is judged with the envelope.
    """
    written = message.extras
    if stamps is not None:
        written = {key: value for key, value in written.items() if key not in ("ocip", "ocip_ext")}
    if label and written.get("disclosure") == label:
        written = {key: value for key, value in written.items() if key != "disclosure"}
    heading = without_names((file, message.id, message.in_reply_to, message.sender, *message.to), names)
    rest = message._replace(id="", in_reply_to="", sender="", to=(), conversation_id="", extras=written)
    return joined_text((heading, rest, stamps))


def outgoing(draft: Draft, message: Message) -> HeldDraft:
    """A draft that waits; `message` is what it would become."""
    beside: dict[str, Any] = {name: getattr(draft, name) for name in _BESIDE if getattr(draft, name)}
    if draft.priority:
        beside["priority"] = draft.priority.value
    if draft.extras:
        beside["extras"] = dict(draft.extras)
    if draft.wishes is not None:
        beside |= _wish_fields(draft.wishes)
    return HeldDraft(
        pattern=draft.kind.value,
        to=",".join(message.to),
        in_reply_to=draft.in_reply_to,
        payload=_json(message_fields(message)),
        metadata=_json(beside),
        expires_at=stamp(draft.expires_at) if draft.expires_at else "",
    )


def incoming(message: Message, me: str, digest: str) -> HeldDraft:
    """A message in the inbox that waits."""
    beside = {"message_id": message.id, "digest": digest, "conversation_id": message.conversation_id}
    return HeldDraft(
        pattern=message.kind.value,
        to=me,
        in_reply_to=message.in_reply_to,
        payload=_json(message_fields(message)),
        metadata=_json(beside),
    )


def draft_of(held: HeldDraft, sender: str) -> Draft:
    """What was held, as a draft again."""
    spoken, beside = json.loads(held.payload), json.loads(held.metadata)
    return Draft(
        sender=sender,
        to=tuple(held.to.split(",")),
        kind=KINDS[held.pattern],
        subject=spoken["subject"],
        body=spoken.get("body", ""),
        priority=PRIORITIES[beside["priority"]] if "priority" in beside else None,
        expires_at=from_stamp(held.expires_at) if held.expires_at else None,
        in_reply_to=held.in_reply_to,
        context_keys=spoken.get("context_keys", ""),
        extras=beside.get("extras", {}),
        wishes=_wishes(beside),
        **{name: beside[name] for name in _BESIDE if name in beside},
    )


def _wish_fields(wishes: Wishes) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if wishes.purpose is not None:
        fields["exchange_type"] = wishes.purpose.value
    if wishes.classification is not None:
        fields["classification"] = wishes.classification.value
    if wishes.max_rounds is not None:
        fields["max_rounds"] = wishes.max_rounds
    if wishes.expires_at:
        fields["expires_at"] = wishes.expires_at
    if wishes.data:
        fields["data"] = [{**item._asdict(), "fields": list(item.fields)} for item in wishes.data]
    return fields


def _wishes(beside: dict[str, Any]) -> Wishes | None:
    wishes = Wishes(
        purpose=Purpose(beside["exchange_type"]) if "exchange_type" in beside else None,
        classification=Classification(beside["classification"]) if "classification" in beside else None,
        max_rounds=beside.get("max_rounds"),
        expires_at=beside.get("expires_at", ""),
        data=tuple(
            DataItem(item["source"], tuple(item["fields"]), Classification(item["classification"]), item["description"])
            for item in beside.get("data", ())
        ),
    )
    return wishes if wishes != Wishes() else None


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
