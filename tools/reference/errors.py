"""docs/reference/errors.md and exit-codes.md: the error tree, and every problem that the source can name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType

import parley
from parley.cli import exits
from parley.domain.errors import errors as common_errors
from parley.domain.errors import rules as governance_errors
from parley.domain.errors import team as team_errors
from parley.domain.errors import workflow as workflow_errors
from parley.domain.errors.errors import ParleyError
from parley.surfaces.entrance.refusals import status_of
from tools.reference.markdown import ROOT, table

# Where a problem is named in the code: the class, and the small functions that make one.
PROBLEM_MAKERS = frozenset({"Problem", "_problem", "_doubt", "_invalid", "report"})
# Errors of `domain.errors` that a server answers with too, and those of `domain.team_errors` that it never sends.
SERVED = frozenset(
    {
        "Invalid",
        "BadAgentName",
        "DuplicateKey",
        "TooDeep",
        "NotFound",
        "Conflict",
        "Stale",
        "Forbidden",
        "Unavailable",
        "DiskFull",
    }
)
LOCAL = frozenset({"UnsafeMode", "WebhookInvalid", "WebhookReplayed", "Gone", "Overspent"})
# In the order in which they import each other.
ERROR_MODULES = (common_errors, team_errors, governance_errors, workflow_errors)
FOUND = (
    "`validate`, `doctor`, a check, `watch` or `listen` found something wrong; "
    "`ask` was answered with an error; you said no; nobody read it"
)
EXITS_INTRO = """\
# Exit codes

Each code has one meaning, for every command except [`parley oacp`](../how-to/move-from-oacp-cli.md), which keeps those
of `oacp-cli`. An error is one line on standard error, `parley: CODE: what (hint)`; the codes are in
[errors.md](errors.md). With `--json` the line is a JSON object, see [json.md](json.md).
"""
ERRORS_INTRO = """\
# Errors

Every error has a stable code: on the command line (`parley: CODE: ...`), in JSON, in the reason file beside a dead
letter, in a server's answer, and as `error.code` in Python. The classes are in `parley.domain.errors.errors`,
`parley.domain.errors.team` (what only a server refuses), `parley.domain.errors.rules` (what the rules refuse) and
`parley.domain.errors.workflow`. How a server says them is in [http.md](http.md#refusals).

The classes in the column *catch* are those that `parley` exports, as in `except parley.NotFound`; import no others. An
error that is not exported itself is a kind of the one that stands there: catch that one, and tell them apart by
`error.code`.
"""
PROBLEMS_INTRO = """
## Problems and doubts

`invalid` lists everything that is wrong at once, as `problems` of code, field and detail. `parley validate` and the
`doubts` of a message use the same codes. An ellipsis stands for what varies.
"""


def exits_page() -> Iterator[str]:
    yield EXITS_INTRO
    rows = [
        (exits.OK, "-", "done, or nothing to do"),
        (exits.FOUND_PROBLEMS, "-", FOUND),
    ]
    rows += [(code, f"`{kind.code}`", meaning) for kind, code, meaning in exits.exit_codes()]
    rows += [
        (exits.NO_MESSAGE, "-", "`next` has no message to claim, or `watch --first` none to show"),
        (exits.INTERNAL, "`internal`", "a bug in Parley"),
        (exits.INTERRUPTED, "-", "interrupted from the keyboard"),
    ]
    yield from table(("exit code", "error", "meaning"), ((str(c), kind, text) for c, kind, text in sorted(rows)))


def errors_page() -> Iterator[str]:
    yield ERRORS_INTRO
    yield from table(
        ("code", "class", "catch", "a kind of", "meaning", "exit code", "HTTP"), map(error_row, error_tree())
    )
    yield PROBLEMS_INTRO
    yield from table(("code", "field", "says"), sorted(problems_in_code()))


def error_tree(kind: type[ParleyError] = ParleyError) -> Iterator[type[ParleyError]]:
    yield kind
    for below in kind.__subclasses__():
        if home_of(below) is not None:
            yield from error_tree(below)


def home_of(kind: type[ParleyError]) -> ModuleType | None:
    """The module that defines an error; a public one calls itself a class of `parley`."""
    return next((module for module in ERROR_MODULES if vars(module).get(kind.__name__) is kind), None)


def error_row(kind: type[ParleyError]) -> tuple[str, ...]:
    caught = next(base.__name__ for base in kind.__mro__ if base.__name__ in parley.__all__)
    parent = kind.__mro__[1]
    above = f"`{parent.code}`" if issubclass(parent, ParleyError) else ""
    status = status_of(kind())
    return (
        f"`{kind.code}`",
        f"`{kind.__name__}`",
        f"`{caught}`",
        above,
        kind.__doc__ or "",
        str(exits.exit_code(kind())),
        str(status) if is_sent(kind) else "",
    )


def is_sent(kind: type[ParleyError]) -> bool:
    """Whether a server answers with it, rather than a command or a mailbox."""
    return (
        status_of(kind()) != 500
        and (home_of(kind) is not common_errors or kind.__name__ in SERVED)
        and kind.__name__ not in LOCAL
    )


def problems_in_code() -> set[tuple[str, str, str]]:
    """Code, field and detail of every problem that the source can name."""
    problems = set()
    for path in sorted((ROOT / "src" / "parley").rglob("*.py")):
        if path.parent == ROOT / "src" / "parley" / "cli" / "oacp":  # the drop-in speaks in the words of its model
            continue
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                problems |= set(problems_of(function))
    wordy = {(code, field) for code, field, detail in problems if detail}
    return {row for row in problems if row[2] or row[:2] not in wordy}


def problems_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str, str]]:
    texts: dict[str, str] = {}
    for node in sorted(ast.walk(function), key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            texts[node.targets[0].id] = pattern_of(node.value, texts)
        if isinstance(node, ast.Call) and called_name(node) in PROBLEM_MAKERS and len(node.args) == 3:
            code, field, detail = (pattern_of(argument, texts) for argument in node.args)
            if code and "…" not in code:
                yield f"`{code}`", f"`{field}`" if field else "", "" if detail == "…" else detail


def called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def pattern_of(node: ast.expr, texts: dict[str, str]) -> str:
    """A text in the source, with an ellipsis for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return texts.get(node.id, "…") if isinstance(node, ast.Name) else "…"
