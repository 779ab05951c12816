"""Servers that are broken on purpose, each in one way that a test must notice.

python -m tests.fault.team.mutants NAME up --json ...
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

# For which a gap stays open: long enough for others to step into it on any machine.
_A_WHILE = 0.05


def acknowledge_before_commit() -> None:
    """Whoever speaks is answered from a transaction that is taken back; the one that lasts comes a moment later."""
    import time

    from parley.adapters.sqlite.team import writer as team_writer
    from parley.adapters.sqlite.team import writes as team_writes
    from parley.adapters.sqlite.team.source import SqliteSource
    from parley.adapters.sqlite.team.writer import CommitOutcome, SqliteWriter
    from parley.domain.errors.errors import ParleyError
    from parley.domain.store.changes import TeamChanges
    from parley.domain.store.transaction import Transaction

    commit = SqliteWriter._commit_batch

    def take(transaction: Transaction, changes: TeamChanges) -> CommitOutcome:
        try:
            return transaction.take(changes)
        except ParleyError as refusal:
            return refusal

    def settle(self: SqliteWriter, batch: list[tuple[TeamChanges, Callable[[CommitOutcome], None]]]) -> None:
        said = [one for one in batch if one[0].posts]
        if said:
            self._db.execute("BEGIN IMMEDIATE")
            transaction = Transaction(SqliteSource(self._db, self._cache), team_writer.ENCODERS)
            outcomes = [take(transaction, changes) for changes, _ in said]
            self._db.execute("ROLLBACK")
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._deliver, said, outcomes)
            time.sleep(0.1)
            with self._transaction([changes for changes, _ in said]) as lasting:
                for changes, _ in said:
                    take(lasting, changes)
                team_writes.write(self._db, lasting)
        if len(said) < len(batch):
            commit(self, [one for one in batch if not one[0].posts])

    SqliteWriter._commit_batch = settle  # type: ignore[method-assign]


def forget_idempotency() -> None:
    """A repeated request is carried out again. The answer takes its time, so that some are always under way."""
    import asyncio

    from parley.surfaces.http.api import Api

    async def again(self: Api, route: object, call: object, key: str) -> object:
        del key
        answer = await route.answer(call)  # type: ignore[attr-defined]
        await asyncio.sleep(0.03)
        return answer

    def not_at_once(*_: object) -> None:
        """Every call is run as above."""

    Api._run_once = again  # type: ignore[assignment,method-assign]
    Api._submit = not_at_once  # type: ignore[assignment,method-assign]


def resume_too_far() -> None:
    """A stream that comes back leaves out what comes next: most of it was for others, so it is more than one."""
    from parley.surfaces.http.routes import streams

    cursor = streams._cursor

    def further(call: object) -> int | None:
        known = cursor(call)  # type: ignore[arg-type]
        return None if known is None else known + 4 if known else 0

    streams._cursor = further


def show_everything_to_everyone() -> None:
    """A directed message is shown to whoever takes part."""
    from parley.adapters.sqlite.team import store as team_store

    team_store._VISIBLE = ":viewer = :viewer AND :since = :since"


def commit_without_sync() -> None:
    """It is left to the operating system when a commit reaches the disk."""
    from parley.adapters.sqlite.team import file as team_file

    connect = team_file.connect

    def lazily(path: str, *, writes: bool, durable: bool = True) -> sqlite3.Connection:
        del durable
        return connect(path, writes=writes, durable=False)

    team_file.connect = lazily


def _nobody_waits() -> None:
    """Those who speak in one conversation do so at once: only the commit is left to keep them apart."""
    import asyncio

    from parley.app.team.state.rules import RulesState

    def at_once(self: RulesState, tenant: str, conversation: str) -> asyncio.Lock:
        del self, tenant, conversation
        return asyncio.Lock()

    RulesState.lock = at_once  # type: ignore[method-assign]


def _overwrite(*kinds: str) -> None:
    """Of these kinds of records the last one written wins, whatever it was decided on."""
    from parley.domain.record import Record
    from parley.domain.store.source import RecordKey
    from parley.domain.store.transaction import Transaction

    check = Transaction._check_version

    def blindly(self: Transaction, key: RecordKey, version: int) -> Record | None:
        return self.record(key) if key[1] in kinds else check(self, key, version)

    Transaction._check_version = blindly  # type: ignore[method-assign]


Commit = Callable[[Any], Awaitable[Any]]


def _commit_by(steps: Callable[[Commit, Any], Awaitable[Any]]) -> None:
    """Every commit of a use case goes through `steps`, which is given the true one."""
    from parley.app.team.team import Team

    class Store:
        def __init__(self, store: object) -> None:
            self._store = store

        def __getattr__(self, name: str) -> object:
            return getattr(self._store, name)

        async def commit(self, changes: object) -> object:
            return await steps(self._store.commit, changes)  # type: ignore[attr-defined]

    begin = Team.__init__

    def with_steps(self: Team, store: Any, *ports: Any, **options: Any) -> None:  # noqa: ANN401
        begin(self, Store(store), *ports, **options)  # type: ignore[arg-type]

    Team.__init__ = with_steps  # type: ignore[method-assign]


def forget_the_exchange() -> None:
    """A message does not depend on the exchange that it was decided on; between the two there is a while."""
    import asyncio

    from parley.domain.store.changes import Committed, TeamChanges

    _nobody_waits()
    _overwrite("exchange")

    async def late(commit: Commit, changes: TeamChanges) -> Committed:
        await asyncio.sleep(_A_WHILE)
        return await commit(changes)  # type: ignore[no-any-return]

    _commit_by(late)


def assign_rounds_outside_the_commit() -> None:
    """The message is written first; what its exchange became comes in a commit of its own, a while later."""
    import asyncio

    from parley.domain.exchange.exchange import Exchange
    from parley.domain.store.changes import Committed, TeamChanges

    _nobody_waits()
    _overwrite("exchange")

    async def in_two_steps(commit: Commit, changes: TeamChanges) -> Committed:
        later = tuple(one for one in changes.puts if isinstance(one, Exchange) and changes.posts)
        now = tuple(one for one in changes.puts if one not in later)
        done = await commit(changes._replace(puts=now))
        if later:
            await asyncio.sleep(_A_WHILE)
            await commit(TeamChanges(changes.tenant, puts=later))
        return done  # type: ignore[no-any-return]

    _commit_by(in_two_steps)


def deliver_before_judging() -> None:
    """A message is delivered, and then somebody asks whether it may be."""
    from parley.app.team.rules import governing
    from parley.app.team.rules.docket import TeamDocket
    from parley.app.team.rules.governing import GovernedPost, ProposedPost
    from parley.domain.store.changes import TeamChanges

    judge = governing.govern

    async def later(docket: TeamDocket, message: ProposedPost) -> GovernedPost:
        governed = await judge(docket, message)
        if governed.decision is not None and governed.decision.held is not None:
            await docket.team.store.commit(TeamChanges(docket.tenant, posts=(message.placed,)))
        return governed

    governing.govern = later


def skip_the_receivers_entry() -> None:
    """Only the sender has it on record."""
    from parley.app.rules import recording
    from parley.app.rules.docket import Docket, Submission
    from parley.domain.audit.entry import AuditDraft
    from parley.domain.exchange.exchange import Outcome
    from parley.domain.rules.ruling import Ruling

    delivered = recording.delivered_entries

    def one_side(
        docket: Docket,
        submission: Submission[Any],
        ruling: Ruling,
        content_digest: str,
        outcomes: Mapping[str, Outcome],
    ) -> tuple[AuditDraft, ...]:
        return delivered(docket, submission, ruling, content_digest, outcomes)[:1]

    recording.delivered_entries = one_side


def record_afterwards() -> None:
    """The message is written first; its entries come later, if they can be written at all."""
    from parley.domain.errors.errors import ParleyError
    from parley.domain.store.changes import Committed, TeamChanges

    async def in_two_steps(commit: Commit, changes: TeamChanges) -> Committed:
        done = await commit(changes._replace(audits=()))
        if changes.audits:
            with suppress(ParleyError):
                await commit(TeamChanges(changes.tenant, audits=changes.audits))
        return done  # type: ignore[no-any-return]

    _commit_by(in_two_steps)


def approve_again() -> None:
    """Whoever approves does not look whether somebody else has."""
    from dataclasses import replace

    from parley.app.rules import approvals, messages
    from parley.domain.exchange.approval import Approval, ApprovalStatus

    def anyway(
        approval: Approval, status: ApprovalStatus, by: str, at: str, note: str, message_id: str = ""
    ) -> Approval:
        return replace(approval, status=status, decided_by=by, decided_at=at, note=note, message_id=message_id)

    def check(*about: object) -> None:
        del about

    _nobody_waits()
    _overwrite("approval", "exchange")
    setattr(approvals, "check_decidable", check)  # noqa: B010  # it is imported there, not its own
    setattr(messages, "decided", anyway)  # noqa: B010


def answer_without_lease() -> None:
    """Whoever once had a request may answer it, whoever has it now."""
    from parley.app.team.channels import leases
    from parley.domain.channel.job import Job

    def unchecked(job: Job | None, agent: str, lease: str) -> Job | None:
        del agent, lease
        return job

    assert hasattr(leases, "check_lease")
    leases.check_lease = unchecked


def claim_outside_the_commit() -> None:
    """A job is handed out as if its claim were written."""
    from dataclasses import replace

    from parley.app.team.queues import claims
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import Committed, TeamChanges

    commit = claims._commit_claims

    async def late(team: Team, caller: Caller, changes: TeamChanges) -> Committed:
        if changes.drops or not changes.puts:
            return await commit(team, caller, changes)
        import asyncio

        async def write() -> None:
            await asyncio.sleep(_A_WHILE)
            with suppress(Exception):
                await commit(team, caller, changes)

        team.queues.releases.add(asyncio.ensure_future(write()))
        return Committed(0, puts=tuple([replace(record, version=record.version + 1) for record in changes.puts]))

    claims._commit_claims = late


def answer_claims_late() -> None:
    """Not broken: a claim is answered a while after its commit, so that a kill falls between them."""
    import asyncio

    from parley.app.team.queues import claims
    from parley.app.team.team import Team
    from parley.domain.directory.callers import Caller
    from parley.domain.store.changes import Committed, TeamChanges

    commit = claims._commit_claims

    async def late(team: Team, caller: Caller, changes: TeamChanges) -> Committed:
        committed = await commit(team, caller, changes)
        await asyncio.sleep(6 * _A_WHILE)
        return committed

    claims._commit_claims = late


def take_claims_for_proofs() -> None:
    """A message counts as handed over when it is claimed, before anybody has it."""
    from dataclasses import replace
    from datetime import datetime

    from parley.app.team.queues import claims
    from parley.domain.channel.job import Job, claimed

    answer_claims_late()

    def at_once(job: Job, agent: str, lease: str, seconds: float, now: datetime, *, process: str = "") -> Job:
        taken = claimed(job, agent, lease, seconds, now, process=process)
        return replace(taken, received=True, received_at=taken.changed_at)

    assert hasattr(claims, "claimed")
    claims.claimed = at_once


MUTANTS: dict[str, Callable[[], None]] = {
    "answer_claims_late": answer_claims_late,
    "take_claims_for_proofs": take_claims_for_proofs,
    "answer_without_lease": answer_without_lease,
    "claim_outside_the_commit": claim_outside_the_commit,
    "approve_again": approve_again,
    "assign_rounds_outside_the_commit": assign_rounds_outside_the_commit,
    "deliver_before_judging": deliver_before_judging,
    "forget_the_exchange": forget_the_exchange,
    "record_afterwards": record_afterwards,
    "skip_the_receivers_entry": skip_the_receivers_entry,
    "acknowledge_before_commit": acknowledge_before_commit,
    "forget_idempotency": forget_idempotency,
    "resume_too_far": resume_too_far,
    "commit_without_sync": commit_without_sync,
    "show_everything_to_everyone": show_everything_to_everyone,
}


def main() -> None:
    from parley.cli.main import entry

    MUTANTS[sys.argv[1]]()
    sys.argv = ["parley", *sys.argv[2:]]
    entry()


if __name__ == "__main__":
    main()
