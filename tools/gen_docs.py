"""Write the reference pages that the code knows best: docs/reference/{cli,exit-codes,errors,kinds,settings,python}.md.

gen_docs.py            write every page that is stale
gen_docs.py --check    write nothing; exit 1 and name the stale pages when there are any
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import parley
from parley import settings
from parley.cli import command as commands
from parley.cli import dispatch as cli
from parley.cli import exits
from parley.cli.oacp import main as oacp
from parley.domain.bodies import KIND_SPECS, Field, KindSpec, Shape
from parley.domain.errors import ParleyError
from parley.domain.limits import HARD_FILE_BYTES
from parley.domain.message import GOES_FIRST, Kind, Priority
from parley.sdk.mailbox import Mailbox

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
MARK = "<!-- Written by tools/gen_docs.py from the code. Change the code, then run: make docs -->"

SETTING_MEANINGS = {
    "home": "the folder that holds all projects; empty: found from the working directory, else `~/oacp`",
    "project": "the project; empty: found from the working directory, else the only one there is",
    "agent": "who acts; empty: the one agent whose card or name fits the runtime, see below",
    "lease": "how long `parley next` and `parley extend` hold a message",
    "sender_check": "a file that belongs to another user than its `from`: `warn` adds a note, `enforce` makes it a dead"
    " letter",
    "file_bytes": f"size of a message file in bytes; never above {HARD_FILE_BYTES}",
    "yaml_depth": "levels of nesting in a file",
    "yaml_nodes": "values in a file",
    "id_chars": "characters of a message id, conversation id or parent id",
    "subject_chars": "characters of a subject",
    "tag_chars": "characters of a `channel`",
    "body_chars": "characters of a body",
    "context_words": "words of `context_keys`; more is only warned about",
    "recipients": "recipients of one message",
    "tries": "claims without `done` after which a message becomes a dead letter",
    "inbox_messages": "messages of one operating system user in one inbox",
}
# Where a problem is named in the code: the class, and the small functions that make one.
PROBLEM_MAKERS = frozenset({"Problem", "_problem", "_doubt", "_invalid", "report"})

CLI_INTRO = """\
# The command line

`parley COMMAND --help` says the same in the terminal. Exit codes are in [exit-codes.md](exit-codes.md), the shapes of
`--json` in [json.md](json.md)."""
CLI_OACP = """
## parley oacp

A drop-in for `oacp-cli` {version}: the same flags, output and exit codes. See
[Move from oacp-cli](../how-to/move-from-oacp-cli.md).
"""
EXITS_INTRO = """\
# Exit codes

Each code has one meaning, for every command except [`parley oacp`](../how-to/move-from-oacp-cli.md), which keeps those
of `oacp-cli`. An error is one line on standard error, `parley: CODE: what (hint)`; the codes are in
[errors.md](errors.md). With `--json` the line is a JSON object, see [json.md](json.md).
"""
ERRORS_INTRO = """\
# Errors

Every error has a stable code: on the command line (`parley: CODE: ...`), in JSON, in the reason file beside a dead
letter, and as `error.code` in Python. The classes are in `parley.domain.errors`; those marked * can be imported from
`parley`. Catching a class catches all that are a kind of it.
"""
PROBLEMS_INTRO = """
## Problems and doubts

`invalid` lists everything that is wrong at once, as `problems` of code, field and detail. `parley validate` and the
`doubts` of a message use the same codes. An ellipsis stands for what varies.
"""
KINDS_INTRO = """\
# The twelve kinds

A message's kind (`type` in the file, `--type` on the command line) says what it asks. The first answer is what
`parley reply` sends when no `--type` is given; a kind without an answer gets a notification. The first priority is the
default; *inherited* means that of the message it answers, P2 without one.
"""
KINDS_RULES = """
Priorities are {priorities}, the most urgent first. Processing order: priority, then {first}
before the others, then the older first, last the id.

A message may have several recipients, except {single}, which go to exactly one; a
sender is never in its own list.

## Body fields

Kinds that are not listed here have free text. A `follow_up` that answers a message may be free text too. Give the
fields with `--set name=value` (repeat it for each item of a list), as YAML text, or as a dict in Python."""
SETTINGS_INTRO = """\
# Settings

A flag wins over an environment variable, that over `parley.toml` in the working directory, that over the user's
`~/.config/parley/parley.toml` (or under `$XDG_CONFIG_HOME`), that over the default. `parley config` prints each value
and where it came from. An unknown name or a bad value is an error (`bad_config`, exit code 78).
"""
SETTINGS_RUNTIME = """
```toml
# parley.toml
project = "demo"
lease = "2h"
recipients = 5
```

## How the agent is found

When neither a flag nor a setting names the agent, Parley looks at the runtime it was started by: `OACP_RUNTIME` (one
of {runtimes}), else the first of these variables that is set. The agent is the one whose
`agent_card.yaml` names that runtime (`parley agent add NAME --runtime RUNTIME` writes the card); without such a card,
the one whose name is the runtime's. Two that fit are an error: name one.
"""
SETTINGS_END = """
## Other variables

`VISUAL` or `EDITOR` is started for a body when standard input is a terminal. `NO_COLOR` and `TERM=dumb` turn colours
off; they are only used on a terminal."""
PYTHON_INTRO = """\
# Python

Everything here is imported from `parley`. [Use Parley from Python](../how-to/use-from-python.md) shows it at work.

## Mailbox
"""
PYTHON_RECORDS = """
## Records

Named tuples: read a field by its name, `record._asdict()` for a dict. They never change."""
PYTHON_END = """
## Kind and Priority

Enums whose members are texts: `Kind.QUESTION == "question"`, `Priority.P1 == "P1"`. Wherever one is taken, the text
will do. See [kinds.md](kinds.md).

## Errors

All are `ParleyError`, with `code`, `message`, `hint` and `problems`. See [errors.md](errors.md)."""


def main(arguments: list[str]) -> int:
    stale = [name for name, text in pages().items() if not is_fresh(name, text)]
    if arguments == ["--check"]:
        for name in stale:
            print(f"docs/reference/{name} is stale; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for name in stale:
        (REFERENCE / name).write_text(pages()[name], encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


def is_fresh(name: str, text: str) -> bool:
    path = REFERENCE / name
    return path.exists() and path.read_text(encoding="utf-8") == text


def pages() -> dict[str, str]:
    """Every generated page by its name."""
    makers: dict[str, Callable[[], Iterable[str]]] = {
        "cli.md": cli_page,
        "exit-codes.md": exits_page,
        "errors.md": errors_page,
        "kinds.md": kinds_page,
        "settings.md": settings_page,
        "python.md": python_page,
    }
    return {name: "\n".join([MARK, "", *maker()]) + "\n" for name, maker in makers.items()}


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    heads = list(heads)
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return lines + [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]


# ---------------------------------------------------------------- the command line


def cli_page() -> Iterator[str]:
    yield CLI_INTRO
    for title, names in cli._GROUPS:
        yield ""
        yield f"**{title}**: " + ", ".join(f"[{name}](#parley-{name.replace(' ', '-')})" for name in names)
    yield ""
    yield "## Options of nearly every command"
    yield ""
    yield from table(("option", "meaning"), shared_options())
    yield ""
    yield "A message is named by its id, by its file name, or by the end of its id (`a8f3`)."
    for name in cli.COMMANDS:
        yield from command_section(name)
    yield CLI_OACP.format(version=oacp.VERSION)
    yield from table(("command", "what it does"), ((f"`parley oacp {n}`", text) for n, text in oacp._COMMANDS.items()))


def command_section(name: str) -> Iterator[str]:
    command = cli.load_command(name)
    parser = commands.make_parser(f"parley {name}", command)
    words = [action.metavar or action.dest for action in parser._actions if not action.option_strings]
    shared = {option for option, _ in shared_options()}
    rows = [row for row in option_rows(parser) if row[0] not in shared]
    yield ""
    yield f"## parley {name}"
    yield ""
    yield f"`{' '.join([f'parley {name}', '[options]', *(str(word).upper() for word in words)])}`"
    yield ""
    yield sentence(parser.description or command.summary)
    if rows:
        yield ""
        yield from table(("argument", "meaning"), rows)
    if command.examples:
        yield ""
        yield from ("```sh", *command.examples, "```")


def sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def shared_options() -> list[tuple[str, str]]:
    """What `add_place` gives a command."""
    parser = argparse.ArgumentParser(add_help=False)
    commands.add_place(parser)
    return option_rows(parser)


def option_rows(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    rows = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or action.dest == "help":
            continue
        name = str(action.metavar or action.dest.upper())
        if action.option_strings:
            name = ", ".join(action.option_strings) + (f" {name}" if action.nargs != 0 else "")
        rows.append((f"`{name}`", option_meaning(action)))
    return rows


def option_meaning(action: argparse.Action) -> str:
    text = action.help or ""
    if not text and action.choices:
        text = "one of " + ", ".join(str(choice) for choice in action.choices if choice)
    return text + (" (required)" if action.required and action.option_strings else "")


# ---------------------------------------------------------------- errors


def exits_page() -> Iterator[str]:
    yield EXITS_INTRO
    rows = [
        (exits.OK, "-", "done, or nothing to do"),
        (exits.FOUND_PROBLEMS, "-", "`validate`, `doctor` or `watch` found something wrong; or nobody read the output"),
    ]
    rows += [(code, f"`{kind.code}`", meaning) for kind, code, meaning in exits.EXIT_CODES]
    rows += [
        (exits.INTERNAL, "`internal`", "a bug in Parley"),
        (exits.INTERRUPTED, "-", "interrupted from the keyboard"),
    ]
    yield from table(("exit code", "error", "meaning"), ((str(c), kind, text) for c, kind, text in sorted(rows)))


def errors_page() -> Iterator[str]:
    yield ERRORS_INTRO
    yield from table(("code", "class", "a kind of", "meaning", "exit code"), map(error_row, error_tree()))
    yield PROBLEMS_INTRO
    yield from table(("code", "field", "says"), sorted(problems_in_code()))


def error_tree(kind: type[ParleyError] = ParleyError) -> Iterator[type[ParleyError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == ParleyError.__module__:
            yield from error_tree(below)


def error_row(kind: type[ParleyError]) -> tuple[str, str, str, str, str]:
    star = "*" if kind.__name__ in parley.__all__ else ""
    parent = kind.__mro__[1]
    above = f"`{parent.code}`" if issubclass(parent, ParleyError) else ""
    return f"`{kind.code}`", f"`{kind.__name__}`{star}", above, kind.__doc__ or "", str(exits.exit_code(kind()))


def problems_in_code() -> set[tuple[str, str, str]]:
    """Code, field and detail of every problem that the source can name."""
    found = set()
    for path in sorted((ROOT / "src" / "parley").rglob("*.py")):
        if path.parent.name == "oacp":  # the drop-in speaks in the words of its model
            continue
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                found |= set(problems_of(function))
    wordy = {(code, field) for code, field, detail in found if detail}
    return {row for row in found if row[2] or row[:2] not in wordy}


def problems_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str, str]]:
    texts: dict[str, str] = {}
    for node in sorted(ast.walk(function), key=lambda one: getattr(one, "lineno", 0)):
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


# ---------------------------------------------------------------- kinds


def kinds_page() -> Iterator[str]:
    yield KINDS_INTRO
    heads = ("kind", "asks", "pattern", "answers", "priority")
    yield from table(heads, (kind_row(kind, spec) for kind, spec in KIND_SPECS.items()))
    yield KINDS_RULES.format(
        priorities=", ".join(Priority),
        first=" and ".join(f"`{kind}`" for kind in sorted(GOES_FIRST)),
        single=" and ".join(f"`{kind}`" for kind, spec in KIND_SPECS.items() if spec.point_to_point),
    )
    for kind, spec in KIND_SPECS.items():
        if spec.fields:
            yield ""
            yield f"### {kind}"
            yield ""
            yield from table(("field", "type", "required", "meaning"), map(field_row, spec.fields))


def kind_row(kind: Kind, spec: KindSpec) -> tuple[str, ...]:
    answers = ", ".join(f"`{answer}`" for answer in spec.answers) or "none"
    priority = "inherited" if spec.inherits_priority else ", ".join(spec.typical)
    return f"`{kind}`", spec.purpose, spec.pattern.value, answers, priority


def field_row(field: Field) -> tuple[str, ...]:
    kind = field.shape.value
    if field.choices:
        kind = " or ".join(f"`{choice}`" for choice in field.choices)
    elif field.shape is Shape.INTEGER:
        kind += f", {field.least} or more"
    return f"`{field.name}`", kind, "yes" if field.required else "no", field.description


# ---------------------------------------------------------------- settings


def settings_page() -> Iterator[str]:
    yield SETTINGS_INTRO
    defaults = {**settings._TEXTS, **{name: str(value) for name, value in settings._LIMITS.items()}}
    rows = []
    for name in settings.NAMES:
        variables = [f"PARLEY_{name.upper()}", *settings._ELSEWHERE.get(name, ())]
        shown = ", ".join(f"`{variable}`" for variable in variables)
        rows.append((f"`{name}`", f"`{defaults[name]}`" if defaults[name] else "", shown, SETTING_MEANINGS[name]))
    yield from table(("name", "default", "environment", "meaning"), rows)
    yield SETTINGS_RUNTIME.format(runtimes=", ".join(sorted(settings._RUNTIMES)))
    yield from table(("variable", "runtime"), ((f"`{mark}`", runtime) for mark, runtime in settings._RUNTIME_MARKS))
    yield SETTINGS_END


# ---------------------------------------------------------------- Python


def python_page() -> Iterator[str]:
    yield PYTHON_INTRO
    yield inspect.getdoc(Mailbox) or ""
    yield ""
    yield f"`Mailbox{signature(Mailbox.__init__)}`"
    for name, member in vars(Mailbox).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            yield ""
            yield f"### {name}"
            yield ""
            yield from ("```text", f"{name}{signature(member)}{returns(member)}", "```")
            yield ""
            yield inspect.getdoc(member) or ""
    yield PYTHON_RECORDS
    for name in parley.__all__:
        record = getattr(parley, name)
        if inspect.isclass(record) and issubclass(record, tuple):
            yield from record_section(name, record)
    yield PYTHON_END


def signature(function: Callable[..., object]) -> str:
    parts, keyword_only = [], False
    for name, one in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        default = "" if one.default is one.empty else f" = {shown_default(one.default)}"
        parts.append(f"{name}: {one.annotation}{default}")
    line = f"({', '.join(parts)})"
    return line if len(line) <= 90 else "(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def returns(function: Callable[..., object]) -> str:
    return f" -> {inspect.signature(function).return_annotation}"


def shown_default(value: object) -> str:
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', '')}"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def record_section(name: str, record: type) -> Iterator[str]:
    annotations = inspect.get_annotations(record)
    fields: tuple[str, ...] = getattr(record, "_fields", ())
    yield ""
    yield f"### {name}"
    yield ""
    yield inspect.getdoc(record) or ""
    yield ""
    yield from table(("field", "type"), ((f"`{one}`", f"`{type_name(annotations[one])}`") for one in fields))


def type_name(annotation: object) -> str:
    return str(getattr(annotation, "__forward_arg__", annotation))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
