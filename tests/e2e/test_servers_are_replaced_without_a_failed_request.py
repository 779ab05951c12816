"""Three servers behind a load balancer, stopped and started one after the other, while everybody goes on."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from parley import Client
from tests.e2e.node_group import PATIENCE, Group, Stream, Voice, a_group, spoken, until
from tests.postgres.cluster import a_cluster
from tests.rigs.balancer import Balancer, balanced
from tests.rigs.process import ADMIN_KEY

pytestmark = pytest.mark.slow
TALKERS = 4


class Crowd:
    """Whoever talks meanwhile. What was confirmed is kept, and everything that was not."""

    def __init__(self, port: int, channel: str, quiet: str) -> None:
        self._port = port
        self._channel = channel
        self._quiet = quiet
        self._over = threading.Event()
        self.confirmed: list[str] = []
        self.failed: list[str] = []
        self.polls = 0
        self.last_answers = 0
        self.followed: list[str] = []

    def talk(self, name: str, rest: float) -> None:
        """On one connection for as long as the server leaves it open, as a plain client does; now and then idle."""
        voice = Voice(self._port, name)
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        number = 0
        while not self._over.wait(rest):
            number += 1
            text = f"{name}-{number}"
            try:
                body = {"payload": {"text": text}}
                path = f"/channels/{self._channel}/messages"
                answer = spoken(connection, "POST", path, body, voice.headers())
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(f"{text}: {error!r}")
                connection.close()
                continue
            self.last_answers += answer.headers.get("Connection", "") == "close"
            if answer.status == 201:
                self.confirmed.append(text)
            else:
                self.failed.append(f"{text}: {answer.status} {answer.body[:300]!r}")
        connection.close()

    def talk_by_sdk(self, name: str) -> None:
        with Client(f"http://127.0.0.1:{self._port}", key=ADMIN_KEY, agent=name) as client:
            number = 0
            while not self._over.is_set():
                number += 1
                client.send_message(self._channel, payload={"text": f"{name}-{number}"})
                self.confirmed.append(f"{name}-{number}")

    def poll(self) -> None:
        """Wait, again and again, where nobody says anything before the end."""
        voice = Voice(self._port, "listener")
        while not self._over.is_set():
            try:
                answer = voice.get(f"/channels/{self._quiet}/messages?wait=30")
                self.polls += 1
                if answer.status != 200:
                    self.failed.append(f"poll: {answer.status} {answer.body[:300]!r}")
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(f"poll: {error!r}")

    def follow(self) -> None:
        """A stream that comes back whenever it ends; it ends, it does not break."""
        voice = Voice(self._port, "follower")
        after: int | None = 0
        while True:
            stream = Stream(voice, f"/subscribe/channels/{self._channel}", after)
            while (event := stream.next()) is not None:
                if event.text == "end":
                    stream.close()
                    return
                self.followed.append(event.text)
            after = stream.last
            stream.close()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        works: list[Callable[[], None]] = [partial(self.talk, f"plain{n}", 0.05 * (n % 2)) for n in range(TALKERS)]
        works += [lambda: self.talk_by_sdk("sdk"), self.poll]
        threads = [threading.Thread(target=self._tried, args=(work,)) for work in works]
        following = threading.Thread(target=self._tried, args=(self.follow,))
        for thread in (*threads, following):
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            boss = Voice(self._port, "boss")
            boss.say(self._quiet, "end")
            for thread in threads:
                thread.join()
            boss.say(self._channel, "end")
            following.join()

    def _tried(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  # whatever it is, it has failed
            self.failed.append(repr(error))


def test_servers_are_replaced_one_by_one_without_a_failed_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        a_cluster(fsync="on") as cluster,
        # Longer than it takes anybody here to notice, on a machine that does other things, too.
        a_group(cluster, tmp_path, 3, "--linger", "6") as group,
        balanced([node.port for node in group.nodes]) as (port, balancer),
    ):
        # Given a crowd that talks, waits and follows through the balancer
        _, channel = group.voice(0, "boss").place()
        group.voice(0, "boss").done("PATCH", f"/channels/{channel}", {"options": {"max_messages": 1_000_000}})
        crowd = Crowd(port, channel, group.voice(0, "boss").place()[1])
        until(lambda: len(balancer.ready) == 3, "three servers are ready")

        # When each server is stopped and started again
        with crowd.at_work():
            for node in group.nodes:
                _replace(group, balancer, crowd, node.port)

        # Then nobody has noticed, and everything that was confirmed is there, once
        with capsys.disabled():
            print(f" [{len(crowd.confirmed)} messages, {crowd.polls} polls, {len(crowd.failed)} failed]", end="")
        assert crowd.failed == []
        kept = _texts(group, channel)
        assert sorted(kept) == sorted([*crowd.confirmed, "end"])
        assert crowd.followed == [text for text in kept if text != "end"]
        assert crowd.last_answers > 0
        assert min(balancer.given.values()) > 0


def _replace(group: Group, balancer: Balancer, crowd: Crowd, port: int) -> None:
    (node,) = [one for one in group.nodes if one.port == port]
    before = len(crowd.confirmed)
    until(lambda: len(crowd.confirmed) >= before + 20, "the crowd talks")
    assert node.stop() == 0
    before = len(crowd.confirmed)
    until(lambda: len(crowd.confirmed) >= before + 20, "the crowd talks to the others")
    node.start()
    until(lambda: port in balancer.ready, "the server is ready again")


def _texts(group: Group, channel: str) -> list[str]:
    found: list[str] = []
    cursor = "0"
    while True:
        page = group.voice(0, "boss").done("GET", f"/channels/{channel}/messages?limit=1000&since={cursor}")
        if not page:
            return found
        found += [one["payload"]["text"] for one in page]
        cursor = page[-1]["id"]
