"""The ground of a decision: which changes move the generation, and what the commit checks when it moved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parley.domain.agents.agent import AgentRecord
from parley.domain.agents.party import Attributes
from parley.domain.channel.bookmark import Bookmark
from parley.domain.directory.callers import AgentStatus
from parley.domain.errors.errors import Stale
from parley.domain.record import Expect
from parley.domain.store.changes import TeamChanges
from parley.domain.store.ground import Ground, moves_generation
from parley.domain.store.kinds import KINDS
from tests.contract.team_store import AT, T1, a_channel, a_post
from tests.unit.domain.store.transactions import a_shelf, after, begun

AGENT = AgentRecord(id="bob", tenant_id=T1, version=1, registered_at=AT)
# What changes with messages, jobs and the clock. A decision that depends on one expects it by its version.
NO_GROUND = {
    "approval",
    "audit_checkpoint",
    "audit_mark",
    "bookmark",
    "checkpoint",
    "exchange",
    "job",
    "log_mark",
    "request",
    "request_mark",
    "timer",
}


def test_every_kind_that_is_not_named_moves_the_generation() -> None:
    class Stub:
        def __init__(self, kind: str) -> None:
            self.kind = kind

    still = {kind for kind in KINDS if not moves_generation(None, Stub(kind))}  # type: ignore[arg-type]

    assert still == NO_GROUND


@pytest.mark.parametrize(
    ("after_it", "moves"),
    [
        (replace(AGENT, last_heartbeat_at=AT, current_load=3), False),
        (replace(AGENT, status=AgentStatus.DRAINING, capabilities=("tests",)), False),
        (replace(AGENT, status=AgentStatus.DEREGISTERED), True),
        (replace(AGENT, attributes=Attributes(org_unit="legal")), True),
        (None, True),
    ],
)
def test_of_an_agent_only_what_decisions_rest_on_moves_it(after_it: AgentRecord | None, moves: bool) -> None:
    stored = after_it.after(AGENT) if after_it is not None else None

    assert moves_generation(AGENT, stored) is moves
    assert moves_generation(None, AGENT) is True


def test_the_versions_are_checked_only_when_the_generation_moved() -> None:
    shelf = a_shelf()
    wrong = (Expect("channel", "chan_1", 99),)
    said = TeamChanges(T1, (a_post(),), ground=Ground(shelf.generation(T1), wrong))

    assert begun(shelf).take(said).posts[0].seq == 1
    for generation in (shelf.generation(T1) + 1, 0):
        with pytest.raises(Stale):
            begun(shelf).take(said._replace(ground=Ground(generation, wrong)))


def test_what_an_earlier_commit_of_the_transaction_changed_is_no_ground() -> None:
    shelf = a_shelf()
    channel = shelf.record((T1, "channel", "chan_1"))
    assert channel is not None
    ground = Ground(shelf.generation(T1), (Expect("channel", "chan_1", channel.version),))
    transaction = begun(shelf)
    transaction.take(TeamChanges(T1, puts=(channel,)))

    with pytest.raises(Stale):
        transaction.take(TeamChanges(T1, (a_post(),), ground=ground))


def test_what_is_expected_beside_the_ground_is_always_checked() -> None:
    shelf = a_shelf()
    said = TeamChanges(T1, (a_post(),), (Expect("channel", "chan_1", 99),), ground=Ground(shelf.generation(T1), ()))

    with pytest.raises(Stale):
        begun(shelf).take(said)


def test_a_generation_moves_with_the_transaction_and_not_with_bookmarks() -> None:
    shelf = a_shelf()
    bookmark = Bookmark(id="bob", tenant_id=T1, agent="bob", label="", position=0, holder="", saved_at=AT)

    assert after(shelf, TeamChanges(T1, puts=(bookmark,))).moved_generations == set()
    assert after(shelf, TeamChanges(T1, puts=(a_channel("chan_2"),))).moved_generations == {T1}
