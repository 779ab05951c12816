"""`parley.Workflow`: a workflow file that is checked, drawn and run."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING

from parley.domain.directory.intent import TaskStatus
from parley.domain.errors.errors import Invalid, NotFound, NotText
from parley.domain.limits import HARD_FILE_BYTES
from parley.domain.workflow.diagram import diagram
from parley.sdk.workflow.importing import load_functions
from parley.wire.files.workflow import read_workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parley.domain.workflow.plan import HandlerRef, WorkflowPlan
    from parley.sdk.client.client import AsyncClient
    from parley.sdk.workflow.importing import Function
    from parley.sdk.workflow.result import WorkflowEvent, WorkflowResult
    from parley.wire.files.workflow import WorkflowFile


def _ignore_event(_: WorkflowEvent) -> None:
    """Ignore an event."""


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Invalid("run() wants a thread without an event loop", hint="here, write: await workflow.run_async()")


class Workflow:
    """A workflow, as its file says it.

        workflow = parley.Workflow.load("report.yaml")
        result = workflow.run()
        if not result.ok:
            print(result.detail)

    Running it creates the intent and its channels, runs the agents of the file in this process, does the steps, and
    completes the intent, or abandons it when a step failed.
    """

    __module__ = "parley"

    def __init__(self, file: WorkflowFile, folder: str, handlers: str = "") -> None:
        self._file = file
        self._folder = folder
        self._handlers = handlers
        self._functions: dict[HandlerRef, Function] | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, handlers: str = "") -> Workflow:
        """Read a file. `WorkflowInvalid` names everything that is wrong with it, by line and key.

        `handlers` is the module in which functions without a module are looked up; else the one that the file names,
        else `handlers.py` beside it.
        """
        name = os.fspath(path)
        try:
            with open(name, "rb") as file:
                text = file.read(HARD_FILE_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise NotText(f"{name}:{line}: is not UTF-8 text") from None
        except OSError as error:
            raise NotFound(f"{name}: {error.strerror or error}") from None
        return cls.parse(text, name, os.path.dirname(os.path.abspath(name)), handlers=handlers)

    @classmethod
    def parse(cls, text: str, name: str = "workflow.yaml", folder: str = ".", *, handlers: str = "") -> Workflow:
        """A workflow from its text; `name` stands in errors, and handlers are looked for in `folder`."""
        return cls(read_workflow(text, name), os.path.abspath(folder), handlers)

    @property
    def plan(self) -> WorkflowPlan:
        """What the file says."""
        return self._file.plan

    @property
    def title(self) -> str:
        """What is to be reached."""
        return self.plan.intent.title

    def check(self) -> None:
        """Import every function that the file names. `WorkflowInvalid` says which cannot be used, and why."""
        self._load_functions()

    def diagram(self, states: Mapping[str, str] | None = None) -> str:
        """A Mermaid flowchart of it; with states of its steps ("completed", "running", ...) in colours."""
        names = {step.name for step in self.plan.steps}
        statuses = {name: TaskStatus(state) for name, state in (states or {}).items() if name in names}
        return diagram(self.plan, statuses)

    def run(
        self,
        url: str = "",
        key: str = "",
        *,
        timeout: float | None = None,
        on_event: Callable[[WorkflowEvent], None] = _ignore_event,
        resume: str = "",
    ) -> WorkflowResult:
        """Run it to its end, on the server at `url` (else PARLEY_URL) with a service key (else PARLEY_KEY).

        `resume` is the intent of a run whose process was killed: steps that are finished are not repeated, one that was
        running is run again. `WorkflowRunning` when another process runs it.

        `timeout`, in seconds, takes the place of the file's. `on_event` is told what happens, as it happens. In the
        main thread, Ctrl-C and SIGTERM end it in good order: what runs is cancelled, the intent is abandoned, and the
        outcome is "interrupted"; a second one ends it at once.
        """
        import uvloop

        _check_no_loop()
        self.check()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._run_until_signal(url, key, timeout, on_event, resume))

    async def run_async(
        self,
        url: str = "",
        key: str = "",
        *,
        timeout: float | None = None,
        on_event: Callable[[WorkflowEvent], None] = _ignore_event,
        stop: asyncio.Event | None = None,
        client: AsyncClient | None = None,
        resume: str = "",
    ) -> WorkflowResult:
        """`run` inside an event loop that is there already. Setting `stop` interrupts it.

        `client` is used as it is given, and left open.
        """
        from parley.sdk.client.client import AsyncClient
        from parley.sdk.workflow.running import Run
        from parley.wiring import monotonic

        if timeout is not None and timeout <= 0:
            raise Invalid(f"timeout is a number of seconds above 0, not {timeout!r}")
        functions = self._load_functions()
        own = client or AsyncClient(url, key=key)
        try:
            run = Run(self.plan, functions, own, on_event=on_event, monotonic=monotonic, resume=resume)
            return await run.run(stop or asyncio.Event(), timeout or self.plan.timeout)
        finally:
            if client is None:
                await own.close()

    async def _run_until_signal(
        self,
        url: str,
        key: str,
        limit: float | None,
        on_event: Callable[[WorkflowEvent], None],
        resume: str,
    ) -> WorkflowResult:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        run_task = asyncio.ensure_future(
            self.run_async(url, key, timeout=limit, on_event=on_event, stop=stop, resume=resume)
        )

        def on_signal() -> None:
            if stop.is_set():
                run_task.cancel()
            stop.set()

        numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
        for number in numbers:
            loop.add_signal_handler(number, on_signal)
        try:
            return await run_task
        except asyncio.CancelledError:
            if stop.is_set():
                raise KeyboardInterrupt from None
            raise
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _load_functions(self) -> dict[HandlerRef, Function]:
        if self._functions is None:
            self._functions = load_functions(self._file, self._folder, self._handlers)
        return self._functions
