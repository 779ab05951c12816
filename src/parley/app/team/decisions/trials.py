"""Policy trials: explain one message, or replay recorded messages under other policies. Nothing is sent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.audit import reading as audits
from parley.app.team.audit.reading import Filters
from parley.app.team.rules import in_force as rules
from parley.app.team.rules import policies
from parley.domain.audit.entry import AGENT_EXCHANGE
from parley.domain.channel.channel import Channel
from parley.domain.channel.post import NO_PAYLOAD
from parley.domain.content.redaction import text_of
from parley.domain.errors.errors import NotFound
from parley.domain.exchange.approval import Approval
from parley.domain.exchange.exchange import Exchange
from parley.domain.hashes import digest
from parley.domain.rules.judge import rounds_of
from parley.domain.rules.policy import PolicySnapshot, with_document, without_document
from parley.domain.rules.reasons import APPROVAL_DECIDED, reasons_of
from parley.domain.rules.replay import (
    Change,
    Recorded,
    audience_of,
    judged_beside,
    replay_entry,
    replayable,
    trial_of,
)
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.trial import ExplainStep, TrialResult, run_trial
from parley.domain.store.changes import AuditQuery

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from parley.app.team.team import Team
    from parley.domain.agents.party import Party
    from parley.domain.audit.entry import AuditEntry
    from parley.domain.directory.callers import Caller
    from parley.domain.rules.policy import Fragment
    from parley.domain.rules.trial import Trial

_PAGE = 500
_OWN_RULES = ExplainStep("own rules", "asked besides", "server", "not tried here; they can only be stricter")


class Replayed(NamedTuple):
    """The result of a replay: the number of messages, and those with another verdict."""

    messages: int
    label: str
    changes: list[Change]
    # How many were replayed with their content; for the others only the recorded detections are known.
    with_content: int
    # The entry to continue after; None at the end of the log.
    next: int | None


async def explain(team: Team, caller: Caller, sender: str, receiver: str, trial: Trial) -> TrialResult:
    """Explain how the policies would treat a message between two agents of the tenant."""
    in_force = await rules.in_force(team, caller.tenant, [])
    sender_party = await rules.party(team, caller.tenant, sender)
    receiver_party = await rules.party(team, caller.tenant, receiver)
    result = run_trial(
        trial._replace(sender=sender_party, receiver=receiver_party), in_force.book, team.governance.detectors
    )
    if team.governance.extension is None:
        return result
    return result._replace(steps=(*result.steps, _OWN_RULES))


class RecordedExplanation(NamedTuple):
    """Why a recorded message was treated as it was: in words, and by the checks of the policies of then.

    `trial` is None where there is nothing to check again: no policy judged it, its policies are no longer stored, or
    the caller may not read the policies.
    """

    entry: AuditEntry
    facts: Mapping[str, Any]
    reasons: list[str]
    trial: TrialResult | None
    with_content: bool


async def explain_entry(team: Team, caller: Caller, entry_id: str) -> RecordedExplanation:
    """Explain an entry of the audit log, by its id or number, from what it recorded."""
    entry = await audits.get(team, caller, entry_id)
    facts: dict[str, Any] = json.loads(entry.document) if entry.document else {}
    if facts.get("action") != AGENT_EXCHANGE:
        return RecordedExplanation(entry, facts, [], None, with_content=False)
    reasons = reasons_of(facts, await _decision_about(team, caller, facts))
    if not caller.all_seeing or "purpose" not in facts:
        return RecordedExplanation(entry, facts, reasons, None, with_content=False)
    run = _Replay(team, caller.tenant, Rulebook(await policies.current(team, caller.tenant)))
    trial, with_content = await run.try_again(facts)
    if trial is not None and team.governance.extension is not None:
        trial = trial._replace(steps=(*trial.steps, _OWN_RULES))
    return RecordedExplanation(entry, facts, reasons, trial, with_content)


async def _decision_about(team: Team, caller: Caller, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a person decided about a held message, if the caller may see it."""
    if not facts.get("approval"):
        return None
    filters = Filters(exchange_id=str(facts["exchange_id"]), action=APPROVAL_DECIDED)
    for entry in (await audits.page(team, caller, filters)).entries:
        decision: dict[str, Any] = json.loads(entry.document) if entry.document else {}
        if decision.get("approval") == facts["approval"]:
            return decision
    return None


async def proposed(team: Team, tenant: str, documents: Mapping[str, tuple[str, Fragment | None]]) -> PolicySnapshot:
    """The snapshot with these documents replaced; None removes one."""
    snapshot = await policies.current(team, tenant)
    for name, (text, fragment) in documents.items():
        if fragment is None:
            snapshot = without_document(snapshot, name)
        else:
            snapshot = with_document(snapshot, name, text, fragment)
    return snapshot


async def replay(
    team: Team, caller: Caller, snapshot: PolicySnapshot, *, since: str = "", after: int = 0, most: int = 10_000
) -> Replayed:
    """Replay the recorded messages of a tenant under another snapshot, oldest first."""
    run = _Replay(team, caller.tenant, Rulebook(snapshot))
    while True:
        query = AuditQuery(after=after, limit=_PAGE, since=since, action=AGENT_EXCHANGE)
        page = await team.store.audits(caller.tenant, query)
        for entry in page:
            if run.messages >= most:
                return run.result(snapshot.label, after)
            after = entry.number
            if entry.document:
                await run.look(Recorded(entry.id, entry.at, json.loads(entry.document)))
        if len(page) < _PAGE:
            return run.result(snapshot.label, None)


class _Replay:
    """The state of one replay: its results, and cached lookups."""

    def __init__(self, team: Team, tenant: str, book: Rulebook) -> None:
        self._team = team
        self._tenant = tenant
        self._book = book
        self._changes: list[Change] = []
        self._with_content = 0
        self._parties: dict[str, Party] = {}
        self._books: dict[str, Rulebook | None] = {}
        self.messages = 0

    def result(self, label: str, after: int | None) -> Replayed:
        return Replayed(self.messages, label, self._changes, self._with_content, after)

    async def look(self, entry: Recorded) -> None:
        """Replay one entry, if it records a judged message."""
        facts = entry.facts
        names = audience_of(facts)
        if not replayable(facts) or not names:
            return
        sender = await self._party(str(facts["sender"]))
        receivers = tuple([await self._party(name) for name in names])
        texts = await self._texts(facts)
        own = await self._own_limit(facts, sender, receivers)
        trial = trial_of(facts, sender, receivers[0], texts, own_limit=own)
        self.messages += 1
        self._with_content += texts is not None
        self._changes += replay_entry(entry, trial, receivers, self._book, self._team.governance.detectors)

    async def try_again(self, facts: Mapping[str, Any]) -> tuple[TrialResult | None, bool]:
        """The result for the first receiver under the policies of then, and whether the content was there to be read.

        The org units are those of then, all else of the two agents as the directory has it now.
        """
        book, names = await self._then(str(facts["policy"])), audience_of(facts)
        if book is None or not names:
            return None, False
        sender = _in_unit(await self._party(str(facts["sender"])), facts.get("source_org"))
        receiver = _in_unit(await self._party(names[0]), facts.get("target_org"))
        texts = await self._texts(facts)
        own = await self._own_limit(facts, sender, (receiver,))
        trial = trial_of(facts, sender, receiver, texts, own_limit=own)
        return run_trial(trial, book, self._team.governance.detectors), texts is not None

    async def _party(self, agent: str) -> Party:
        """A party, by the current directory."""
        if agent not in self._parties:
            self._parties[agent] = await rules.party(self._team, self._tenant, agent)
        return self._parties[agent]

    async def _own_limit(self, facts: Mapping[str, Any], sender: Party, receivers: tuple[Party, ...]) -> bool:
        """Whether the message asked for fewer rounds than its policy allowed."""
        book = await self._then(str(facts["policy"]))
        if book is None:
            return True
        for receiver in receivers:
            policy = book.between(sender.attributes, receiver.attributes)
            if policy is not None and int(facts["max_rounds"]) >= rounds_of(policy, sender, receiver, None):
                return False
        return True

    async def _then(self, label: str) -> Rulebook | None:
        if label not in self._books:
            try:
                self._books[label] = Rulebook(await policies.revision(self._team, self._tenant, label))
            except NotFound:
                self._books[label] = None
        return self._books[label]

    async def _texts(self, facts: Mapping[str, Any]) -> tuple[str, ...] | None:
        """All texts that were judged with a message, if it is still stored, delivered or held."""
        post = await self._team.store.post(self._tenant, str(facts.get("message_id", "")))
        if post is not None:
            payload, metadata = post.payload, post.metadata
            # The content was erased.
            if digest(payload) != facts.get("content_digest"):
                return None
        else:
            approval = await self._team.store.get(Approval, self._tenant, str(facts.get("approval", "")))
            if approval is None or approval.draft is None:
                return None
            payload, metadata = approval.draft.payload.encode(), approval.draft.metadata.encode()
            if payload == NO_PAYLOAD:
                return None
        wishes = self._team.envelopes.wishes(metadata)
        data = wishes.data if wishes is not None else ()
        beside = (self._team.envelopes.written_text(metadata), await self._new_channel(facts))
        exchange = await self._team.store.get(Exchange, self._tenant, str(facts["exchange_id"]))
        return (*_texts_in(payload), *filter(None, (*beside, *judged_beside(facts, data, exchange))))

    async def _new_channel(self, facts: Mapping[str, Any]) -> str:
        """The name of the channel that a message created."""
        if not facts.get("creates_channel"):
            return ""
        channel = await self._team.store.get(Channel, self._tenant, str(facts.get("channel_id", "")))
        return channel.label if channel is not None else ""


def _in_unit(party: Party, org_unit: str | None) -> Party:
    if not org_unit or org_unit == party.attributes.org_unit:
        return party
    return party._replace(attributes=replace(party.attributes, org_unit=org_unit))


def _texts_in(payload: bytes) -> tuple[str, ...]:
    """As they are looked at when it is sent: compact JSON without escapes reads as plain text."""
    if payload.isascii() and b"\\" not in payload:
        return (payload.decode(),)
    return (text_of(json.loads(payload)),)
