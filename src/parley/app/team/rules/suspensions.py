"""The kill switch: suspend an agent, a pair, an org unit or the whole tenant, and lift it again. In force at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parley.app.team.retry import committed
from parley.domain.agents.party import PAIR_MARK, pair_name
from parley.domain.audit.entry import TENANT_SIDE, AuditDraft
from parley.domain.directory.callers import Caller
from parley.domain.errors.errors import Invalid, NotFound, Problem
from parley.domain.names import is_name
from parley.domain.rules import suspension
from parley.domain.rules.suspension import (
    Stopped,
    Suspension,
    Suspensions,
    ended_by,
    with_suspension,
    without_suspension,
)
from parley.domain.store.changes import TeamChanges

if TYPE_CHECKING:
    from parley.app.team.team import Team


async def list_all(team: Team, caller: Caller) -> tuple[Suspension, ...]:
    """All suspensions of the tenant."""
    stored = await team.store.get(Suspensions, caller.tenant, suspension.ALL)
    return stored.stopped if stored is not None else ()


async def suspend(team: Team, caller: Caller, what: Stopped, name: str, reason: str, until: str = "") -> Suspension:
    """Add a suspension, up to a moment or until it is lifted. An existing one gets the new end, and the new reason, if
    one is given.
    """
    name, now = checked(what, name), team.at()
    if until and until <= now:
        raise Invalid.because([Problem("invalid", "until", "is in the past")])
    suspension_record = Suspension(what=what, name=name, reason=reason, by=caller.actor, at=now, until=until)

    async def decide() -> TeamChanges | None:
        stored = await _stored(team, caller)
        changed = with_suspension(stored, suspension_record)
        return None if changed is stored else _changes(team, caller, changed, "suspended", suspension_record)

    await committed(team, caller, decide, "suspensions")
    return await get(team, caller, what, name)


async def get(team: Team, caller: Caller, what: Stopped, name: str) -> Suspension:
    """One suspension; `NotFound` when it was lifted."""
    key = (what, checked(what, name))
    for stored in await list_all(team, caller):
        if stored.key == key:
            return stored
    raise NotFound("this is not suspended")


async def lift(team: Team, caller: Caller, what: Stopped, name: str) -> None:
    """Lift a suspension; `NotFound` when there is none."""
    name = checked(what, name)

    async def decide() -> TeamChanges:
        stored = await _stored(team, caller)
        stopped = next((entry for entry in stored.stopped if entry.key == (what, name)), None)
        if stopped is None:
            raise NotFound("this is not suspended")
        return _changes(team, caller, without_suspension(stored, what, name), "suspension_lifted", stopped)

    await committed(team, caller, decide, "suspensions")


async def lift_ended(team: Team, tenant: str) -> None:
    """Lift the suspensions whose time is over, each with an entry of the audit log."""
    caller = Caller.system(tenant)
    stored = await _stored(team, caller)
    for suspension_record in ended_by(stored, team.at()):
        lifted = without_suspension(stored, *suspension_record.key)
        changes = _changes(team, caller, lifted, "suspension_lifted", suspension_record)
        done = await team.store.commit(changes)
        stored = replace(lifted, version=done.puts[0].version)


def checked(what: Stopped, name: str) -> str:
    """The canonical name; a pair is two names separated by a comma, in any order."""
    if what is Stopped.TENANT:
        return ""
    parts = name.split(PAIR_MARK) if what is Stopped.PAIR else [name]
    wanted = 2 if what is Stopped.PAIR else 1
    if len(parts) != wanted or not all(is_name(part.strip()) for part in parts):
        needed = "two names with a comma between them" if what is Stopped.PAIR else "a name"
        raise Invalid.because([Problem("invalid", "name", f"must be {needed}")])
    return pair_name(*[part.strip() for part in parts]) if what is Stopped.PAIR else name


async def _stored(team: Team, caller: Caller) -> Suspensions:
    stored = await team.store.get(Suspensions, caller.tenant, suspension.ALL)
    return stored or Suspensions(id=suspension.ALL, tenant_id=caller.tenant)


def _changes(team: Team, caller: Caller, changed: Suspensions, action: str, subject: Suspension) -> TeamChanges:
    facts = {"what": subject.what.value, "name": subject.name, "reason": subject.reason, "key": caller.key_id}
    if subject.until:
        facts["until"] = subject.until
    audit = AuditDraft(team.new_id("aud"), TENANT_SIDE, team.at(), action, caller.actor, facts)
    entry = team.entry(caller, action, subject.name or caller.tenant, what=subject.what.value, reason=subject.reason)
    return TeamChanges(caller.tenant, puts=(changed,), entries=(entry,), audits=(audit,), created_id=changed.id)
