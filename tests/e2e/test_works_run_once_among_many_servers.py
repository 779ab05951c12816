"""What a server does beside answering, one of many does for all of them; and when that one is gone, another does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.domain.store.node import LEASE_SECONDS
from parley.wire.rows import entry_from_row
from tests.e2e.node_group import Group, a_group, until
from tests.postgres.cluster import Cluster, a_cluster
from tests.rigs.webhook_receiver import a_receiver

pytestmark = pytest.mark.slow
A, B, C = range(3)
WORKS = ("checkpoints", "retention", "sweep", "webhooks")
ANY_TARGET = {"PARLEY_WEBHOOK_TARGETS": "any"}
# A lease that nobody gives up ends in an hour: later than this test.
_LONG_LEASES = (
    """CREATE FUNCTION lengthen() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.until := NEW.until + interval '1 hour'; RETURN NEW; END $$""",
    "CREATE TRIGGER longer BEFORE INSERT OR UPDATE ON lease FOR EACH ROW EXECUTE FUNCTION lengthen()",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with a_cluster(fsync="on") as cluster:
        yield cluster


def test_every_item_is_pushed_once_wherever_it_was_said(cluster: Cluster, tmp_path: Path) -> None:
    with a_group(cluster, tmp_path, 3, environment=ANY_TARGET) as servers, a_receiver() as receiver:
        # Given a subscription in a tenant that began after the servers did
        group = servers.in_new_tenant()
        _, channel = group.voice(A, "alice").place()
        group.voice(B, "bob").done("POST", "/subscriptions", {"webhook_url": receiver.url, "subscriber_id": "bob"})

        # When much is said on every server
        said = [f"{number}" for number in range(30)]
        for number, text in enumerate(said):
            group.voice(number % 3, "alice").say(channel, text, "bob")

        # Then each of it comes once, in its order
        until(lambda: len(receiver.texts) >= 30, "thirty webhooks")
        group.voice(C, "alice").say(channel, "last", "bob")
        until(lambda: "last" in receiver.texts, "the last webhook")
        assert receiver.texts == [*said, "last"]


def test_when_the_server_that_does_the_works_is_killed_another_takes_them_over(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_group(cluster, tmp_path, 2, environment=ANY_TARGET) as group, a_receiver() as receiver:
        _, channel = group.voice(A, "alice").place()
        group.voice(B, "bob").done("POST", "/subscriptions", {"webhook_url": receiver.url, "subscriber_id": "bob"})
        group.voice(A, "alice").say(channel, "before", "bob")
        until(lambda: receiver.texts == ["before"], "the first webhook")
        leader, other = led_by(group)

        group.nodes[leader].kill()
        group.voice(other, "alice").say(channel, "after", "bob")
        took = until(lambda: all(group.leading(work) == "ab"[other] for work in WORKS), "another takes over")

        until(lambda: "after" in receiver.texts, "the webhook of the other server")
        with capsys.disabled():
            print(f" [taken over {took:.1f} s after a kill]", end="")
        assert receiver.texts[-1] == "after"


def test_when_the_server_that_does_the_works_is_stopped_another_need_not_wait_for_the_end_of_its_lease(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_group(cluster, tmp_path, 2, "--linger", "600") as group:
        leader, other = led_by(group)
        process = group.nodes[leader].process
        assert process is not None
        for statement in _LONG_LEASES:
            cluster.ask(statement, database=group.dsn.rpartition("/")[2])
        until(lambda: all(lasts(group, work) > 10 * LEASE_SECONDS for work in WORKS), "leases that last")

        # When it is asked to stop, it gives them up though it still answers
        process.terminate()
        took = until(lambda: all(group.leading(work) == "ab"[other] for work in WORKS), "another takes over")

        with capsys.disabled():
            print(f" [taken over {took:.1f} s after a stop]", end="")
        assert group.voice(leader).get("/healthz").status == 200
        assert group.voice(leader).get("/readyz").status == 503


def test_what_runs_out_runs_out_once_and_every_log_is_signed_by_one(cluster: Cluster, tmp_path: Path) -> None:
    with a_group(cluster, tmp_path, 3) as servers:
        group = servers.in_new_tenant()
        intent, _ = group.voice(A, "alice").place()
        channels = [
            group.voice(number % 3, "alice").done(
                "POST", f"/intents/{intent}/channels", {"name": f"short-{number}", "options": {"ttl_seconds": 1}}
            )["id"]
            for number in range(6)
        ]
        for number in range(6):
            group.voice(number % 3).new_key(kind="human", user_id=f"person-{number}")

        # Every channel is closed, by one of the servers, once
        database = group.dsn.rpartition("/")[2]

        def closed() -> list[str]:
            query = "SELECT document FROM entry"
            entries = [entry_from_row(row[0]) for row in cluster.ask(query, database=database)]
            return [one.message_id for one in entries if one.action == "channel_closed"]

        until(lambda: len(closed()) >= 6, "six channels run out")
        until(lambda: len(group.voice(B).done("GET", "/audit/checkpoints")["checkpoints"]) >= 1, "a checkpoint")
        assert sorted(closed()) == sorted(channels)
        found = group.voice(C).done("GET", "/audit/checkpoints")["checkpoints"]
        assert len({one["public_key"] for one in found}) == 1


def lasts(group: Group, work: str) -> float:
    """How many seconds are left of a lease."""
    query = "SELECT extract(epoch FROM until - clock_timestamp())::float FROM lease WHERE work = $1"
    found = group.cluster.ask(query, work, database=group.dsn.rpartition("/")[2])
    return float(found[0][0]) if found else 0.0


def led_by(group: Group) -> tuple[int, int]:
    """Who pushes webhooks, and who does not."""
    until(lambda: all(group.leading(work) for work in WORKS), "somebody leads")
    leader = "ab".index(group.leading("webhooks"))
    return leader, 1 - leader
