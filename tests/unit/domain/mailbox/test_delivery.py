"""Claims, leases and the order in which messages are handled."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from parley.domain.errors.errors import AlreadyClaimed, LeaseLost
from parley.domain.mailbox.delivery import (
    Delivery,
    DeliveryKey,
    Lease,
    Status,
    check_token,
    claim,
    lease_over,
    order_key,
    take_lease,
)
from parley.domain.message.message import Kind
from parley.domain.times import Instant
from tests.samples.messages import NOW

KEY = DeliveryKey("m1", "d" * 64, "codex")
NOW_HERE = Instant(NOW, "boot-1", 1_000.0)
HALF_AN_HOUR = timedelta(minutes=30)
LEASE = take_lease("t2", NOW_HERE, HALF_AN_HOUR)


def later(seconds: float, boot: str = "boot-1") -> Instant:
    return Instant(NOW + timedelta(seconds=seconds), boot, 1_000.0 + seconds)


def test_a_lease_ends_after_its_length_by_both_clocks() -> None:
    assert Lease("t2", "2026-03-13T15:00:00Z", "boot-1", 2_800.0) == LEASE
    assert not LEASE.held_by_lock


def test_a_claim_without_a_length_is_bound_to_the_lock() -> None:
    lease = take_lease("t1", NOW_HERE, None)

    assert lease == Lease("t1", "", "boot-1", None)
    assert lease.held_by_lock
    assert not lease_over(lease, later(10**9))
    assert not lease_over(lease, later(0, "boot-2"))


@pytest.mark.parametrize(("seconds", "over"), [(0, False), (1_799.9, False), (1_800, True), (1_801, True)])
def test_a_lease_runs_out_at_its_deadline(seconds: float, over: bool) -> None:
    assert lease_over(LEASE, later(seconds)) is over


@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(days=400)])
def test_setting_the_wall_clock_moves_no_lease(jump: timedelta) -> None:
    assert not lease_over(LEASE, Instant(NOW + jump, "boot-1", 1_001.0))
    assert lease_over(LEASE, Instant(NOW - jump, "boot-1", 9_999.0))


def test_a_reboot_ends_every_lease() -> None:
    assert lease_over(LEASE, Instant(NOW, "boot-2", 5.0))


def test_a_message_met_as_a_file_is_claimed_for_the_first_time() -> None:
    assert claim(None, KEY, "a.yaml", LEASE, NOW_HERE) == Delivery(KEY, "a.yaml", Status.CLAIMED, 1, LEASE)


@pytest.mark.parametrize("status", [Status.PENDING, Status.DELIVERED])
def test_a_known_delivery_is_claimed_under_its_present_name(status: Status) -> None:
    known = Delivery(KEY, "old.yaml", status, 2, reason="kept")

    claimed = claim(known, KEY, "new.yaml", LEASE, NOW_HERE)

    assert claimed == Delivery(KEY, "new.yaml", Status.CLAIMED, 3, LEASE, "kept")


def test_a_claim_whose_lease_has_not_run_out_is_respected() -> None:
    held = claim(None, KEY, "a.yaml", LEASE, NOW_HERE)

    with pytest.raises(AlreadyClaimed, match="2026-03-13T15:00:00Z"):
        claim(held, KEY, "a.yaml", take_lease("t3", NOW_HERE, HALF_AN_HOUR), later(1_799))


def test_a_claim_whose_lease_has_run_out_goes_to_the_next_and_counts_a_try() -> None:
    held = claim(None, KEY, "a.yaml", LEASE, NOW_HERE)
    next_lease = take_lease("t3", later(1_800), HALF_AN_HOUR)

    assert claim(held, KEY, "b.yaml", next_lease, later(1_800)) == Delivery(
        KEY, "b.yaml", Status.CLAIMED, 2, next_lease
    )


def test_a_claim_bound_to_a_lock_that_we_hold_now_belonged_to_the_dead() -> None:
    held = claim(None, KEY, "a.yaml", take_lease("t1", NOW_HERE, None), NOW_HERE)

    taken = claim(held, KEY, "a.yaml", LEASE, NOW_HERE)

    assert (taken.tries, taken.lease) == (2, LEASE)


def test_only_the_token_of_the_claim_opens_it() -> None:
    held = claim(None, KEY, "a.yaml", LEASE, NOW_HERE)

    check_token(held, "t2")
    check_token(held, None)
    for stranger in ("t1", ""):
        with pytest.raises(LeaseLost):
            check_token(held, stranger)
    with pytest.raises(LeaseLost):
        check_token(held._replace(lease=None), "t2")


def test_messages_are_handled_by_priority_then_kind_then_age_then_id() -> None:
    in_order = [
        ("P0", "notification", "2026-03-13T14:30:00Z", "m9"),
        ("P1", "review_request", "2026-03-13T14:29:00Z", "m8"),
        ("P1", "task_request", "2026-03-13T14:30:00Z", "m1"),
        ("P1", "task_request", "2026-03-13T14:30:00Z", "m2"),
        ("P1", "handoff", "2026-03-13T14:00:00Z", "m0"),
        ("P1", "question", "2026-03-13T14:01:00Z", "m0"),
        ("P3", "task_request", "2020-01-01T00:00:00Z", "m0"),
    ]

    for start in range(len(in_order)):
        turned = [*in_order[start:], *in_order[:start]]
        assert sorted(turned, key=lambda one: order_key(*one)) == in_order


def test_only_requests_for_work_and_review_go_first() -> None:
    first = {kind for kind in Kind if order_key("P2", kind, "", "") < order_key("P2", "notification", "", "")}

    assert first == {Kind.TASK_REQUEST, Kind.REVIEW_REQUEST}


def test_the_order_does_not_depend_on_where_it_starts() -> None:
    keys = [order_key(p, k, t, "m") for p in ("P0", "P2") for k in ("task_request", "question") for t in ("1", "2")][:5]

    assert {tuple(sorted(order)) for order in permutations(keys)} == {tuple(sorted(keys))}
