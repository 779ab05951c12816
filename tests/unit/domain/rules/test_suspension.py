from __future__ import annotations

import pytest

from parley.domain.agents.party import Party, pair_name
from parley.domain.errors.rules import Suspended
from parley.domain.rules.suspension import (
    ALL,
    Stopped,
    Suspension,
    Suspensions,
    check_not_stopped,
    with_suspension,
    without_suspension,
)
from tests.samples.governed import ALICE, AT, BOB, a_party

CAROL = a_party("carol", org_unit="sales")


def stopped(*stops: tuple[Stopped, str]) -> Suspensions:
    found = Suspensions(id=ALL, tenant_id="t")
    for what, name in stops:
        found = with_suspension(found, Suspension(what=what, name=name, reason="night", by="ann", at=AT))
    return found


def test_a_pair_has_one_name_whoever_comes_first() -> None:
    assert pair_name("bob", "alice") == pair_name("alice", "bob") == "alice,bob"


@pytest.mark.parametrize(
    ("stop", "sender", "receiver"),
    [
        ((Stopped.TENANT, ""), ALICE, None),
        ((Stopped.TENANT, ""), ALICE, BOB),
        ((Stopped.AGENT, "alice"), ALICE, None),
        ((Stopped.AGENT, "alice"), ALICE, BOB),
        ((Stopped.AGENT, "bob"), ALICE, BOB),
        ((Stopped.PAIR, "alice,bob"), ALICE, BOB),
        ((Stopped.PAIR, "alice,bob"), BOB, ALICE),
        ((Stopped.ORG_UNIT, "engineering"), ALICE, None),
        ((Stopped.ORG_UNIT, "sales"), ALICE, CAROL),
        ((Stopped.ORG_UNIT, "sales"), CAROL, ALICE),
    ],
)
def test_what_is_stopped_is_refused(stop: tuple[Stopped, str], sender: Party, receiver: Party | None) -> None:
    with pytest.raises(Suspended) as refused:
        check_not_stopped(stopped((Stopped.AGENT, "zoe"), stop), sender, receiver)

    assert refused.value.facts == {"suspended": stop[0].value, "name": stop[1]}
    assert refused.value.message.endswith("is suspended: night")


@pytest.mark.parametrize(
    ("stop", "sender", "receiver"),
    [
        ((Stopped.AGENT, "carol"), ALICE, BOB),
        ((Stopped.PAIR, "alice,bob"), ALICE, CAROL),
        ((Stopped.PAIR, "alice,bob"), ALICE, None),
        ((Stopped.ORG_UNIT, "sales"), ALICE, BOB),
        ((Stopped.ORG_UNIT, "alice"), ALICE, BOB),
        ((Stopped.AGENT, "engineering"), ALICE, BOB),
    ],
)
def test_everything_else_goes_on(stop: tuple[Stopped, str], sender: Party, receiver: Party | None) -> None:
    check_not_stopped(stopped(stop), sender, receiver)
    check_not_stopped(None, sender, receiver)
    check_not_stopped(stopped(), sender, receiver)


def test_what_is_stopped_already_stays_as_it_was() -> None:
    first = stopped((Stopped.AGENT, "bob"))

    for reason in ("", first.stopped[0].reason):
        one = Suspension(what=Stopped.AGENT, name="bob", reason=reason, by="eve", at="later")
        assert with_suspension(first, one) is first


def test_another_reason_takes_the_place_of_the_one_before() -> None:
    first = stopped((Stopped.AGENT, "bob"), (Stopped.TENANT, ""))

    again = with_suspension(first, Suspension(what=Stopped.AGENT, name="bob", reason="other", by="eve", at="later"))

    bob, tenant = again.stopped
    assert (bob.reason, bob.by, bob.at) == ("other", "eve", first.stopped[0].at)
    assert tenant == first.stopped[1]


def test_what_is_lifted_is_gone_and_nothing_else() -> None:
    known = stopped((Stopped.AGENT, "bob"), (Stopped.ORG_UNIT, "bob"), (Stopped.TENANT, ""))

    assert [one.key for one in without_suspension(known, Stopped.AGENT, "bob").stopped] == [
        (Stopped.ORG_UNIT, "bob"),
        (Stopped.TENANT, ""),
    ]


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ((Stopped.TENANT, ""), "the tenant is suspended"),
        ((Stopped.PAIR, "alice,bob"), "talk between alice and bob is suspended"),
        ((Stopped.ORG_UNIT, "engineering"), "the org unit engineering is suspended"),
        ((Stopped.AGENT, "bob"), "the agent bob is suspended"),
    ],
)
def test_a_refusal_says_what_is_stopped(stop: tuple[Stopped, str], words: str) -> None:
    one = Suspension(what=stop[0], name=stop[1], by="ann", at=AT)

    with pytest.raises(Suspended, match=f"^{words}$"):
        check_not_stopped(Suspensions(id=ALL, tenant_id="t", stopped=(one,)), ALICE, BOB)
