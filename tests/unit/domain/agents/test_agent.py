"""How an agent is: what it says, and what its silence says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from parley.domain.agents.agent import AgentDraft, AgentRecord, Heartbeats, health, registered
from parley.domain.agents.party import Attributes
from parley.domain.directory.callers import AgentStatus
from parley.domain.times import from_stamp, stamp

NOW = "2026-03-13T14:30:00.000000+00:00"


def after(seconds: float) -> str:
    return stamp(from_stamp(NOW) + timedelta(seconds=seconds))


def an_agent(status: AgentStatus = AgentStatus.ACTIVE, *, heartbeat: str = NOW) -> AgentRecord:
    return AgentRecord(id="a", tenant_id="default", registered_at=NOW, status=status, last_heartbeat_at=heartbeat)


@pytest.mark.parametrize(
    ("silence", "status"),
    [
        (0, AgentStatus.ACTIVE),
        (89.999, AgentStatus.ACTIVE),
        (90, AgentStatus.UNHEALTHY),
        (299.999, AgentStatus.UNHEALTHY),
        (300, AgentStatus.DEAD),
    ],
)
def test_silence_makes_an_agent_unhealthy_and_then_dead(silence: float, status: AgentStatus) -> None:
    assert health(an_agent(), after(silence)) is status


def test_an_agent_that_never_sent_a_heartbeat_is_not_watched() -> None:
    silent = an_agent(heartbeat="")

    assert health(silent, after(10_000)) is AgentStatus.ACTIVE
    assert silent.due == ""


@pytest.mark.parametrize(
    ("silence", "status"),
    [(19, AgentStatus.ACTIVE), (20, AgentStatus.UNHEALTHY), (59, AgentStatus.UNHEALTHY), (60, AgentStatus.DEAD)],
)
def test_an_agent_says_itself_what_its_silence_means(silence: float, status: AgentStatus) -> None:
    agent = replace(an_agent(), heartbeats=Heartbeats(10, 20, 60))

    assert health(agent, after(silence)) is status


@pytest.mark.parametrize(
    ("silence", "status"), [(3_689, AgentStatus.ACTIVE), (3_690, AgentStatus.UNHEALTHY), (3_900, AgentStatus.DEAD)]
)
def test_what_a_server_could_not_hear_counts_for_nobody(silence: float, status: AgentStatus) -> None:
    assert health(an_agent(), after(silence), since=after(3_600)) is status


def test_an_agent_that_is_heard_after_its_silence_is_active_whatever_was_stored() -> None:
    for stored in (AgentStatus.UNHEALTHY, AgentStatus.DEAD):
        assert health(an_agent(stored), after(1)) is AgentStatus.ACTIVE
        assert not an_agent(stored).gone


def test_a_draining_agent_keeps_draining_until_it_counts_as_dead() -> None:
    draining = an_agent(AgentStatus.DRAINING)

    assert health(draining, after(200)) is AgentStatus.DRAINING
    assert health(draining, after(300)) is AgentStatus.DEAD
    assert draining.due == ""


def test_an_agent_that_says_that_it_has_stopped_is_dead_at_once_but_its_drain_time_goes_on() -> None:
    draining = replace(an_agent(AgentStatus.DRAINING), drain_timeout_seconds=60, draining_since=NOW)
    stopped = replace(draining, stopped_at=after(1))

    assert health(stopped, after(2)) is AgentStatus.DEAD
    assert health(stopped, after(60)) is AgentStatus.DEREGISTERED
    assert health(registered(AgentDraft("a"), "default", stopped, after(3)), after(3)) is AgentStatus.ACTIVE


def test_a_drain_timeout_ends_in_deregistration() -> None:
    draining = replace(an_agent(AgentStatus.DRAINING), drain_timeout_seconds=60, draining_since=NOW)

    assert health(draining, after(59)) is AgentStatus.DRAINING
    assert health(draining, after(60)) is AgentStatus.DEREGISTERED
    assert draining.due == after(60)


def test_who_has_left_stays_so_and_is_never_due() -> None:
    gone = an_agent(AgentStatus.DEREGISTERED)

    assert health(gone, NOW) is AgentStatus.DEREGISTERED
    assert gone.gone
    assert gone.due == ""


def test_registering_again_changes_what_is_given_and_keeps_the_rest() -> None:
    first = registered(AgentDraft("a", ("x",), "worker", "Ann", metadata={"k": 1}), "default", None, NOW)
    kept = replace(first, version=1, last_heartbeat_at=NOW)

    again = registered(AgentDraft("a", ("x", "y")), "default", kept, after(10))

    assert again.version == 1
    assert again.capabilities == ("x", "y")
    assert (again.role_id, again.title, again.metadata) == ("worker", "Ann", {"k": 1})
    assert again.registered_at == NOW
    assert again.last_heartbeat_at == after(10)


def test_who_had_left_registers_anew_as_if_never_seen() -> None:
    gone = replace(an_agent(AgentStatus.DEREGISTERED), version=4, capabilities=("x",), title="Ann")

    anew = registered(AgentDraft("a"), "default", gone, after(10))

    assert anew.version == 4
    assert anew.status is AgentStatus.ACTIVE
    assert (anew.capabilities, anew.title, anew.last_heartbeat_at) == ((), "", "")
    assert anew.registered_at == after(10)


@pytest.mark.parametrize(
    ("changes", "decisive"),
    [
        ({"last_heartbeat_at": NOW}, 2),
        ({"current_load": 3, "capabilities": ("x",), "endpoint": "https://a", "role_id": "worker"}, 2),
        ({"status": AgentStatus.DRAINING}, 2),
        ({"status": AgentStatus.DEREGISTERED}, 4),
        ({"attributes": Attributes(org_unit="sales")}, 4),
    ],
)
def test_only_leaving_and_attributes_are_what_decisions_depend_on(changes: dict[str, Any], decisive: int) -> None:
    before = replace(an_agent(), version=3, decisive=2)

    stored = replace(before, **changes).after(before)

    assert (stored.version, stored.decisive_version) == (4, decisive)


def test_a_first_version_and_one_of_before_are_as_decisive_as_they_are_new() -> None:
    assert an_agent().after(None).decisive_version == 1
    assert replace(an_agent(), version=7).decisive_version == 7
