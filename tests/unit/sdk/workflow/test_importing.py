"""The functions that a workflow names are imported and checked before anything runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.domain.errors.workflow import WorkflowInvalid
from parley.domain.workflow.plan import HandlerRef
from parley.sdk.workflow.importing import Function, load_functions
from parley.wire.files.workflow import read_workflow
from tests.unit.sdk.workflow.stage import forgetting

TEXT = """\
version: "1.0"
intent: {title: T}
agents:
  ann:
    on_message:
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with forgetting():
        yield


def loaded(folder: Path, *handlers: str, module: str = "", more: str = "") -> dict[HandlerRef, Function]:
    rules = "".join(f"      - {{handler: {one!r}}}\n" for one in handlers)
    return load_functions(read_workflow(TEXT + rules + more, "w.yaml"), str(folder), module)


def refused(folder: Path, *handlers: str, module: str = "", more: str = "") -> list[str]:
    with pytest.raises(WorkflowInvalid) as caught:
        loaded(folder, *handlers, module=module, more=more)
    flaws: Any = caught.value.facts["flaws"]
    return [f"{one['line']}: {one['key']}: {one['detail']}" for one in flaws]


def wrote(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def called(function: Function, argument: object, agent: object = "agent") -> Any:
    result = function.of(agent)(argument)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def test_a_bare_name_is_a_function_of_the_file_beside(tmp_path: Path) -> None:
    wrote(tmp_path, "handlers.py", "def log(message):\n    return [message]\n")

    function = loaded(tmp_path, "log")[HandlerRef("", "log")]

    assert (function.name, called(function, 1)) == ("log", [1])


def test_files_of_the_same_name_in_two_folders_are_two_modules(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        wrote(tmp_path / name, "handlers.py", f"def log(message):\n    return {name!r}\n")

    functions = [loaded(tmp_path / name, "log")[HandlerRef("", "log")] for name in ("one", "two")]

    assert [called(one, None) for one in functions] == ["one", "two"]


@pytest.mark.parametrize("named", ["in the file", "by the caller"])
def test_a_bare_name_is_looked_up_in_the_module_that_is_named(tmp_path: Path, named: str) -> None:
    wrote(tmp_path, "wf_tools_a.py", "def log(message):\n    return 'tools'\n")
    wrote(tmp_path, "handlers.py", "raise AssertionError\n")

    if named == "in the file":
        functions = loaded(tmp_path, "log", more="handlers: wf_tools_a\n")
    else:
        functions = loaded(tmp_path, "log", more="handlers: nowhere\n", module="wf_tools_a")

    assert called(functions[HandlerRef("", "log")], None) == "tools"


def test_a_module_beside_the_file_is_found_and_may_import_others(tmp_path: Path) -> None:
    wrote(tmp_path, "wf_tools_b.py", "from wf_other_b import VALUE\ndef log(message):\n    return VALUE\n")
    wrote(tmp_path, "wf_other_b.py", "VALUE = 7\n")

    functions = loaded(tmp_path, "wf_tools_b:log", "json:dumps")

    assert called(functions[HandlerRef("wf_tools_b", "log")], None) == 7
    assert called(functions[HandlerRef("json", "dumps")], {}) == "{}"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("def log(message): return message", 1),
        ("async def log(message): return message", 1),
        ("def log(message, agent): return message, agent", (1, "agent")),
        ("async def log(message, agent): return message, agent", (1, "agent")),
        ("def log(message, agent=None): return message, agent", (1, "agent")),
        ("def log(message, verbose=False): return message, verbose", (1, False)),
        ("def log(message, *, verbose=False): return message, verbose", (1, False)),
        ("def log(*all): return all", (1,)),
        ("class log:\n    def __init__(self, message): self.m = message\n    def __eq__(self, o): return o == 1", 1),
        ("class C:\n    async def __call__(self, message, agent): return agent\nlog = C()", "agent"),
        ("import functools\ndef f(x, message): return x, message\nlog = functools.partial(f, 0)", (0, 1)),
    ],
)
def test_a_function_takes_what_arrives_and_the_agent_if_it_wants_it(tmp_path: Path, text: str, result: object) -> None:
    wrote(tmp_path, "handlers.py", text + "\n")

    assert called(loaded(tmp_path, "log")[HandlerRef("", "log")], 1) == result


@pytest.mark.parametrize(
    "parameters", ["", "a, b, c", "message, agent, more", "*, message", "message, *, more", "**message"]
)
def test_a_function_that_cannot_be_called_like_this_is_refused(tmp_path: Path, parameters: str) -> None:
    wrote(tmp_path, "handlers.py", f"def log({parameters}): ...\n")

    step = "  bob: {handler: log}\nworkflow: {a: {assign: bob}}\n"
    assert refused(tmp_path, "log", more=step) == [
        "6: agents.ann.on_message[0].handler: log has to take (message) or (message, agent)",
        "7: agents.bob.handler: log has to take (step) or (step, agent)",
    ]


def test_everything_that_cannot_be_found_is_named_with_its_line(tmp_path: Path) -> None:
    wrote(tmp_path, "handlers.py", "LIMIT = 3\ndef log_progress(message): ...\n")

    assert refused(tmp_path, "log_progres", "LIMIT", "wf_nowhere:f", "json.nowhere:f", "json:loud") == [
        "6: agents.ann.on_message[0].handler: handlers.py has no function log_progres (did you mean log_progress?)",
        "7: agents.ann.on_message[1].handler: LIMIT is int, not a function",
        "8: agents.ann.on_message[2].handler: no module wf_nowhere beside the file or installed",
        "9: agents.ann.on_message[3].handler: no module json.nowhere beside the file or installed",
        "10: agents.ann.on_message[4].handler: json has no function loud (did you mean load?)",
    ]


def test_a_folder_without_handlers_is_told_where_they_are_looked_for(tmp_path: Path) -> None:
    said = "no handlers.py beside the file, and no module is named (handlers: MODULE)"

    assert refused(tmp_path, "log") == [f"6: agents.ann.on_message[0].handler: {said}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "SyntaxError: invalid syntax (handlers.py, line 1)"),
        ("\n1 / 0\n", "ZeroDivisionError: division by zero (handlers.py, line 2)"),
        ("import wf_nowhere\n", "ModuleNotFoundError: No module named 'wf_nowhere' (handlers.py, line 1)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (handlers.py, line 2)"),
        ("raise ValueError('two\\nlines')\n", "ValueError: two (handlers.py, line 1)"),
        ("raise ValueError\n", "ValueError (handlers.py, line 1)"),
    ],
)
@pytest.mark.parametrize("module", ["", "handlers"])
def test_a_module_that_breaks_while_it_is_imported_says_where_once(
    tmp_path: Path, text: str, said: str, module: str
) -> None:
    wrote(tmp_path, "handlers.py", text)

    name = module or "handlers.py"
    assert refused(tmp_path, "f", "g", "wf_nowhere:f", module=module) == [
        f"6: agents.ann.on_message[0].handler: {name} cannot be imported: {said}",
        "8: agents.ann.on_message[2].handler: no module wf_nowhere beside the file or installed",
    ]


def test_a_module_that_is_not_there_is_told_wherever_it_is_named(tmp_path: Path) -> None:
    said = refused(tmp_path, "wf_nowhere:f", "wf_nowhere:g", "bare", "bare_too")

    assert [one.partition(":")[0] for one in said] == ["6", "7", "8"]
    assert "handlers.py" in said[2]


def test_a_module_that_another_one_of_its_name_hides_is_refused(tmp_path: Path) -> None:
    wrote(tmp_path, "json.py", "def f(message): ...\n")

    (said,) = refused(tmp_path, "json:f")

    assert "a module json is imported from elsewhere" in said


def test_the_folder_stays_on_the_path_once(tmp_path: Path) -> None:
    wrote(tmp_path, "handlers.py", "def f(message): ...\n")

    loaded(tmp_path, "f")
    loaded(tmp_path, "f")

    assert sys.path.count(str(tmp_path)) == 1
    assert sys.path[0] == str(tmp_path)
