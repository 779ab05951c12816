"""The store without a server: commits the rows of plain and governed messages, prepared beforehand, in groups.

`python -m bench.governance.rows DATA PLAIN GOVERNED` takes jobs as lines of JSON, like the load. DATA is the data
directory of a stopped server with two agents and their policy; PLAIN and GOVERNED are two of its channels.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator

import msgspec
import uvloop

from bench.channels.load import Job, Result
from bench.channels.posts import TEXT
from bench.channels.processes import AGENT
from parley import settings, wiring
from parley.app.team.channels import posting
from parley.app.team.team import Team
from parley.domain.directory.callers import DEFAULT_TENANT, Caller, KeyKind
from parley.domain.store.changes import TeamChanges
from parley.wire.api.channels import MessageIn, draft_of

ANSWERER = "answerer"
_METADATA = {"plain": None, "governed": {"exchange_type": "information_query"}}
_CALLER = Caller(DEFAULT_TENANT, AGENT, KeyKind.SERVICE, "key_bench")


async def main(data: str, plain: str, governed: str) -> None:
    channels = {"plain": plain, "governed": governed}
    async with wiring.open_team(settings.load({}, {"HOME": data}), data) as opened:
        while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
            job = msgspec.json.decode(line)
            result = await _commit(opened.team, channels[job["kind"]], job)
            print(msgspec.json.encode(result).decode(), flush=True)


async def _commit(team: Team, channel_id: str, job: Job) -> Result:
    """Commit many messages, a fixed number of them at a time."""
    changes = iter(await _prepare(team, channel_id, job["kind"], job["messages"]))
    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*[_keep_committing(team, changes) for _ in range(job["connections"])])
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    return {"rate": job["messages"] / seconds, "cpu": cpu / job["messages"]}


async def _prepare(team: Team, channel_id: str, kind: str, messages: int) -> list[TeamChanges]:
    """The changes of the messages, by the templates that the first ones leave."""
    draft = draft_of(MessageIn({"text": TEXT}, to=ANSWERER, metadata=_METADATA[kind]), team.limits)
    for _ in range(3):
        await posting.post(team, _CALLER, channel_id, draft)
    prepared = [posting.remembered_changes(team, _CALLER, channel_id, draft) for _ in range(messages)]
    commits = [changes for changes in prepared if changes is not None]
    if len(commits) < messages or any(bool(changes.audits) != (kind == "governed") for changes in commits):
        raise RuntimeError(f"a {kind} message does not write what is measured")
    return commits


async def _keep_committing(team: Team, commits: Iterator[TeamChanges]) -> None:
    for changes in commits:
        await team.store.commit(changes)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
