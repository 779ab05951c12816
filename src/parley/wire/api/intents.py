"""Intents as JSON, and what they share with access and tasks; pure.

The fields are those that the OpenIntent SDK reads and writes. It cannot read a list that is null or a time without an
offset, so neither is ever sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from parley.domain.directory.access import AccessPolicy
from parley.domain.directory.intent import IntentStatus, Patch, PatchOp
from parley.domain.errors.errors import Invalid, Problem
from parley.domain.times import parse_time, stamp
from parley.wire.api.records.intents import Assignment, Intent
from parley.wire.api.records.record import Mapping, fill_record

if TYPE_CHECKING:
    from parley.domain.directory.access import Assignment as StoredAssignment
    from parley.domain.directory.intent import Intent as StoredIntent

Agent = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$(?!\n)", description="An agent's name.")]
Id = Annotated[str, Meta(min_length=1, max_length=64)]
Title = Annotated[str, Meta(min_length=1, max_length=500)]
Text = Annotated[str, Meta(max_length=64 * 1024)]
Reason = Annotated[str, Meta(max_length=2_000)]
Time = Annotated[str, Meta(description="RFC 3339; without an offset it is UTC.")]


def moment(text: str | None, field: str) -> str:
    """A time as a stamp, "" for none. The SDK sends times without an offset: they count as UTC."""
    if not text:
        return ""
    # In a query, the plus of an offset arrives as a space.
    spelled = text.strip().replace(" ", "+") if "T" in text else text.strip()
    for candidate in (spelled, spelled + "Z"):
        try:
            return stamp(parse_time(candidate))
        except (Invalid, OverflowError):
            continue
    raise Invalid.because([Problem("invalid", field, "is no time like 2026-03-13T14:30:00+00:00")])


# ---------------------------------------------------------------- intents


class IntentIn(Struct, forbid_unknown_fields=True):
    """An intent to create."""

    title: Title
    description: Text | None = ""
    constraints: dict[str, Any] | list[Any] | None = None
    state: Mapping | None = None
    status: Literal["draft", "active"] = "draft"
    confidence: Annotated[float, Meta(ge=0, le=100)] = 0
    created_by: Agent | None = None
    parent_intent_id: Id | None = None
    depends_on: Annotated[list[Id], Meta(max_length=100)] | None = None
    access: (
        Annotated[
            AccessPolicy | Annotated[list[Agent], Meta(max_length=256)],
            Meta(
                description="Who else has access: `open` (every agent of the tenant, or of the creator's org unit),"
                " `closed` (nobody), or the agents that may write and take part. The default is a setting of the"
                " server, `closed` unless it was changed."
            ),
        ]
        | None
    ) = None


class PatchIn(Struct, forbid_unknown_fields=True):
    """One change: set a value, append to a list, or remove; `a/b` is the field b of the field a."""

    op: PatchOp
    path: Annotated[str, Meta(min_length=1, max_length=1024)]
    value: Any = None


class StateIn(Struct, forbid_unknown_fields=True):
    """Changes to a state, in order; `state` sets each of its fields."""

    patches: Annotated[list[PatchIn], Meta(max_length=1_000)] = []
    state: Mapping | None = None


class IntentStatusIn(Struct, forbid_unknown_fields=True):
    """The new status of an intent."""

    status: IntentStatus
    reason: Reason | None = None


class AssignIn(Struct, forbid_unknown_fields=True):
    """An agent to assign; without a name, the caller."""

    agent_id: Agent | None = None
    role: Literal["worker", "coordinator"] = "worker"


def patches_of(body: StateIn) -> tuple[Patch, ...]:
    """The patches of a request, those of `state` first. A key of `state` is one field, whatever is in it."""
    fields = body.state or {}
    if any("/" in name or not name for name in fields):
        raise Invalid.because([Problem("invalid", "state", "a field's name is not empty and holds no /")])
    whole = tuple(Patch(PatchOp.SET, name, value) for name, value in fields.items())
    return (*whole, *(Patch(patch.op, patch.path, patch.value) for patch in body.patches))


def intent_of(stored: StoredIntent) -> Intent:
    return fill_record(Intent, stored, governance_policy=None)


def assignment_of(intent_id: str, stored: StoredAssignment) -> Assignment:
    return fill_record(Assignment, stored, id=stored.id or f"{intent_id}:{stored.agent_id}", intent_id=intent_id)
