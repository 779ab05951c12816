"""Commits that end late, on three nodes: no cursor ever steps over one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fault.postgres.crowd import NodesCrowd, short, told
from tests.fault.postgres.nodes import several, surprises
from tests.fault.team.history import check
from tests.postgres.cluster import Cluster

pytestmark = [
    pytest.mark.fault,
    pytest.mark.slow,
    # The sockets of this crowd are torn at any moment; what they leave behind is not what is tested.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NODES, WRITERS, READERS, STREAMS = 3, 16, 6, 6
# Between the last statement of a transaction and its COMMIT, for every fifth message: up to 50 ms.
_DELAY = (
    """CREATE FUNCTION delay_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF random() < 0.2 THEN PERFORM pg_sleep(random() * 0.05); END IF;
        RETURN NULL;
    END $$""",
    """CREATE CONSTRAINT TRIGGER delayed AFTER INSERT ON post DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION delay_commit()""",
)


def delayed(folder: Path, cluster: Cluster, dsn: str, wanted: int, *, mutant: str = "") -> NodesCrowd:
    """What a crowd does and sees until so much is acknowledged, while commits take their time."""
    with several(folder, dsn, NODES, mutant) as nodes:
        for statement in _DELAY:
            cluster.ask(statement, database=dsn.rpartition("/")[2])
        crowd = NodesCrowd([node.door for node in nodes], 1)
        crowd.patience = 1.0 if mutant else crowd.patience

        async def play() -> None:
            await crowd.open_channel()
            await crowd.play(WRITERS, READERS, STREAMS, crowd.goes_on(wanted, seconds=1_000))

        asyncio.run(play())
        crowd.surprises = surprises(nodes)
    return crowd


def test_no_cursor_skips_a_commit_that_ends_late(
    tmp_path: Path, durable_cluster: Cluster, dsn: str, full: bool
) -> None:
    crowd = delayed(tmp_path, durable_cluster, dsn, 10_000 if full else 400)

    print(told(crowd))
    assert check(crowd.history) + short(crowd.history) == []
    assert crowd.refusals + crowd.surprises == []
    assert {one.door for one in crowd.acknowledged} == set(crowd.doors)
    assert all(len(stream.seen) > 50 for stream in crowd.history.streams)


def test_positions_from_a_plain_sequence_are_found_out(tmp_path: Path, durable_cluster: Cluster, dsn: str) -> None:
    crowd = delayed(tmp_path, durable_cluster, dsn, 500, mutant="plain_sequence")

    found = check(crowd.history)
    print(told(crowd), f"; {len(found)} rules broken")
    assert {line.split(":")[0] for line in found} & {"I6", "I7"}
