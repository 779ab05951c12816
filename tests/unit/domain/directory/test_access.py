from dataclasses import replace

import pytest

from parley.domain.directory.access import (
    COORDINATOR,
    WORKER,
    Access,
    AccessPolicy,
    AccessRequest,
    Assignment,
    Grant,
    Permission,
    RequestStatus,
    Standing,
    check_allows,
    expired_grants,
    needed_to_assign,
    standing,
    visible_since,
    with_assignment,
    with_grant,
    without_assignment,
    without_grant,
)
from parley.domain.errors.errors import Forbidden
from parley.domain.errors.team import BadTransition
from parley.domain.record import UNSETTLED

NOW = "2026-03-13T14:30:00.000000+00:00"
LATER = "2026-03-13T15:30:00.000000+00:00"


def access(policy: AccessPolicy = AccessPolicy.CLOSED, *parts: Grant | Assignment) -> Access:
    return Access(
        id="i",
        tenant_id="t",
        created_by="alice",
        policy=policy,
        grants=tuple(one for one in parts if isinstance(one, Grant)),
        assignments=tuple(one for one in parts if isinstance(one, Assignment)),
    )


def grant(
    permission: Permission, expires_at: str = "", since: int = 5, agent: str = "bob", kind: str = "agent"
) -> Grant:
    return Grant(
        id=f"g-{agent}",
        principal_id=agent,
        principal_type=kind,
        permission=permission,
        granted_by="alice",
        granted_at=NOW,
        expires_at=expires_at,
        since=since,
    )


def assigned(role: str = WORKER, since: int = 7, agent: str = "bob") -> Assignment:
    return Assignment(agent_id=agent, role=role, assigned_at=NOW, since=since)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (access(), None),
        (access(AccessPolicy.OPEN), Standing(Permission.WRITE, 0)),
        (access(AccessPolicy.OPEN, grant(Permission.READ)), Standing(Permission.WRITE, 0)),
        (access(AccessPolicy.OPEN, grant(Permission.ADMIN)), Standing(Permission.ADMIN, 0)),
        (access(AccessPolicy.CLOSED, grant(Permission.READ)), Standing(Permission.READ, 5)),
        (access(AccessPolicy.CLOSED, grant(Permission.READ, LATER)), Standing(Permission.READ, 5)),
        (access(AccessPolicy.CLOSED, grant(Permission.READ, NOW)), None),
        (access(AccessPolicy.CLOSED, grant(Permission.READ, kind="group")), None),
        (access(AccessPolicy.CLOSED, grant(Permission.READ, agent="carol")), None),
        (access(AccessPolicy.CLOSED, assigned()), Standing(Permission.WRITE, 7)),
        (access(AccessPolicy.CLOSED, assigned(COORDINATOR)), Standing(Permission.ADMIN, 7)),
        (access(AccessPolicy.CLOSED, assigned(), grant(Permission.READ)), Standing(Permission.WRITE, 5)),
    ],
)
def test_what_one_may_do_is_the_most_that_anything_gives(given: Access, expected: Standing | None) -> None:
    assert standing(given, "bob", NOW) == expected


def test_the_creator_rules_whatever_the_list_says() -> None:
    assert standing(access(), "alice", NOW) == Standing(Permission.ADMIN, 0)


def test_read_is_less_than_write_is_less_than_admin() -> None:
    order = [Permission.READ, Permission.WRITE, Permission.ADMIN]

    for place, has in enumerate(order):
        assert [Standing(has, 0).allows(needed) for needed in order] == [at <= place for at in range(3)]
    with pytest.raises(Forbidden):
        check_allows(Standing(Permission.READ, 0), Permission.WRITE)


def test_who_can_see_already_keeps_from_when_it_could() -> None:
    assert visible_since(access(AccessPolicy.OPEN), "bob", NOW) == 0
    assert visible_since(access(AccessPolicy.CLOSED, grant(Permission.READ)), "bob", NOW) == 5
    assert visible_since(access(), "bob", NOW) == UNSETTLED


@pytest.mark.parametrize(
    ("given", "role", "needed"),
    [
        (access(AccessPolicy.OPEN), WORKER, Permission.WRITE),
        (access(AccessPolicy.OPEN), COORDINATOR, Permission.ADMIN),
        (access(AccessPolicy.CLOSED), WORKER, Permission.ADMIN),
        (access(AccessPolicy.CLOSED, grant(Permission.READ)), WORKER, Permission.ADMIN),
        # A grant may end; an assignment would outlast it.
        (access(AccessPolicy.CLOSED, grant(Permission.WRITE)), WORKER, Permission.ADMIN),
        (access(AccessPolicy.OPEN, assigned(COORDINATOR)), WORKER, Permission.ADMIN),
    ],
)
def test_to_give_more_than_there_was_or_to_take_a_role_away_needs_admin(
    given: Access, role: str, needed: Permission
) -> None:
    assert needed_to_assign(given, "bob", role, NOW) is needed


def test_an_agent_has_one_assignment() -> None:
    once = with_assignment(access(), assigned())
    twice = with_assignment(once, assigned(COORDINATOR))

    assert [one.role for one in twice.assignments] == [COORDINATOR]
    assert twice.coordinates("bob")
    assert without_assignment(twice, "bob").assignments == ()


def test_an_entry_is_added_and_taken_away_by_its_id() -> None:
    both = with_grant(with_grant(access(), grant(Permission.READ)), grant(Permission.READ, agent="carol"))

    assert [one.principal_id for one in without_grant(both, "g-bob").grants] == ["carol"]


def test_a_list_is_due_when_its_next_entry_expires() -> None:
    given = access(AccessPolicy.CLOSED, grant(Permission.READ, LATER), grant(Permission.READ, NOW, agent="carol"))

    assert given.due == NOW
    assert [one.principal_id for one in expired_grants(given, NOW)] == ["carol"]
    assert access(AccessPolicy.CLOSED, grant(Permission.READ)).due == ""


def test_what_is_new_in_a_list_gets_the_position_of_its_commit() -> None:
    given = access(AccessPolicy.CLOSED, grant(Permission.READ, since=UNSETTLED), assigned(since=UNSETTLED))
    old = access(AccessPolicy.CLOSED, grant(Permission.READ), assigned())

    kept = given.with_position(9)

    assert (kept.grants[0].since, kept.assignments[0].since) == (9, 9)
    assert old.with_position(9) == old


def test_a_request_is_decided_once() -> None:
    asked = AccessRequest(
        id="r", tenant_id="t", intent_id="i", principal_id="bob", permission=Permission.READ, created_at=NOW
    )

    decided = asked.decided(RequestStatus.DENIED, "alice", LATER, "no")

    assert decided == replace(
        asked, status=RequestStatus.DENIED, decided_by="alice", decided_at=LATER, decision_reason="no"
    )
    with pytest.raises(BadTransition):
        decided.decided(RequestStatus.APPROVED, "alice", LATER, "")
