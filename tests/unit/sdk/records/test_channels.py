"""Records: what the server publishes, field by field, and how they are used."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from parley import wire
from parley.domain.errors.errors import Unavailable
from parley.sdk.records import channels as records
from parley.sdk.records import directory as directory_records
from parley.sdk.records import rules as governance_records
from parley.sdk.records.channels import Channel, ChannelMessage, ChannelOptions, Record, made, read
from parley.surfaces.http.routes import system
from parley.surfaces.http.server import all_routes
from parley.wire.api import channels as rfc0021
from tests.unit.sdk.record_samples import CHANNEL, an_approval

# What the server calls it, by the record it is read as.
SAID_AS = {
    "AccessList": "AclOut",
    "AccessRequest": "AccessRequestOut",
    "AgentInfo": "AgentOut",
    "Approval": "ApprovalOut",
    "Assignment": "AssignmentOut",
    "Attempt": "AttemptOut",
    "AuditCheckpoint": "CheckpointLine",
    "AuditCheckpoints": "AuditCheckpointsOut",
    "AuditEntry": "AuditEntryOut",
    "AuditLine": "AuditLineOut",
    "AuditPage": "AuditPageOut",
    "AuditProof": "AuditProofOut",
    "Bookmark": "BookmarkOut",
    "BrokenPolicy": "BrokenOut",
    "Capacity": "CapacityOut",
    "ChainBreak": "BreakOut",
    "ChainCheck": "ChainOut",
    "Challenge": "ChallengeOut",
    "Channel": "ChannelOut",
    "ChannelMessage": "MessageOut",
    "ChannelOptions": "OptionsOut",
    "Checkpoint": "CheckpointOut",
    "Consistency": "ConsistencyOut",
    "Erasure": "ErasureOut",
    "Event": "EventOut",
    "EventProof": "ProofOut",
    "Exchange": "ExchangeOut",
    "Explanation": "ExplainedOut",
    "ExplanationStep": "StepOut",
    "Grant": "GrantOut",
    "Health": "StatusOut",
    "Heartbeat": "HeartbeatOut",
    "HeartbeatConfig": "HeartbeatConfigOut",
    "HiddenCharacter": "HiddenOut",
    "Identity": "IdentityOut",
    "Intent": "IntentOut",
    "Key": "KeyOut",
    "NewKey": "NewKeyOut",
    "NewSubscription": "SubscriptionMade",
    "Policies": "PoliciesOut",
    "Policy": "PolicyOut",
    "PolicyFlaw": "FlawOut",
    "PolicyInForce": "InForceOut",
    "PolicyRevision": "RevisionOut",
    "ProofStep": "NeighbourOut",
    "Replay": "ReplayedOut",
    "ReplayChange": "ChangeOut",
    "Role": "RoleOut",
    "SignatureCheck": "SignatureOut",
    "Subscription": "SubscriptionOut",
    "SubscriptionSecret": "SecretOut",
    "Suspension": "SuspensionOut",
    "Task": "TaskOut",
    "Tenant": "TenantOut",
    "Turn": "TurnOut",
}
# Records that no published object stands for, and why.
OURS = {
    "Implementation": "part of the well-known document, which has no published object",
    "Record": "what they all are",
    "ServerInfo": "the well-known document, which has no published object",
    "StreamItem": "put together from an event of a stream",
}
# Objects that no record is for, and why.
NOT_READ = {
    "ConcernOut": "part of the status, which is for whoever runs the servers",
    "NodeOut": "part of the status",
    "ReplicaOut": "part of the status",
    "ServerStatusOut": "shown by `parley status`",
    "StoreOut": "part of the status",
    "AccessRequestsOut": "a list in a wrapping",
    "HeldOut": "raised as `MessageHeld`, whose facts it is",
    "IntentsOut": "a list in a wrapping",
}
# Fields that only one side has, and why.
ONLY_OURS = {("ChannelMessage", "channel"), ("ChannelMessage", "intent_id")}  # told where an agent receives it
ONLY_THEIRS = {  # the same times in another spelling
    ("Subscription", "createdAt"),
    ("Subscription", "expiresAt"),
    ("NewSubscription", "createdAt"),
    ("NewSubscription", "expiresAt"),
}
RECORDS: dict[str, type[Record]] = {
    name: one
    for module in (records, directory_records, governance_records)
    for name, one in vars(module).items()
    if isinstance(one, type) and issubclass(one, Record)
}


def published() -> dict[str, Any]:
    """Every object that an answer of the server holds, by its name."""
    found: dict[str, Any] = {}

    def look(kind: Any) -> None:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind.__name__ not in found:
                found[kind.__name__] = kind
                for hint in get_type_hints(kind).values():
                    look(hint)
        elif get_origin(kind) is not None:
            for part in get_args(kind):
                look(part)

    for route in all_routes():
        for kind in route.answers.values():
            look(kind)
    return found


def names(kind: Any) -> set[str]:
    """Its fields as JSON has them."""
    return set(kind.__struct_encode_fields__)


def test_every_object_that_the_server_answers_with_has_its_record() -> None:
    assert set(published()) == set(SAID_AS.values()) | set(NOT_READ)
    assert set(RECORDS) == set(SAID_AS) | set(OURS)


@pytest.mark.parametrize("name", SAID_AS)
def test_a_record_has_the_fields_that_the_server_publishes_and_no_others(name: str) -> None:
    record, said = RECORDS[name], published()[SAID_AS[name]]

    ours = {(name, field) for field in names(record)}
    theirs = {(name, field) for field in names(said)}

    assert ours - theirs <= ONLY_OURS
    assert theirs - ours <= ONLY_THEIRS


def may_be_none(kind: Any) -> bool:
    return kind is Any or type(None) in get_args(kind) or any(map(may_be_none, get_args(kind)[:1]))


def fields(kind: Any) -> Iterator[tuple[str, Any, bool]]:
    """Its fields as JSON has them, with their types, and whether they may be left out."""
    hints = get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        yield field.encode_name, hints[field.name], not field.required


@pytest.mark.parametrize("name", SAID_AS)
def test_a_record_takes_null_and_nothing_where_the_server_says_so(name: str) -> None:
    ours = {field: (may_be_none(kind), optional) for field, kind, optional in fields(RECORDS[name])}

    for field, kind, left_out in fields(published()[SAID_AS[name]]):
        if (name, field) in ONLY_THEIRS:
            continue
        takes_none, optional = ours[field]
        assert takes_none or not may_be_none(kind), f"{field} may be null"
        assert optional or not left_out, f"{field} may be left out"


TIMES = {"at", "made_at", "old_secret_until", "server_timestamp"}


@pytest.mark.parametrize("name", SAID_AS)
def test_a_time_is_a_datetime(name: str) -> None:
    for field, kind, _ in fields(RECORDS[name]):
        if field in TIMES or field.endswith("_at"):
            signed = (name, field) == ("AuditCheckpoint", "at")  # a signature covers its letters
            assert kind in ((str,) if signed else (datetime, datetime | None)), field


# ---------------------------------------------------------------- how they are used


def a_message(**fields: Any) -> ChannelMessage:
    document = {
        "id": "msg_1",
        "channel_id": "chan_1",
        "sender": "bob",
        "message_type": "response",
        "payload": {},
        "created_at": "2026-03-13T14:30:00Z",
        **fields,
    }
    return made(document, ChannelMessage)


def test_a_record_has_attributes_and_keys() -> None:
    channel = read(msgspec.json.encode(CHANNEL), Channel)

    assert channel.name == channel["name"] == channel.get("name") == "questions"
    assert channel.created_at == datetime(2026, 3, 13, 14, 30, 0, 1, tzinfo=UTC)
    assert channel["options"]["audit"] is True
    assert "name" in channel
    assert "nothing" not in channel
    assert channel.get("nothing") is None
    assert channel.get("nothing", 7) == 7
    with pytest.raises(KeyError, match="nothing"):
        channel["nothing"]
    assert dict(channel) == {name: channel[name] for name in channel.keys()}  # noqa: SIM118  # it is no dict


def test_a_field_has_the_name_of_python_and_that_of_the_json() -> None:
    approval = an_approval()

    assert approval.detected_keywords == approval["detected_keywords"] == approval["detectedKeywords"] == ["promise"]
    assert "detectedKeywords" in approval
    assert approval.to_dict()["detectedKeywords"] == ["promise"]


def test_what_a_newer_server_says_is_left_aside() -> None:
    assert "said_by_a_newer_server" not in made(CHANNEL, Channel)


def test_a_record_never_changes() -> None:
    with pytest.raises(AttributeError):
        made(CHANNEL, Channel).name = "another"  # type: ignore[misc]


def test_a_record_goes_back_to_json() -> None:
    document = made(CHANNEL, Channel).to_dict()

    assert document["options"] == {"audit": True, "ttl_seconds": None, "max_messages": 7}
    assert made(document, Channel) == made(CHANNEL, Channel)


def test_a_record_is_made_by_hand_with_what_matters() -> None:
    assert ChannelOptions(max_messages=7).to_dict() == {"audit": False, "ttl_seconds": None, "max_messages": 7}


def test_what_is_no_record_is_refused_as_an_answer_that_cannot_be_understood() -> None:
    with pytest.raises(Unavailable, match=r"cannot be understood.*\$\.name"):
        made({**CHANNEL, "name": 7}, Channel)
    with pytest.raises(Unavailable, match="cannot be understood"):
        read(b"[" * 100_000, Channel)


def test_an_answer_says_why_it_is_none() -> None:
    failed = a_message(payload={"error": {"code": "failed", "message": "no such table"}}, metadata={"error": True})

    assert failed.error == "no such table"
    assert a_message(payload={"error": "plain"}, metadata={"error": True}).error == "plain"
    assert a_message(payload={"error": "an answer about errors"}).error == ""
    assert a_message(metadata={"error": True}).error == ""


def test_a_message_says_its_kind() -> None:
    assert a_message(metadata={"kind": "question"}).kind == "question"
    assert a_message(metadata={"kind": 7}).kind == a_message().kind == ""


def test_every_module_of_published_objects_is_looked_at() -> None:
    """A new object that no route names would not be compared."""
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(wire.__path__, "parley.wire.")]
    outs = {
        name
        for module in [*modules, system]
        for name, one in vars(module).items()
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and name.endswith("Out")
    }

    assert outs <= set(published())
    assert rfc0021.MessageOut.__name__ in outs


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        (directory_records.NewKey, "key"),
        (records.NewSubscription, "secret"),
        (records.SubscriptionSecret, "secret"),
    ],
)
def test_a_secret_is_not_in_what_is_printed_of_a_record(kind: type[Record], secret: str) -> None:
    fields: dict[str, Any] = dict.fromkeys(kind.__struct_fields__)
    shown = repr(kind(**fields | {"id": "the-id", secret: "hunter2"}))

    assert "hunter2" not in shown
    assert shown.startswith(f"{kind.__name__}(")
    assert "id='the-id'" in shown
