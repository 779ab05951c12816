"""Write the reference pages that the code knows best: docs/reference/*.md except file-format and json.

gen_docs.py            write every page that is stale
gen_docs.py --check    write nothing; exit 1 and name the stale pages when there are any
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import parley
from parley import settings
from parley.cli import command as commands
from parley.cli import dispatch as cli
from parley.cli import exits, remote
from parley.cli.oacp import main as oacp
from parley.domain import governance_errors, team_errors
from parley.domain.bodies import KIND_SPECS, Field, KindSpec, Shape
from parley.domain.errors import ParleyError
from parley.domain.limits import HARD_FILE_BYTES
from parley.domain.message import GOES_FIRST, Kind, Priority
from parley.domain.policy import Policy
from parley.domain.policy_meet import KEYS, MEETS
from parley.sdk.mailbox import Mailbox
from parley.surfaces.http.message import HttpLimits
from parley.surfaces.http.problem import status_of
from parley.surfaces.http.route import PUBLIC, Param, Route
from parley.surfaces.http.server import all_routes
from parley.wire import policy as policies

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
MARK = "<!-- Written by tools/gen_docs.py from the code. Change the code, then run: make docs -->"

SETTING_MEANINGS = {
    "home": "the folder that holds all projects; empty: found from the working directory, else `~/oacp`",
    "project": "the project; empty: found from the working directory, else the only one there is",
    "agent": "who acts, on a server too; empty: in a mailbox the agent whose card or name fits the runtime, see below",
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
    "url": "where the server is, for commands on a server",
    "key": "the key that commands on a server show; `parley config` does not print it",
    "human_key": "a person's key, for decisions in a mailbox; `parley config` does not print it",
    "admin_key": "the first admin key of a new server, instead of one that it makes up",
    "data": "where a server keeps everything; empty: `~/.local/share/parley` (or under `$XDG_DATA_HOME`)",
    "host": "the address that `parley up` listens on",
    "port": "the port that `parley up` listens on; 0 takes any free one",
    "allowed_hosts": "further names that the server answers to, with commas between them",
    "checkpoints": "where a server keeps signed checkpoints of its audit logs, best on another disk; empty:"
    " `checkpoints` beside its store",
    "event_names": "how the type of an audited message is spelled: `rfc` (channel_message) or `sdk` (channel.message)",
    "webhook_targets": "where webhooks may lead: `public` addresses over https only, or `any`",
    "rego": "a file or folder with the organisation's own rules in Rego, asked after the policies; empty: none",
    "approvals_home": "a home of mailboxes in which a server tells people what waits for them; empty: it does not",
    "approvals_project": "the project there in which people have a folder of their own name; empty: the only one",
    "approvals_agent": "who the sender of these messages is; its folder is made when it is missing",
    "http_body_bytes": f"size of a request's body in bytes; never above {HARD_FILE_BYTES}",
    "payload_depth": "levels of nesting in a payload",
    "payload_keys": "keys in a payload, all levels together",
    "payload_string_bytes": "bytes of one text in a payload",
    "metadata_bytes": "bytes of a message's metadata",
    "channel_name_chars": "characters of a channel's name",
    "channels_per_intent": "channels on one intent",
    "members": "members of one channel",
    "max_messages": "what a channel may set its `max_messages` to",
    "page": "messages or events in one answer",
    "batch": "messages posted at once",
    "intents_per_tenant": "intents of one tenant",
    "agents_per_tenant": "registered agents of one tenant",
    "keys_per_tenant": "keys of one tenant",
    "webhooks_per_tenant": "webhooks of one tenant",
    "tasks_per_intent": "tasks of one intent",
    "streams_per_key": "open streams of one key",
    "streams": "open streams in all",
    "requests_per_second": "requests of one key a second, on a server that other machines can reach",
    "requests_burst": "requests that one key may make at once",
    "failed_logins_per_minute": "wrong keys from one address a minute",
    "ask_seconds": "seconds that a question may wait for its answer",
    "expiry_days": "days until a message expires, at most",
    "idempotency_hours": "hours that an `Idempotency-Key` is remembered",
    "retention_days": "days that messages of a closed channel stay readable; 0: none",
    "audit_retention_days": "days that audit entries keep their documents, their hashes stay; 0: for ever",
}
SETTING_GROUPS = ("Mailboxes", "Commands on a server", "The server", "Limits of the server")
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
ERROR_MODULES = frozenset({ParleyError.__module__, team_errors.__name__, governance_errors.__name__})
BOUNDS = {"minLength": "characters or more", "maxLength": "at most", "minimum": "or more", "maximum": "at most"}

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
letter, in a server's answer, and as `error.code` in Python. The classes are in `parley.domain.errors`,
`parley.domain.team_errors` (what only a server refuses) and `parley.domain.governance_errors` (what the rules refuse);
those marked * can be imported from `parley`. Catching a class catches all that are a kind of it. How a server says them
is in [http.md](http.md#refusals).
"""
HTTP_INTRO = """\
# HTTP

A running server shows the same at `/docs`, and as OpenAPI 3.1 at `/openapi.json`. Paths are below `/api/v1`, or `/v1`,
unless they are listed under [system](#system) or begin with `/.well-known`. How to use it:
[Your first channel](../tutorial/first-channel.md), [Receive webhooks](../how-to/receive-webhooks.md).

| header | what for |
|---|---|
| `X-API-Key` or `Authorization: Bearer` | the key. Never in the address |
| `X-Agent-ID` | the agent that a service or admin key speaks for |
| `Content-Type` | `application/json`, wherever there is a body |
| `Idempotency-Key` | your word for this POST, 1 to 255 characters: sent again, it is carried out once |
| `If-Match` | the version (`ETag`) that a change is for; intents and tasks demand it |
| `Last-Event-ID` | on a stream: go on after this event |
| `traceparent` | the trace of a message or event, as W3C has it |

Unknown fields, keys given twice, and text that is not Unicode are refused. All times are RFC 3339; the server writes
UTC with microseconds. A request that repeats an `Idempotency-Key` with the same body is answered as it was the first
time, with `Idempotent-Replayed: true`, for {hours} hours; with another body it is refused.
"""
HTTP_REFUSALS = """
## Refusals

A refusal is `application/problem+json` (RFC 9457). `code` is stable, `detail` is for people, `errors` names every
field with a code of its own; some codes add facts, such as `current_version`.

```json
{"type": "urn:parley:problem:channel_closed", "title": "Conflict", "status": 409, "code": "channel_closed",
 "detail": "the channel questions is closed", "message": "the channel questions is closed", "errors": []}
```

What a key may not know of does not exist: 404, with the same body as for what was never there. 4xx means that nothing
was done. After a 5xx or a broken connection it may have been done, once: send it again with the same
`Idempotency-Key`.
"""
HTTP_CONNECTION = """
The connection itself refuses, before any route is found (limits: headers {header_bytes} bytes and {header_count}
fields, address {url_bytes} bytes, {header_seconds:g} seconds for the headers, {body_seconds:g} for the body,
{connections} connections):
"""
HTTP_OBJECTS = """
## Objects

What bodies and answers hold. A field without *required* may be left out of a body.
"""
PROBLEMS_INTRO = """
## Problems and doubts

`invalid` lists everything that is wrong at once, as `problems` of code, field and detail. `parley validate` and the
`doubts` of a message use the same codes. An ellipsis stands for what varies.
"""
POLICY_INTRO = """\
# Policies

A policy is a YAML document with one key, `agent-to-agent`, and below it any of these. It stands in one of four scopes:
`enterprise`, `org`, `team` or `user`. The documents of the enterprise set the values; the others can only narrow them.
How to write, check and change them: [Govern your agents](../how-to/govern-your-agents.md); why it is so:
[Governance](../explanation/governance.md#policies).

*Together* is how two values become one: of two scopes, of two documents of the enterprise, and of the two sides of an
exchange. Choices are listed with the strictest first. The default holds when the enterprise says nothing about a
key; unknown keys and wrong types are refused.
"""
POLICY_FILE = """
## The policy of a fresh install
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
SETTINGS_RUNTIME = """\
## A file

```toml
# parley.toml
project = "demo"
lease = "2h"
recipients = 5
data = "./team"
streams_per_key = 50
```

## How the agent of a mailbox is found

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
        "http.md": http_page,
        "kinds.md": kinds_page,
        "policy.md": policy_page,
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
    yield "## Options of commands on a mailbox"
    yield ""
    yield from table(("option", "meaning"), shared_options())
    yield ""
    yield "A message is named by its id, by its file name, or by the end of its id (`a8f3`)."
    yield ""
    yield "## Options of commands on a server"
    yield ""
    yield from table(("option", "meaning"), server_options())
    for name in cli.COMMANDS:
        yield from command_section(name)
    yield CLI_OACP.format(version=oacp.VERSION)
    yield from table(("command", "what it does"), ((f"`parley oacp {n}`", text) for n, text in oacp._COMMANDS.items()))


def command_section(name: str) -> Iterator[str]:
    command = cli.load_command(name)
    parser = commands.make_parser(f"parley {name}", command)
    words = [action.metavar or action.dest for action in parser._actions if not action.option_strings]
    shared = {option for option, _ in (*shared_options(), *server_options())}
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


def server_options() -> list[tuple[str, str]]:
    """What `add_server` gives a command."""
    parser = argparse.ArgumentParser(add_help=False)
    remote.add_server(parser)
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
        (
            exits.FOUND_PROBLEMS,
            "-",
            "`validate`, `doctor`, `watch` or `listen` found something wrong; you said no; or nobody read the output",
        ),
    ]
    rows += [(code, f"`{kind.code}`", meaning) for kind, code, meaning in exits.exit_codes()]
    rows += [
        (exits.INTERNAL, "`internal`", "a bug in Parley"),
        (exits.INTERRUPTED, "-", "interrupted from the keyboard"),
    ]
    yield from table(("exit code", "error", "meaning"), ((str(c), kind, text) for c, kind, text in sorted(rows)))


def errors_page() -> Iterator[str]:
    yield ERRORS_INTRO
    yield from table(("code", "class", "a kind of", "meaning", "exit code", "HTTP"), map(error_row, error_tree()))
    yield PROBLEMS_INTRO
    yield from table(("code", "field", "says"), sorted(problems_in_code()))


def error_tree(kind: type[ParleyError] = ParleyError) -> Iterator[type[ParleyError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ in ERROR_MODULES:
            yield from error_tree(below)


def error_row(kind: type[ParleyError]) -> tuple[str, ...]:
    star = "*" if kind.__name__ in parley.__all__ else ""
    parent = kind.__mro__[1]
    above = f"`{parent.code}`" if issubclass(parent, ParleyError) else ""
    status = status_of(kind())
    return (
        f"`{kind.code}`",
        f"`{kind.__name__}`{star}",
        above,
        kind.__doc__ or "",
        str(exits.exit_code(kind())),
        str(status) if is_sent(kind) else "",
    )


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


# ---------------------------------------------------------------- policies


def policy_page() -> Iterator[str]:
    yield POLICY_INTRO
    meanings = policy_meanings()
    rows = [(f"`{key}`", policy_values(key), policy_default(key), MEETS[key].value, meanings[key]) for key in KEYS]
    yield from table(("key", "values", "default", "together", "meaning"), rows)
    yield POLICY_FILE
    yield from ("```yaml", default_policy().rstrip("\n"), "```")


def default_policy() -> str:
    return (ROOT / "src" / "parley" / "policies" / "enterprise.yaml").read_text(encoding="utf-8")


def policy_meanings() -> dict[str, str]:
    """What the policy of a fresh install says above each key; a key may stand there as a comment."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in map(str.strip, default_policy().splitlines()):
        key = line.removeprefix("# ").partition(":")[0]
        if key in MEETS:
            found.setdefault(key, " ".join(above))
        elif line.startswith("#"):
            above.append(line.removeprefix("#").strip())
        else:
            above = []
    return found


def policy_values(key: str) -> str:
    if key in policies.RANGES:
        least, most = policies.RANGES[key]
        return f"{least} to {most}"
    if key in policies.CHOICES:
        return ", ".join(f"`{choice.value}`" for choice in policies.CHOICES[key])
    default = getattr(Policy(), key)
    if isinstance(default, bool):
        return "`true`, `false`"
    if key == "cross_org":
        return "`false`, `approval`, `true`"
    return "list" if isinstance(default, tuple) else "text"


def policy_default(key: str) -> str:
    value = policies.spelled(key, getattr(Policy(), key))
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    return ("`[" + ", ".join(value) + "]`" if value else "none") if isinstance(value, list) else f"`{value}`"


# ---------------------------------------------------------------- HTTP


def http_page() -> Iterator[str]:
    routes = all_routes()
    yield HTTP_INTRO.format(hours=settings._TEAM_LIMITS["idempotency_hours"])
    tags = list(dict.fromkeys(route.tag for route in routes))
    yield "Operations: " + ", ".join(f"[{tag}](#{tag})" for tag in tags) + "."
    for tag in tags:
        yield ""
        yield f"## {tag}"
        yield ""
        of_tag = [route for route in routes if route.tag == tag]
        yield from table(("operation", "what it does", "keys", "body", "answers"), map(route_row, of_tag))
        parameters = [row for route in of_tag for row in parameter_rows(route)]
        if parameters:
            yield ""
            yield from table(("of", "parameter", "meaning"), parameters)
    yield HTTP_REFUSALS
    yield from table(("status", "code", "meaning"), sorted(set(map(refusal_row, filter(is_sent, error_tree())))))
    yield HTTP_CONNECTION.format(**HttpLimits()._asdict())
    yield from table(("status", "code", "says"), sorted(refusals_in_code()))
    yield HTTP_OBJECTS
    yield from objects(routes)


def route_row(route: Route) -> tuple[str, ...]:
    keys = "none" if route.scope == PUBLIC else ", ".join(sorted(route.scope))
    body = object_name(route.body) + (" (optional)" if route.body_optional else "") if route.body else ""
    answers = ", ".join(f"{status} {object_name(schema)}".strip() for status, schema in sorted(route.answers.items()))
    return f"`{route.method} {route.path}`", route.summary, keys, body, answers


def object_name(schema: object) -> str:
    """The name of what a body or an answer holds, with a link where it is explained below."""
    if schema is None or schema is str:
        return ""
    if isinstance(schema, type) and issubclass(schema, msgspec.Struct):
        return link_to(component_names()[schema])
    inside = [object_name(one) for one in getattr(schema, "__args__", ()) if isinstance(one, type)]
    if getattr(schema, "__origin__", None) is list:
        return f"list of {inside[0]}"
    return "object"


@cache
def component_names() -> dict[Any, str]:
    """The component of each object: its name, or its module's too where two have the same."""
    structs = sorted(set(filter(is_struct, schemas(all_routes()))), key=str)
    references, _ = msgspec.json.schema_components(structs, ref_template="{name}")
    return {struct: reference["$ref"] for struct, reference in zip(structs, references, strict=True)}


def schemas(routes: Iterable[Route]) -> Iterator[Any]:
    for route in routes:
        for schema in (route.body, *route.answers.values()):
            if schema is not None and schema is not str:
                yield schema
                yield from (one for one in getattr(schema, "__args__", ()) if is_struct(one))


def is_struct(schema: object) -> bool:
    return isinstance(schema, type) and issubclass(schema, msgspec.Struct)


def title_of(component: str) -> str:
    return ".".join(component.split(".")[-2:])


def link_to(component: str) -> str:
    title = title_of(component)
    return f"[{title}](#{title.replace('.', '').lower()})"


def parameter_rows(route: Route) -> Iterator[tuple[str, str, str]]:
    for one, where in (*((param, "") for param in route.query), *((param, " (header)") for param in route.headers)):
        yield f"`{route.method} {route.path}`", f"`{one.name}`{where}", parameter_meaning(one)


def parameter_meaning(param: Param) -> str:
    bounds = [
        f"{word} {bound:g}" for word, bound in (("from", param.minimum), ("to", param.maximum)) if bound is not None
    ]
    choices = " or ".join(f"`{choice}`" for choice in param.choices)
    extra = ", ".join(filter(None, (" ".join(bounds), choices)))
    return param.about + (f" ({extra})" if extra else "")


def is_sent(kind: type[ParleyError]) -> bool:
    """Whether a server answers with it, rather than a command or a mailbox."""
    return (
        status_of(kind()) != 500
        and (kind.__module__ != ParleyError.__module__ or kind.__name__ in SERVED)
        and kind.__name__ not in LOCAL
    )


def refusal_row(kind: type[ParleyError]) -> tuple[str, str, str]:
    return str(status_of(kind())), f"`{kind.code}`", kind.__doc__ or ""


def refusals_in_code() -> set[tuple[str, str, str]]:
    """Status, code and detail of what the connection and the dispatcher refuse by themselves."""
    found = set()
    for path in sorted((ROOT / "src" / "parley" / "surfaces" / "http").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and called_name(node) in {"Refused", "problem"} and len(node.args) == 3:
                status, code, detail = (pattern_of(argument, {}) for argument in node.args)
                if status.isdigit() and "…" not in code:
                    detail = "" if detail == "…" else detail
                    found.add((status, f"`{code}`", detail))
    return found


def objects(routes: Iterable[Route]) -> Iterator[str]:
    """Every object that a body or an answer holds, with its fields."""
    _, components = msgspec.json.schema_components(sorted(set(schemas(routes)), key=str), ref_template="{name}")
    for name, schema in sorted(components.items(), key=lambda item: title_of(item[0])):
        if "properties" not in schema:
            continue
        yield f"### {title_of(name)}"
        yield ""
        if schema.get("description"):
            yield " ".join(schema["description"].split())
            yield ""
        required = set(schema.get("required", ()))
        rows = [
            (f"`{field}`", schema_type(one, components), "yes" if field in required else "", one.get("description", ""))
            for field, one in schema["properties"].items()
        ]
        yield from table(("field", "type", "required", "meaning"), rows)
        yield ""


def schema_type(schema: dict[str, Any], components: dict[str, Any]) -> str:
    """A JSON Schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"]
        if "enum" in components[name]:
            return " or ".join(f"`{choice}`" for choice in components[name]["enum"] if choice != "")
        return link_to(name)
    if "anyOf" in schema:
        return " or ".join(schema_type(one, components) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{choice}`" for choice in schema["enum"])
    if schema.get("type") == "array":
        inside = schema_type(schema.get("items", {}), components)
        return f"list of {inside}" if inside != "anything" else "list"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    kind = schema.get("type", "anything")
    bounds = [f"{schema[key]:,} {word}" for key, word in BOUNDS.items() if key in schema]
    return ", ".join([words.get(kind, kind), *bounds])


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
    limits = {**settings._LIMITS, **settings._TEAM_LIMITS}
    defaults = {**settings._TEXTS, **{name: str(value) for name, value in limits.items()}}
    rows: dict[str, list[tuple[str, ...]]] = {title: [] for title in SETTING_GROUPS}
    for name in settings.NAMES:
        variables = [f"PARLEY_{name.upper()}", *settings._ELSEWHERE.get(name, ())]
        shown = ", ".join(f"`{variable}`" for variable in variables)
        row = (f"`{name}`", f"`{defaults[name]}`" if defaults[name] else "", shown, SETTING_MEANINGS[name])
        rows[setting_group(name)].append(row)
    for title, of_group in rows.items():
        yield f"## {title}"
        yield ""
        yield from table(("name", "default", "environment", "meaning"), of_group)
        yield ""
    yield SETTINGS_RUNTIME.format(runtimes=", ".join(sorted(settings._RUNTIMES)))
    yield from table(("variable", "runtime"), ((f"`{mark}`", runtime) for mark, runtime in settings._RUNTIME_MARKS))
    yield SETTINGS_END


def setting_group(name: str) -> str:
    mailbox, remote_commands, server, limits = SETTING_GROUPS
    if name in settings._TEAM_LIMITS:
        return limits
    if name in {"url", "key"}:
        return remote_commands
    beyond = list(settings._TEXTS)[list(settings._TEXTS).index("url") :]
    return server if name in beyond else mailbox


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
