"""A database that stops, crashes or hangs: everybody is told so soon and cleanly, and all goes on when it is back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.e2e.node_group import PATIENCE, Answer, Group, Stream, Voice, a_group, until
from tests.postgres.cluster import Cluster, a_cluster

pytestmark = pytest.mark.slow
A, B = range(2)
# It should be three seconds; a busy machine may need some more. Who waited for the database would wait for ever.
SOON = 20.0


@contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    cluster.stop("fast")
    try:
        yield
    finally:
        cluster.start()


@contextmanager
def crashed(cluster: Cluster) -> Iterator[None]:
    cluster.stop("immediate")
    try:
        yield
    finally:
        cluster.start()


@contextmanager
def hanging(cluster: Cluster) -> Iterator[None]:
    """Connections stay, and can even be made; nobody answers."""
    parent = int((cluster.data / "postmaster.pid").read_text().split("\n", 1)[0])
    os.kill(parent, signal.SIGSTOP)
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True)
    family = [*map(int, listed.stdout.split()), parent]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in family:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with a_cluster(fsync="on") as cluster, a_group(cluster, tmp_path_factory.mktemp("group"), 2) as group:
        yield group


def timed(ask: Callable[[], Answer]) -> tuple[float, Answer]:
    began = time.monotonic()
    answer = ask()
    return time.monotonic() - began, answer


def waiting(group: Group, channel: str, pool: ThreadPoolExecutor) -> tuple[Future[Answer], Future[Answer]]:
    """Somebody who waits for news, and somebody who waits for an answer."""
    polls = pool.submit(group.voice(A, "bob").get, f"/channels/{channel}/messages?wait=60&since=1")
    asks = {"payload": {"text": "Anybody?"}, "to": "bob", "timeout": 60, "wait_for_responders": True}
    asked = pool.submit(group.voice(A, "alice").post, f"/channels/{channel}/ask", asks)
    until(lambda: len(group.voice(B, "bob").texts(channel)) == 1, "the channel is there")
    assert not polls.done()
    assert not asked.done()
    return polls, asked


@pytest.mark.parametrize("lost", [stopped, crashed, hanging])
def test_who_asks_without_a_database_is_told_so_soon_and_everything_goes_on_afterwards(
    servers: Group, lost: Callable[[Cluster], AbstractContextManager[None]], capsys: pytest.CaptureFixture[str]
) -> None:
    # Given servers with somebody who follows, somebody who waits for news and somebody who waits for an answer
    group = servers.in_new_tenant()
    _, channel = group.voice(A, "alice").place()
    _, question = group.voice(A, "alice").place()
    path = f"/subscribe/channels/{channel}"
    stream = Stream(group.voice(B, "bob"), path)
    group.voice(A, "alice").say(channel, "before")
    assert stream.texts(1) == ["before"]
    with ThreadPoolExecutor(12) as pool:
        polls, asked = waiting(group, question, pool)

        # When the database is gone
        with lost(group.cluster):
            questions = [ask for node in (A, B) for ask in everything(group.voice(node, "alice"), channel)]
            answers = list(pool.map(timed, questions))
            alive = [timed(lambda node=node: group.voice(node).get("/healthz")) for node in (A, B)]  # type: ignore[misc]

            # Then everybody is answered, soon and in the same way
            slowest = max(seconds for seconds, _ in answers)
            with capsys.disabled():
                print(f" [503 after at most {slowest:.1f} s]", end="")
            assert [(answer.status, answer.headers["Retry-After"]) for _, answer in answers] == [(503, "1")] * len(
                answers
            )
            assert [answer.status for _, answer in alive] == [200, 200]
            assert slowest < SOON

            # And who followed or waited comes to a proper end
            assert stream.until_its_end() == []
            assert [polls.result(PATIENCE).status, asked.result(PATIENCE).status] == [503, 503]
            assert polls.result().headers["Retry-After"] == asked.result().headers["Retry-After"] == "1"

    # And once it is back, all goes on by itself, where it was
    for node in (A, B):
        until(lambda node=node: group.voice(node).get("/readyz").status == 200, "ready again")  # type: ignore[misc]
    resumed = Stream(group.voice(A, "bob"), path, after=stream.last)
    group.voice(B, "alice").say(channel, "after")
    kept = group.voice(A, "bob").texts(channel)
    assert (kept[0], kept[-1]) == ("before", "after")
    assert resumed.texts(len(kept) - 1) == kept[1:]
    stream.close()
    resumed.close()


def everything(voice: Voice, channel: str) -> list[Callable[[], Answer]]:
    """Reads, writes and streams."""
    return [
        lambda: voice.get(f"/channels/{channel}/messages"),
        lambda: voice.post(f"/channels/{channel}/messages", {"payload": {"text": "lost"}}),
        lambda: voice.post("/intents", {"title": "lost"}),
        lambda: voice.get(f"/subscribe/channels/{channel}"),
        lambda: voice.get("/readyz"),
    ]


def test_a_database_that_crashes_and_is_back_at_once_costs_no_message(servers: Group) -> None:
    group = servers.in_new_tenant()
    _, channel = group.voice(A, "alice").place()
    stream = Stream(group.voice(A, "bob"), f"/subscribe/channels/{channel}")
    group.voice(B, "alice").say(channel, "before")
    assert stream.texts(1) == ["before"]

    group.cluster.restart("immediate")
    for node in (A, B):
        until(lambda node=node: group.voice(node).get("/readyz").status == 200, "ready again")  # type: ignore[misc]
    group.voice(B, "alice").say(channel, "after")

    # A slow restart may have ended it: then it goes on from where it was.
    event = stream.next()
    stream.close()
    if event is None:
        stream = Stream(group.voice(A, "bob"), f"/subscribe/channels/{channel}", after=stream.last)
        event = stream.next()
        stream.close()
    assert event is not None
    assert event.text == "after"
