"""`parley setup`: let coding agents notice their messages, by hooks and MCP tools in their own settings files."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.harness import files
from parley.adapters.harness.files import FirstState, SetupRecord
from parley.adapters.harness.skills import SKILLS, read_skill
from parley.cli.command import Command, add_json, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import confirm, count_of, is_interactive, safe, safe_text
from parley.domain.errors.errors import Invalid, ParleyError, UnknownProject
from parley.domain.hashes import digest
from parley.settings import claude_config_file, state_directory
from parley.wire.harness_files import (
    HARNESSES,
    SettingsFile,
    claude_server_command,
    exclude_lines,
    mcp_servers,
    settings_files,
    without_lines,
)
from parley.wire.harness_texts import instructions_file, policy_file, skill_files
from parley.wiring import find_home, find_project, opencode_plugin, projects_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parley.settings import Settings

_NAME = "parley"
_EXCLUDE = ".git/info/exclude"
TOOLS_ADDED, TOOLS_NOT_ADDED, TOOLS_NOT_KNOWN = "added", "not added", "not known"


class FileChange(NamedTuple):
    """A file, its text now ("" when it is not there), and its text after that (None: it is removed)."""

    path: str
    exists: bool
    before: str
    after: str | None


class SetupPlan(NamedTuple):
    """What setup does: changes of files, and files that it leaves to a person, with the reason and what to add."""

    changes: list[FileChange]
    left: list[tuple[str, str, str]]


def _add_setup(parser: argparse.ArgumentParser) -> None:
    names = f"{', '.join(HARNESSES)} (default: those that are installed)"
    parser.add_argument("harness", nargs="*", choices=[[], *HARNESSES], metavar="HARNESS", help=names)
    parser.add_argument("--shared", action="store_true", help="write the files that a team commits")
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="add a paragraph to CLAUDE.md, AGENTS.md or GEMINI.md, as --shared does",
    )
    texts = parser.add_mutually_exclusive_group()
    texts.add_argument(
        "--skills", default=",".join(SKILLS), metavar="NAMES", help="skills to add (default: %(default)s)"
    )
    texts.add_argument("--no-skills", action="store_true", help="add no skills")
    parser.add_argument("--print", dest="show", action="store_true", help="show the changes, and make none")
    act = parser.add_mutually_exclusive_group()
    act.add_argument("--check", action="store_true", help="say whether everything is set up; exit code 1 if not")
    act.add_argument("--remove", action="store_true", help="take out what setup added")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json(parser)
    parser.description = (
        f"{parser.description}.\n\n"
        "Adds hooks (parley hook), MCP tools (parley mcp) and skills to the settings in\n"
        "this repository, shows the changes first and asks. Files that it cannot edit\n"
        "safely stay as they are; it prints what to add. --remove restores them."
    )


def _setup(args: argparse.Namespace) -> int:
    root = settings_of(args).repository or settings_of(args).cwd
    if args.show and args.check:
        raise Invalid("--check changes nothing", hint="leave --print out")
    if not args.remove:
        _check_project(settings_of(args))
    harnesses = list(dict.fromkeys(args.harness)) or _installed()
    wanted = [file for harness in harnesses for file in _settings_files(harness, shared=args.shared)]
    record = SetupRecord(state_directory(), root)
    if args.remove:
        return _remove(args, root, wanted + _all_texts(harnesses), record)
    if not args.check:  # without its texts an agent notices messages, too
        wanted += _texts(args, harnesses)
    plan = plan_additions(root, wanted, shared=args.shared)
    tools = claude_tools(root, settings_of(args)) if "claude" in harnesses else ""
    notes = [note for harness in harnesses for note in _manual_steps(harness, tools, shared=args.shared)]
    if args.check:
        return _report_check(args, plan, tools)
    if args.json and not args.yes and not args.show:
        raise Invalid("--json cannot ask", hint="add --yes, --print or --check")
    _show_plan(args, plan)
    if plan.changes and not args.show:
        if not _confirm(args, f"Change {count_of(len(plan.changes), 'file')}?"):
            return _declined(args)
        _apply(root, plan.changes, record, wanted)
    _show_end(args, plan, notes, harnesses)
    return FOUND_PROBLEMS if plan.left else OK


def _texts(args: argparse.Namespace, harnesses: list[str]) -> list[SettingsFile]:
    """The files with texts for the model that were asked for, each once."""
    names = [] if args.no_skills else [name.strip() for name in args.skills.split(",") if name.strip()]
    if unknown := [name for name in names if name not in SKILLS]:
        raise Invalid(f"no skill {unknown[0]!r}", hint=f"one of {', '.join(SKILLS)}")
    skills = {name: read_skill(name) for name in names}
    texts = [file for harness in harnesses for file in skill_files(harness, skills)]
    if args.shared or args.instructions:
        texts += [instructions_file(harness) for harness in harnesses]
    if "gemini" in harnesses and not args.shared:
        texts.append(policy_file())
    return [*{file.path: file for file in texts}.values()]


def _all_texts(harnesses: list[str]) -> list[SettingsFile]:
    """Every file with texts that setup may have written."""
    skills = {name: read_skill(name) for name in SKILLS}
    texts = [file for harness in harnesses for file in (*skill_files(harness, skills), instructions_file(harness))]
    return [*{file.path: file for file in texts}.values(), *([policy_file()] if "gemini" in harnesses else [])]


def _place(root: str, path: str) -> str:
    """Where a file is: in the repository, or in the home directory of the user."""
    return os.path.expanduser(path) if path.startswith("~/") else os.path.join(root, path)


def _check_project(settings: Settings) -> None:
    """Refuse to set up agents that have no mailboxes here."""
    home = find_home(settings).value
    with suppress(UnknownProject):
        if find_project(settings, home).value in projects_of(home):
            return
    if settings.repository:
        raise UnknownProject("no project for this repository", hint="run parley init first")
    raise UnknownProject(f"no project for {settings.cwd}", hint="run parley init PROJECT first")


def _installed() -> list[str]:
    from shutil import which

    names = [harness for harness in HARNESSES if which(harness)]
    if not names:
        raise Invalid("no coding agent is installed here", hint=f"name one: parley setup {'|'.join(HARNESSES)}")
    return names


def _command(*, shared: bool) -> str:
    """The command that the files name: by its path, since hooks and servers get another PATH."""
    if shared:
        return _NAME
    from shutil import which

    # Of several, the one that runs now.
    running = os.path.abspath(sys.argv[0])
    is_command = os.path.basename(running) == _NAME and os.access(running, os.X_OK) and os.path.isfile(running)
    command = running if is_command else which(_NAME)
    if command is None:
        raise Invalid("no command parley on the PATH for the settings to name", hint="put it there, or use --shared")
    return os.path.abspath(command)


def _settings_files(harness: str, *, shared: bool) -> tuple[SettingsFile, ...]:
    """The files of a coding agent; personal ones name Codex by its path, which is what wakes it."""
    from shutil import which

    codex = "" if shared else which("codex") or ""
    return settings_files(
        harness,
        _command(shared=shared),
        shared=shared,
        codex=os.path.abspath(codex) if codex else "",
        plugin=opencode_plugin() if harness == "opencode" else "",
    )


def is_set_up(root: str, harness: str) -> bool:
    """Whether the files of a repository, personal or shared, let a coding agent notice its messages."""
    for shared in (False, True):
        wanted = _settings_files(harness, shared=shared)
        if plan_additions(root, [*wanted], shared=True) == SetupPlan([], []):
            return True
    return False


def plan_additions(root: str, wanted: list[SettingsFile], *, shared: bool) -> SetupPlan:
    """What has to change so that every file has what it should have."""
    plan = SetupPlan([], [])
    for file in wanted:
        _plan_file(plan, root, file, file.add)
    created = tuple(change.path for change in plan.changes if not change.exists)
    if created and not shared and os.path.isdir(os.path.join(root, ".git")):
        text = files.read_text(os.path.join(root, _EXCLUDE))
        after = exclude_lines(text or "", created)
        if after != (text or ""):
            plan.changes.append(FileChange(_EXCLUDE, text is not None, text or "", after))
    return plan


def _plan_file(plan: SetupPlan, root: str, file: SettingsFile, edit: Callable[[str], str]) -> None:
    try:
        text = files.read_text(_place(root, file.path))
        after = edit(text or "")
    except Invalid as error:
        plan.left.append((file.path, error.message, file.snippet))
        return
    if after != (text or ""):
        plan.changes.append(FileChange(file.path, text is not None, text or "", after))


def _confirm(args: argparse.Namespace, question: str) -> bool:
    if args.yes:
        return True
    if not is_interactive():
        raise Invalid("nothing was changed: nobody can confirm it here", hint="add --yes")
    return confirm(question)


def _declined(args: argparse.Namespace) -> int:
    screen_of(args).line("Nothing was changed.")
    return FOUND_PROBLEMS


def _apply(root: str, changes: list[FileChange], record: SetupRecord, wanted: list[SettingsFile]) -> None:
    """Write the files; what they were before is on record first."""
    states = record.load()
    removers = {file.path: file.remove for file in wanted}
    for change in changes:
        assert change.after is not None  # noqa: S101  # additions remove no file
        before = change.before.encode() if change.exists else None
        first = states.get(change.path)
        if first is not None and before is not None:
            if digest(before) == first.after:
                before = first.before
            elif change.path in removers:  # changed by others since: what is theirs stays
                before = removers[change.path](change.before).encode()
        states[change.path] = FirstState(before, digest(change.after.encode()))
    record.save(states)
    for change in changes:
        files.replace(_place(root, change.path), (change.after or "").encode())


def _remove(args: argparse.Namespace, root: str, wanted: list[SettingsFile], record: SetupRecord) -> int:
    """Restore each file that is as setup left it; from others, take out what is Parley's."""
    states = record.load()
    plan = SetupPlan([], [])
    for file in wanted:
        path = _place(root, file.path)
        state = states.get(file.path)
        text = files.read_text(path) if os.path.exists(path) else None
        if text is not None and state is not None and digest(text.encode()) == state.after:
            after = state.before.decode() if state.before is not None else None
            plan.changes.append(FileChange(file.path, True, text, after))
        elif text is not None and file.is_whole and not file.remove(text):
            plan.changes.append(FileChange(file.path, True, text, None))
        elif text is not None:
            _plan_file(plan, root, file, file.remove)
    gone = tuple(file.path for file in wanted)
    exclude = files.read_text(os.path.join(root, _EXCLUDE)) or ""
    if (remaining := without_lines(exclude, gone)) != exclude:
        state = states.get(_EXCLUDE)
        after = None if state is not None and state.before is None and not remaining else remaining
        plan.changes.append(FileChange(_EXCLUDE, True, exclude, after))
    if args.json and not args.yes and not args.show:
        raise Invalid("--json cannot ask", hint="add --yes or --print")
    _show_plan(args, plan)
    if plan.changes and not args.show:
        if not _confirm(args, f"Change {count_of(len(plan.changes), 'file')}?"):
            return _declined(args)
        for change in plan.changes:
            path = _place(root, change.path)
            if change.after is None:
                files.remove(path, root if path.startswith(f"{root}/") else os.path.expanduser("~/.gemini"))
            else:
                files.replace(path, change.after.encode())
        record.save({path: state for path, state in states.items() if path not in {c.path for c in plan.changes}})
    _show_end(args, plan, [], [])
    return FOUND_PROBLEMS if plan.left else OK


def _report_check(args: argparse.Namespace, plan: SetupPlan, tools: str) -> int:
    missing = [change.path for change in plan.changes if change.path != _EXCLUDE]
    missing += [path for path, _, _ in plan.left]
    screen = screen_of(args)
    if args.json:
        screen.json({"set_up": not missing and tools in ("", TOOLS_ADDED), "missing": missing, "tools": tools or None})
    elif missing:
        screen.line(f"Not set up: {', '.join(missing)}. Run: {' '.join(('parley setup', *args.harness))}")
    elif tools in ("", TOOLS_ADDED):
        screen.line("Set up.")
    else:
        screen.line(f"Files: set up. Tools of Claude Code: {tools}. {tools_step(tools)}")
    return FOUND_PROBLEMS if missing or tools not in ("", TOOLS_ADDED) else OK


def claude_tools(root: str, settings: Settings) -> str:
    """Whether Claude Code has the tools, by its own files: added, not added, or not known if one cannot be read."""
    own = (os.path.join(root, ".mcp.json"), claude_config_file(settings))
    try:
        names = [name for path in own for name in mcp_servers(files.read_text(path) or "", root)]
    except ParleyError:
        return TOOLS_NOT_KNOWN
    return TOOLS_ADDED if _NAME in names else TOOLS_NOT_ADDED


def tools_step(tools: str) -> str:
    """The sentence with the command that adds the tools to Claude Code, or that finds out whether it has them."""
    if tools == TOOLS_NOT_KNOWN:
        return "A settings file of Claude Code cannot be read. Ask it with: claude mcp get parley"
    return f"Add them with: {claude_server_command(_command(shared=False))}"


def _manual_steps(harness: str, tools: str, *, shared: bool) -> list[str]:
    """What only the user can do."""
    if harness == "claude" and not shared:
        steps = ["Claude Code: accept this folder when it asks at the next start."]
        if tools != TOOLS_ADDED:
            steps.insert(0, f"Claude Code: add the tools with: {claude_server_command(_command(shared=False))}")
        return steps
    if harness == "codex":
        return ["Codex: choose Trust when it asks about hooks at the next start."]
    return []


def _show_plan(args: argparse.Namespace, plan: SetupPlan) -> None:
    if args.json:
        return
    from difflib import unified_diff

    screen = screen_of(args)
    for change in plan.changes:
        after = change.after or ""
        old, new = change.before.splitlines(), after.splitlines()
        before = change.path if change.exists else os.devnull
        now = change.path if change.after is not None else os.devnull
        for line in unified_diff(old, new, before, now, lineterm=""):
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            screen.line(screen.paint(safe(line), colour))


def _show_end(args: argparse.Namespace, plan: SetupPlan, notes: list[str], harnesses: list[str]) -> None:
    screen = screen_of(args)
    if args.json:
        actions = [
            {"file": change.path, "action": _action(change), "before": change.before, "after": change.after}
            for change in plan.changes
        ]
        left = [{"file": path, "reason": reason, "add": snippet} for path, reason, snippet in plan.left]
        screen.json({"changes": actions, "left": left, "notes": notes})
        return
    if not plan.changes and not plan.left:
        screen.line(_nothing_to_do(harnesses) if harnesses else "Nothing to remove.")
    for change in plan.changes:
        screen.line(f"{'Would be ' if args.show else ''}{_action(change)}: {safe(change.path)}")
    for path, reason, snippet in plan.left:
        screen.line(screen.paint(f"note: {safe(reason)}. Edit {safe(path)} by hand:", "yellow"))
        if not args.remove:
            screen.line(safe_text(snippet).rstrip("\n"))
    for note in notes:
        screen.line(safe(note))


def _nothing_to_do(harnesses: list[str]) -> str:
    *others, last = harnesses
    names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    return f"Nothing to do: {names} set up."


def _action(change: FileChange) -> str:
    if change.after is None:
        return "removed"
    return "changed" if change.exists else "created"


COMMANDS = {
    "setup": Command(
        "Let coding agents notice their messages",
        _add_setup,
        _setup,
        (
            "parley setup claude",
            "parley setup claude codex",
            "parley setup codex --print",
            "parley setup --check",
            "parley setup claude --remove --print",
        ),
    ),
}
