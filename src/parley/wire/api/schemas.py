"""The published JSON Schemas of records: what the server always writes, and the values that a field can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from parley.domain.channel.channel import ChannelStatus, MemberPolicy
from parley.domain.channel.subscription import Reason, SubscriptionState
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Purpose
from parley.domain.directory.access import AccessPolicy, Permission, RequestStatus
from parley.domain.directory.callers import AgentStatus, KeyKind
from parley.domain.directory.intent import IntentStatus, TaskStatus
from parley.domain.exchange.approval import ApprovalStatus
from parley.domain.exchange.exchange import Outcome
from parley.domain.message.message import Pattern
from parley.domain.rules.suspension import Stopped
from parley.wire.api.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from parley.wire.api.records.record import Mapping

# The values of fields that are texts in a record: a reader accepts any text, as a newer server may have more.
CHOICES: dict[str, dict[str, Iterable[str]]] = {
    "AccessList": {"default_policy": AccessPolicy},
    "AccessRequest": {"requested_permission": Permission, "status": RequestStatus},
    "AgentInfo": {"status": AgentStatus, "max_classification": Classification, "supported_exchange_types": Purpose},
    "Approval": {"status": ApprovalStatus},
    "Channel": {"member_policy": MemberPolicy, "status": ChannelStatus},
    "ChannelMessage": {"message_type": Pattern, "status": ("pending", "delivered", "read", "expired")},
    "Exchange": {"outcome": Outcome},
    "Explanation": {"verdict": ("allow", "hold", "deny"), "classification": Classification},
    "Grant": {"permission": Permission},
    "Heartbeat": {"status": ("ok",), "agent_status": AgentStatus},
    "Intent": {"status": IntentStatus},
    "Key": {"kind": KeyKind},
    "NewKey": {"kind": KeyKind},
    "NewSubscription": {"state": SubscriptionState, "disabled_reason": [*filter(None, Reason)]},
    "ProofStep": {"position": ("left", "right")},
    "Subscription": {"state": SubscriptionState, "disabled_reason": [*filter(None, Reason)]},
    "Suspension": {"what": Stopped},
    "SuspensionPreview": {"what": Stopped},
    "Task": {"status": TaskStatus},
}


def schema_components(types: Iterable[Any], ref_template: str) -> tuple[tuple[Mapping, ...], Mapping]:
    """The JSON Schemas of these types, and of the objects in them by name."""
    schemas, components = msgspec.json.schema_components(types, ref_template=ref_template)
    for record in _records_below(Record):
        if record.__name__ in components:
            _describe(components[record.__name__], record)
    return schemas, components


def _describe(component: Mapping, record: type[Record]) -> None:
    """Say what the server writes. A field of a record has a default where a reader may do without it."""
    component["required"] = [name for name in record.__struct_encode_fields__ if name not in record.may_be_absent]
    for field in component["properties"].values():
        field.pop("default", None)
    for name, values in CHOICES.get(record.__name__, {}).items():
        _texts_of(component["properties"][name])["enum"] = sorted(map(str, values))


def _texts_of(field: Mapping) -> Mapping:
    """The part of a field's schema that is for texts: itself, an item of a list, or what may be null."""
    if "anyOf" in field:
        return next(part for part in field["anyOf"] if part["type"] == "string")
    items: Mapping = field.get("items", field)
    return items


def _records_below(kind: type[Record]) -> Iterator[type[Record]]:
    for record in kind.__subclasses__():
        yield record
        yield from _records_below(record)
