"""`parley.Workflow`: a file is loaded, checked, drawn and run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.domain.errors.errors import Invalid, NotFound, NotText, Unavailable
from parley.domain.errors.workflow import WorkflowInvalid
from parley.domain.workflow.plan import WorkflowOutcome
from parley.sdk.workflow.result import WorkflowEvent
from parley.sdk.workflow.workflow import Workflow
from tests.rigs.process import ADMIN_KEY, ServerProcess, running
from tests.rigs.team import in_loop
from tests.unit.sdk.workflow.stage import forgetting

TEXT = """\
version: "1.0"
intent: {title: Report}
agents: {ann: {handler: work}}
workflow: {a: {assign: ann}, b: {assign: ann, depends_on: [a]}}
"""
WORK = "def work(step):\n    return {'by': step.agent.name}\n"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with forgetting():
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running(tmp_path_factory.mktemp("workflow") / "data") as process:
        yield process


def a_file(folder: Path, text: str = TEXT, work: str = WORK) -> Path:
    (folder / "handlers.py").write_text(work)
    path = folder / "report.yaml"
    path.write_text(text)
    return path


def test_a_file_is_loaded_without_importing_its_handlers(tmp_path: Path) -> None:
    workflow = Workflow.load(a_file(tmp_path, work="raise AssertionError\n"))

    assert (workflow.title, [step.name for step in workflow.plan.steps]) == ("Report", ["a", "b"])
    with pytest.raises(WorkflowInvalid, match="AssertionError"):
        workflow.check()


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (None, NotFound, "No such file"),
        (b"a\n\xff", NotText, ":2: is not UTF-8 text"),
        (b"version: 2\n", WorkflowInvalid, "report.yaml:1: version: must be"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    tmp_path: Path, content: bytes | None, error: type[Exception], said: str
) -> None:
    path = tmp_path / "report.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(error, match=said):
        Workflow.load(path)


def test_it_is_drawn_with_the_states_of_its_steps(tmp_path: Path) -> None:
    workflow = Workflow.load(a_file(tmp_path))

    assert "class step1 completed" in workflow.diagram({"a": "completed", "elsewhere": "failed"})
    assert "class" not in workflow.diagram()


def test_it_runs_to_its_end_and_tells_what_happens(tmp_path: Path, server: ServerProcess) -> None:
    told: list[WorkflowEvent] = []

    result = Workflow.load(a_file(tmp_path)).run(server.url, ADMIN_KEY, on_event=told.append)

    assert result.or_raise().results == {"a": {"by": "ann"}, "b": {"by": "ann"}}
    assert [event.step for event in told if event.name == "step_completed"] == ["a", "b"]


def test_it_can_be_run_again(tmp_path: Path, server: ServerProcess) -> None:
    workflow = Workflow.load(a_file(tmp_path))

    results = [workflow.run(server.url, ADMIN_KEY) for _ in range(2)]

    assert [one.ok for one in results] == [True, True]
    assert results[0].intent_id != results[1].intent_id


def test_it_runs_in_any_thread(tmp_path: Path, server: ServerProcess) -> None:
    workflow, results = Workflow.load(a_file(tmp_path)), []
    thread = threading.Thread(target=lambda: results.append(workflow.run(server.url, ADMIN_KEY)))

    thread.start()
    thread.join(30)

    assert [one.ok for one in results] == [True]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(tmp_path: Path, server: ServerProcess, number: signal.Signals) -> None:
    waits = "import asyncio\nasync def work(step):\n    await asyncio.Event().wait()\n"

    def tell(event: WorkflowEvent) -> None:
        if event.name == "step_started":
            os.kill(os.getpid(), number)

    result = Workflow.load(a_file(tmp_path, work=waits)).run(server.url, ADMIN_KEY, on_event=tell)

    assert (result.outcome, result.steps["a"].status) == (WorkflowOutcome.INTERRUPTED, "cancelled")


def test_a_second_signal_ends_it_at_once(tmp_path: Path, server: ServerProcess) -> None:
    stubborn = (
        "import asyncio\nasync def work(step):\n    try:\n        await asyncio.Event().wait()\n"
        "    finally:\n        await asyncio.Event().wait()\n"
    )

    def tell(event: WorkflowEvent) -> None:
        if event.name in ("step_started", "stopping"):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Workflow.load(a_file(tmp_path, work=stubborn)).run(server.url, ADMIN_KEY, on_event=tell)


@pytest.mark.slow
def test_the_timeout_of_the_file_counts_unless_another_is_given(tmp_path: Path, server: ServerProcess) -> None:
    waits = "import asyncio\nasync def work(step):\n    await asyncio.Event().wait()\n"
    workflow = Workflow.load(a_file(tmp_path, TEXT + "timeout: 1s\n", waits))

    assert workflow.run(server.url, ADMIN_KEY).detail == "it took longer than 1 seconds"
    assert workflow.run(server.url, ADMIN_KEY, timeout=0.5).detail == "it took longer than 0.5 seconds"
    with pytest.raises(Invalid, match="above 0"):
        workflow.run(server.url, ADMIN_KEY, timeout=0)


def test_without_a_server_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no server answers"):
        Workflow.load(a_file(tmp_path)).run("http://127.0.0.1:1", "x")


@in_loop
async def test_it_runs_inside_a_loop_that_is_there(tmp_path: Path, server: ServerProcess) -> None:
    result = await Workflow.load(a_file(tmp_path)).run_async(server.url, ADMIN_KEY)

    assert result.ok


@in_loop
async def test_where_a_loop_runs_it_says_what_to_write_instead(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="run_async"):
        Workflow.load(a_file(tmp_path)).run("http://127.0.0.1:1", "x")
