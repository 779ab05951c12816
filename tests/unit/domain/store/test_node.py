from __future__ import annotations

import pytest

from parley.domain.store.node import LEASE_SECONDS, SILENT_SECONDS, Node, Replica, StoreReport

DATABASE = StoreReport("postgresql", connections=20, ours=10, most_connections=100, row_security=True)


@pytest.mark.parametrize(("seen", "silent"), [(0.0, False), (SILENT_SECONDS, False), (SILENT_SECONDS + 0.1, True)])
def test_a_node_is_silent_when_it_was_not_heard_of_for_too_long(seen: float, silent: bool) -> None:
    assert Node("node_1", seen=seen).silent is silent


def test_the_work_of_a_node_is_anothers_before_it_is_shown_as_silent() -> None:
    assert LEASE_SECONDS < SILENT_SECONDS


def test_a_store_that_knows_nothing_of_itself_tells_its_kind_alone_and_worries_nobody() -> None:
    report = StoreReport("sqlite")

    assert [field for field in report if field] == ["sqlite"]
    assert report.concerns() == ()


def test_a_silent_node_needs_a_person() -> None:
    report = DATABASE._replace(nodes=(Node("a"), Node("b", seen=42.4)))

    assert [(one.code, one.detail) for one in report.concerns()] == [
        ("node_silent", "b was last heard of 42 s ago"),
    ]


@pytest.mark.parametrize(
    ("standbys", "replicas", "missing"),
    [
        ("", (), False),
        ("s1", (), True),
        ("s1", (Replica("s1", "sync"),), False),
        ("ANY 1 (s1, s2)", (Replica("s1", "quorum"),), False),
        ("s1", (Replica("s2", "async"),), True),
        ("s1", (Replica("s1", "potential"),), True),
        # The role may not know more than that somebody follows.
        ("s1", (Replica("s1", ""),), False),
    ],
)
def test_a_standby_that_commits_wait_for_must_follow(
    standbys: str, replicas: tuple[Replica, ...], missing: bool
) -> None:
    concerns = DATABASE._replace(standbys=standbys, replicas=replicas).concerns()

    assert [one.code for one in concerns] == (["no_sync_standby"] if missing else [])


@pytest.mark.parametrize(
    ("taken", "pools", "code"),
    [
        (90, (), ""),
        (91, (), "connections_exhausted"),
        # Ten are others'; the nodes may open all of theirs, whether they have or not.
        (20, (40, 40), ""),
        (20, (40, 41), "pools_too_large"),
    ],
)
def test_connections_that_run_out_need_a_person_before_they_do(taken: int, pools: tuple[int, ...], code: str) -> None:
    nodes = tuple(Node(f"n{number}", pool=pool) for number, pool in enumerate(pools))

    concerns = DATABASE._replace(connections=taken, nodes=nodes).concerns()

    assert [one.code for one in concerns] == ([code] if code else [])


def test_a_silent_node_opens_no_connections() -> None:
    report = DATABASE._replace(nodes=(Node("a", pool=30), Node("b", pool=1000, seen=60.0)))

    assert report.wanted_connections == 40


def test_a_node_that_has_more_open_than_it_said_is_counted_by_what_it_has() -> None:
    assert DATABASE._replace(ours=15, nodes=(Node("a", pool=3),)).wanted_connections == 20


def test_a_database_whose_row_security_does_not_hold_needs_a_person_and_a_file_has_none() -> None:
    assert [one.code for one in DATABASE._replace(row_security=False).concerns()] == ["no_row_security"]
    assert StoreReport("sqlite").concerns() == ()


def test_a_name_that_two_servers_have_needs_a_person_while_one_of_them_is_heard_of() -> None:
    shared = Node("a", url="http://1", namesake="http://2")

    assert [(one.code, one.detail) for one in DATABASE._replace(nodes=(shared, Node("b"))).concerns()] == [
        ("name_shared", "two servers are called a: http://1 and http://2"),
    ]
    assert [one.code for one in DATABASE._replace(nodes=(shared._replace(seen=60.0),)).concerns()] == ["node_silent"]


def test_of_a_store_that_could_not_be_asked_nothing_else_is_said_but_how_its_nodes_are() -> None:
    report = StoreReport("postgresql", unreachable="it is gone", nodes=(Node("a", namesake="http://2"),))

    assert [one.code for one in report.concerns()] == ["database_unreachable", "name_shared"]
    assert report.concerns()[0].detail == "it is gone"


@pytest.mark.parametrize(("skew", "worries"), [(0.9, False), (1.1, True), (-1.1, True)])
def test_a_clock_that_is_off_needs_a_person(skew: float, worries: bool) -> None:
    concerns = DATABASE._replace(nodes=(Node("a", skew=skew),)).concerns()

    assert [one.code for one in concerns] == (["clock_skewed"] if worries else [])


@pytest.mark.parametrize(("step", "worries"), [(0.0, False), (3_600.0, True), (-3_600.0, True)])
def test_a_wall_clock_that_jumped_needs_a_person(step: float, worries: bool) -> None:
    concerns = DATABASE._replace(nodes=(Node("a", clock_step=step),)).concerns()

    assert [concern.code for concern in concerns] == (["clock_stepped"] if worries else [])
