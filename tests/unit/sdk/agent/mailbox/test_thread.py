"""An agent's mailbox with a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from parley import wiring
from parley.domain.errors.errors import Invalid, Unavailable, UnknownAgent, UnknownProject
from parley.sdk.agent.mailbox.thread import MailboxProject, MailboxThread, project_at
from tests.rigs.team import in_loop


@pytest.fixture
def project(tmp_path: Path) -> MailboxProject:
    wiring.create_project(str(tmp_path), "demo", ("codex", "claude", "gemini"))
    return MailboxProject(str(tmp_path), "demo")


def test_an_address_is_a_project_or_its_folder(
    project: MailboxProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_HOME", project.home)
    monkeypatch.chdir(tmp_path / "projects")

    assert project_at("mailbox:demo") == project
    assert project_at("mailbox:") == project
    assert project_at(f"{project.home}/projects/demo/") == project
    assert project_at("./demo") == project


@pytest.mark.parametrize("address", ["/", ".", "./nothing"])
def test_a_folder_that_is_no_project_is_refused(
    project: MailboxProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path / "projects")

    with pytest.raises(Invalid, match="no project's folder"):
        project_at(address)


@in_loop
async def test_who_has_no_mailbox_is_told_so(project: MailboxProject) -> None:
    for where, agent, error in (
        (project, "nobody", UnknownAgent),
        (project._replace(name="x"), "codex", UnknownProject),
    ):
        thread = MailboxThread(where, agent)
        with pytest.raises(error):
            await thread.open()
        thread.close()


@in_loop
async def test_everything_happens_in_one_thread(project: MailboxProject) -> None:
    thread = MailboxThread(project, "codex")
    await thread.open()

    threads = await asyncio.gather(*[thread.run(lambda mailbox: threading.get_ident()) for _ in range(5)])
    thread.close()

    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


@in_loop
async def test_what_was_begun_is_not_undone_when_nobody_waits_any_more(project: MailboxProject) -> None:
    begun, go_on, done = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()
    thread = MailboxThread(project, "codex")
    await thread.open()

    def work(mailbox: object) -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait()
        done.append(mailbox)

    waiting = asyncio.ensure_future(thread.run(work))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    thread.close()

    assert len(done) == 1


@in_loop
async def test_it_knows_the_other_agents_and_notices_what_arrives(project: MailboxProject, tmp_path: Path) -> None:
    codex, claude = MailboxThread(project, "codex"), MailboxThread(project, "claude")
    await codex.open()
    await claude.open()
    os.utime(tmp_path / "projects" / "demo" / "agents" / "codex" / "inbox", ns=(0, 1))  # not in this tick of the clock
    before = codex.inbox_mark()

    await claude.run(lambda mailbox: mailbox.send("codex", "notification", "s", "b"))

    assert codex.other_agents() == ["claude", "gemini"]
    assert codex.inbox_mark() != before
    codex.close()
    claude.close()


@in_loop
async def test_a_closed_mailbox_thread_does_nothing(project: MailboxProject) -> None:
    thread = MailboxThread(project, "codex")
    await thread.open()
    thread.close()

    with pytest.raises(Unavailable):
        await thread.run(lambda mailbox: mailbox.inbox())
