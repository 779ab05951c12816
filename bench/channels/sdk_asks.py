"""`ask()` of the unmodified OpenIntent SDK, answered by an agent on another client: against the same on its own server.

`python -m bench.channels.sdk_asks URL CHANNEL HOW` is that agent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from openintent import OpenIntentClient

from bench.channels.processes import AGENT, KEY, Server, parley_up, reference
from bench.figures import Figure, Goal
from bench.measure import Sample
from bench.workspace import Bench

_GOAL = Goal("<", 60.0, "ms")
_ANSWERER = "answerer"
_POLL_SECONDS = 0.01


def run(bench: Bench) -> list[Figure]:
    home = f"{bench.folder}/sdk-asks"
    os.mkdir(home)
    mine, peers = list[float](), list[float]()
    with (
        parley_up(f"{home}/data") as ours,
        reference(home) as theirs,
        asking(ours, "stream") as ask,
        # The reference has no stream that its SDK can follow: an agent has to poll there.
        asking(theirs, "poll") as ask_theirs,
    ):
        for _ in range(bench.repeat(25)):
            mine.append(ask())
            peers.append(ask_theirs())
    figure = Figure("sdk_asks", "ask() of the SDK", "ms", Sample(tuple(mine)), Sample(tuple(peers)), _GOAL)
    return [figure]


@contextmanager
def asking(server: Server, how: str) -> Iterator[_Asker]:
    channel, url = server.channel("bench"), f"http://127.0.0.1:{server.port}"
    agent = subprocess.Popen([sys.executable, "-m", "bench.channels.sdk_asks", url, channel, how])
    try:
        with OpenIntentClient(base_url=url, agent_id=AGENT, api_key=KEY) as client:
            asker = _Asker(client, channel)
            time.sleep(1.5)  # until the agent listens
            asker()
            yield asker
    finally:
        agent.terminate()
        agent.wait()


class _Asker:
    def __init__(self, client: OpenIntentClient, channel: str) -> None:
        self._client = client
        self._channel = channel

    def __call__(self) -> float:
        """The seconds that one question and its answer took."""
        began = time.perf_counter()
        self._client.ask(self._channel, AGENT, _ANSWERER, {"text": "which one?"}, timeout=20)
        return time.perf_counter() - began


def _answer(url: str, channel: str, how: str) -> None:
    with OpenIntentClient(base_url=url, agent_id=_ANSWERER, api_key=KEY) as client:
        for message_id in _followed(client) if how == "stream" else _polled(client, channel):
            client.reply_to(channel, message_id, _ANSWERER, {"text": "this one"})


def _followed(client: OpenIntentClient) -> Iterator[str]:
    for event in client.subscribe_agent():
        if event.data.get("message_type") == "request":
            yield event.data["id"]


def _polled(client: OpenIntentClient, channel: str) -> Iterator[str]:
    last = None
    while True:
        for message in client.list_messages(channel, since=last, to=_ANSWERER):
            last = message["id"]
            if message["message_type"] == "request":
                yield last
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    _answer(*sys.argv[1:4])
