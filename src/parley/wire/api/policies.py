"""Policies as JSON: documents with what they say, and what is in force for somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from parley.domain.rules.policy import KEYS
from parley.wire.api.channels import Mapping, Time
from parley.wire.files.policy import encode_value

if TYPE_CHECKING:
    from parley.domain.agents.party import Attributes
    from parley.domain.rules.policy import BrokenPolicy, Fragment, Policy, PolicySnapshot


class PolicyIn(Struct, forbid_unknown_fields=True):
    """A policy document as it stands in a file."""

    text: Annotated[str, Meta(min_length=1, description="YAML with one key, `agent-to-agent`.")]


class PolicyOut(Struct):
    """A policy document: what was written, and what it says, key by key."""

    scope: str
    name: str
    # Of everything that is in force.
    label: str
    keys: Mapping
    text: str | None = None


class FlawOut(Struct):
    """What is wrong with one line of a file."""

    file: str
    line: int
    key: str
    code: str
    detail: str


class BrokenOut(Struct):
    """A file that changed nothing, because of what is wrong with it."""

    file: str
    message: str
    flaws: list[FlawOut]


class PoliciesOut(Struct):
    """What is in force: one label for all of it."""

    label: str
    made_at: Time | None
    made_by: str | None
    policies: list[PolicyOut]
    broken: list[BrokenOut]


class RevisionOut(Struct):
    """What was in force from a moment on."""

    label: str
    made_at: Time | None
    made_by: str | None
    documents: list[str]


class InForceOut(Struct):
    """What is in force for somebody; `policy` is null when nothing is allowed because the enterprise has no policy."""

    label: str
    agent: str | None
    org_unit: str
    team: str | None
    user_id: str | None
    policy: Mapping | None
    origins: Mapping


def said(fragment: Fragment) -> dict[str, Any]:
    """The keys that a document sets."""
    return {key: encode_value(getattr(fragment, key)) for key in KEYS if getattr(fragment, key) is not None}


def documents(snapshot: PolicySnapshot, *, texts: bool = True) -> list[dict[str, Any]]:
    """All documents of a snapshot, the enterprise's first."""
    order = {"enterprise": 0, "org": 1, "team": 2, "user": 3}
    found = []
    for document in sorted(snapshot.texts, key=lambda one: (order[one.partition("/")[0]], one)):
        scope, _, name = document.partition("/")
        keys = said(snapshot.fragments[document])
        text = snapshot.texts[document] if texts else None
        found.append({"scope": scope, "name": name, "label": snapshot.label, "keys": keys, "text": text})
    return found


def policies(snapshot: PolicySnapshot, broken: tuple[BrokenPolicy, ...], *, texts: bool) -> dict[str, Any]:
    return {
        "label": snapshot.label,
        "made_at": snapshot.made_at or None,
        "made_by": snapshot.made_by or None,
        "policies": documents(snapshot, texts=texts),
        "broken": [{"file": one.file, "message": one.message, "flaws": list(one.flaws)} for one in broken],
    }


def revision(snapshot: PolicySnapshot) -> dict[str, Any]:
    return {
        "label": snapshot.label,
        "made_at": snapshot.made_at or None,
        "made_by": snapshot.made_by or None,
        "documents": sorted(snapshot.texts),
    }


def in_force(
    label: str, agent: str, attributes: Attributes, policy: Policy | None, origins: dict[str, str]
) -> dict[str, Any]:
    return {
        "label": label,
        "agent": agent or None,
        "org_unit": attributes.org_unit,
        "team": attributes.team or None,
        "user_id": attributes.user_id or None,
        "policy": {key: encode_value(getattr(policy, key)) for key in KEYS} if policy is not None else None,
        "origins": origins,
    }
