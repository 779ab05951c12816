"""The settings files of coding agents: what Parley adds to them, and how to take it out again; pure.

Own entries are recognised by their command, wherever they stand and whatever folder `parley` is in. A file that cannot
be edited without losing something (comments, keys that occur twice, another table of our name) is refused.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    Document = dict[str, Any]
    Edit = Callable[[Document], None]

HARNESSES = ("claude", "codex", "gemini", "opencode")
_HOOK_SECONDS = 10
_END_SECONDS = 2
_WAIT_SECONDS = 86_400
_TOOL_SECONDS = 65  # longer than a tool waits
_EVENTS = {
    "claude": ("SessionStart", "UserPromptSubmit", "PostToolBatch", "Stop", "SessionEnd"),
    "codex": ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"),
    "gemini": ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"),
}
_END_EVENT = "SessionEnd"
# When Claude Code starts a process that may wake it.
_WAIT_EVENTS = ("SessionStart", "Stop", "FileChanged")
_BEGIN, _END = "# parley:begin", "# parley:end"
_PLUGIN_MARK = "// parley:"
_CLAUDE_TOOLS = "mcp__parley"


class SettingsFile(NamedTuple):
    """A file to edit, by its path in the repository. `add` and `remove` make the new text of the old one."""

    path: str
    add: Callable[[str], str]
    remove: Callable[[str], str]
    # What a person adds by hand where the file cannot be edited.
    snippet: str
    # Nothing in it is of others: without what Parley adds there is no file.
    is_whole: bool = False


def settings_files(
    harness: str, parley: str, *, shared: bool, codex: str = "", plugin: str = ""
) -> tuple[SettingsFile, ...]:
    """The files of a coding agent. `parley` is the command: its path, or its name in files that a team shares. `codex`
    is the path of Codex, if it has to be named, and `plugin` the text of the plugin for OpenCode.
    """
    hook = _HookCommands(harness, parley, shared=shared)
    server: Document = {"command": parley, "args": ["mcp", "--for", harness]}
    if harness == "claude":
        return _claude_files(hook, server, shared=shared)
    if harness == "codex":
        return (_json_file(".codex/hooks.json", [_hooks(hook)]), _codex_config(parley, codex))
    if harness == "gemini":
        edits = [_hooks(hook), _member("mcpServers", "parley", {**server, "trust": True})]
        return (_json_file(".gemini/settings.json", edits),)
    local = {"type": "local", "command": [parley, *server["args"]], "enabled": True}
    tools = _json_file("opencode.json", [_opencode_schema(), _member("mcp", "parley", local)])
    return (tools, _plugin_file(".opencode/plugin/parley.js", plugin, parley))


def claude_server_command(parley: str) -> str:
    """The command with which a user adds the tools to Claude Code for itself: that file is Claude Code's own."""
    server = {"type": "stdio", "command": parley, "args": ["mcp", "--for", "claude"], "alwaysLoad": True}
    return f"claude mcp add-json parley {shlex.quote(json.dumps(server))}"


def mcp_servers(text: str, root: str) -> list[str]:
    """The names of the MCP servers in a file of Claude Code: for every folder, and for the folder `root`."""
    document = _read_json(text, "the settings of Claude Code")
    folders = document.get("projects")
    own = folders.get(root) if isinstance(folders, dict) else None
    servers = [part.get("mcpServers") for part in (document, own) if isinstance(part, dict)]
    return [str(name) for part in servers if isinstance(part, dict) for name in part]


class _HookCommands:
    """The hooks of a coding agent, by event, and which of those in a file are Parley's."""

    def __init__(self, harness: str, parley: str, *, shared: bool) -> None:
        self.harness = harness
        self._parley = f"{'command -v parley >/dev/null || exit 0; exec ' if shared else ''}{shlex.quote(parley)}"
        self._own = re.compile(rf"parley'? hook( wait)? --for {harness}$")

    @property
    def events(self) -> tuple[str, ...]:
        waits = _WAIT_EVENTS if self.harness == "claude" else ()
        return tuple(dict.fromkeys((*_EVENTS[self.harness], *waits)))

    def entries(self, event: str) -> list[Document]:
        """What belongs to an event."""
        entries: list[Document] = []
        if event in _EVENTS[self.harness]:
            seconds = _END_SECONDS if event == _END_EVENT else _HOOK_SECONDS
            gemini = self.harness == "gemini"
            entry = {"type": "command", "command": self._command("hook"), "timeout": seconds * (1000 if gemini else 1)}
            entries.append({"name": "parley", **entry} if gemini else entry)
        if self.harness == "claude" and event in _WAIT_EVENTS:
            entry = {"type": "command", "command": self._command("hook wait"), "asyncRewake": True}
            entries.append({**entry, "timeout": _WAIT_SECONDS})
        return entries

    def _command(self, words: str) -> str:
        return f"{self._parley} {words} --for {self.harness}"

    def kind_of(self, hook: object) -> str | None:
        """Which of Parley's commands a hook runs: "", " wait", or None for one of others."""
        command = hook.get("command") if isinstance(hook, dict) else None
        own = self._own.search(command) if isinstance(command, str) else None
        return (own[1] or "") if own else None


def _claude_files(hook: _HookCommands, server: Document, *, shared: bool) -> tuple[SettingsFile, ...]:
    edits = [_items("permissions", "allow", _CLAUDE_TOOLS), _hooks(hook)]
    if not shared:
        return (_json_file(".claude/settings.local.json", edits),)
    edits.append(_items("", "enabledMcpjsonServers", "parley"))
    tools = _member("mcpServers", "parley", {"type": "stdio", **server, "alwaysLoad": True})
    return (_json_file(".claude/settings.json", edits), _json_file(".mcp.json", [tools]))


class _JsonEdit(NamedTuple):
    """One change of a document, and its opposite."""

    add: Edit
    remove: Edit


def _json_file(path: str, edits: list[_JsonEdit]) -> SettingsFile:
    def change(text: str, edit_all: Callable[[Document], None]) -> str:
        document = _read_json(text, path)
        before = json.dumps(document)
        edit_all(document)
        return text if json.dumps(document) == before else _write_json(document, text)

    def add_all(document: Document) -> None:
        for edit in edits:
            edit.add(document)

    def remove_all(document: Document) -> None:
        for edit in reversed(edits):
            edit.remove(document)

    wanted: Document = {}
    add_all(wanted)
    return SettingsFile(
        path,
        lambda text: change(text, add_all),
        lambda text: change(text, remove_all) if text.strip() else text,
        json.dumps(wanted, indent=2),
    )


def _read_json(text: str, path: str) -> Document:
    if not text.strip():
        return {}
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise Invalid(f"{path} is not plain JSON, or has comments; it is left as it is") from None
    if not isinstance(document, dict):
        raise Invalid(f"{path} is not a JSON object; it is left as it is")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> Document:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _write_json(document: Document, before: str) -> str:
    """In the indentation of the text before."""
    indent = re.search(r'^[{\[]\s*?\n([ \t]+)"', before)
    text = json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False)
    return text if before.strip() and not before.endswith("\n") else f"{text}\n"


def _part(document: Document, name: str, kind: type[Any]) -> Any:  # noqa: ANN401  # a list or an object
    """A part of a document, made where it is missing."""
    part = document.setdefault(name, kind())
    if not isinstance(part, kind):
        raise Invalid(f"{name} is no {'object' if kind is dict else 'list'}; the file is left as it is")
    return part


def _drop_empty(document: Document, *names: str) -> None:
    for name in names:
        if name in document and document[name] in ({}, []):
            del document[name]


def _items(parent: str, name: str, item: str) -> _JsonEdit:
    """An item of a list, of the document or of an object in it."""

    def add(document: Document) -> None:
        items = _part(_part(document, parent, dict) if parent else document, name, list)
        if item not in items:
            items.append(item)

    def remove(document: Document) -> None:
        holder = document.get(parent) if parent else document
        if isinstance(holder, dict) and isinstance(holder.get(name), list) and item in holder[name]:
            holder[name].remove(item)
            _drop_empty(holder, name)
            _drop_empty(document, parent)

    return _JsonEdit(add, remove)


def _member(parent: str, name: str, value: Document) -> _JsonEdit:
    """A member of an object of the document; one that is not ours is left alone."""

    def is_own(member: object) -> bool:
        words = json.dumps(member)
        return '"mcp", "--for"' in words and "parley" in words

    def add(document: Document) -> None:
        members = _part(document, parent, dict)
        if name in members and not is_own(members[name]):
            raise Invalid(f"{parent} has another {name} already; the file is left as it is")
        members[name] = value

    def remove(document: Document) -> None:
        members = document.get(parent)
        if isinstance(members, dict) and is_own(members.get(name)):
            del members[name]
            _drop_empty(document, parent)

    return _JsonEdit(add, remove)


def _plugin_file(path: str, plugin: str, parley: str) -> SettingsFile:
    """A file that is Parley's as a whole; its first line says so."""
    text = plugin.replace('"__PARLEY__"', json.dumps(parley))

    def add(before: str) -> str:
        if before.strip() and not before.startswith(_PLUGIN_MARK):
            raise Invalid(f"{path} is not Parley's; it is left as it is")
        return text

    def remove(before: str) -> str:
        return "" if before.startswith(_PLUGIN_MARK) else before

    return SettingsFile(path, add, remove, text, is_whole=True)


def _opencode_schema() -> _JsonEdit:
    """The schema in a new file: OpenCode adds it at its first start, and the file would no longer be as it was left."""

    schema = {"$schema": "https://opencode.ai/config.json"}

    def add(document: Document) -> None:
        if not document:
            document.update(schema)

    def remove(document: Document) -> None:
        if document == schema:
            document.clear()

    return _JsonEdit(add, remove)


def _hooks(commands: _HookCommands) -> _JsonEdit:
    """The hooks at each event, behind those of others: Codex trusts hooks by their place."""

    def own_hooks(groups: list[Any]) -> list[Document]:
        inner = [group["hooks"] for group in groups if isinstance(group, dict) and isinstance(group.get("hooks"), list)]
        return [hook for hooks in inner for hook in hooks if commands.kind_of(hook) is not None]

    def add(document: Document) -> None:
        events = _part(document, "hooks", dict)
        for event in commands.events:
            groups = _part(events, event, list)
            present = own_hooks(groups)
            missing = []
            for entry in commands.entries(event):
                same = [hook for hook in present if commands.kind_of(hook) == commands.kind_of(entry)]
                for hook in same:
                    hook.clear()
                    hook.update(entry)
                missing += [] if same else [dict(entry)]
            if missing:
                groups.append({"hooks": missing})

    def remove(document: Document) -> None:
        events = document.get("hooks")
        if not isinstance(events, dict):
            return
        for event in commands.events:
            groups = events.get(event)
            if isinstance(groups, list) and own_hooks(groups):
                for group in groups:
                    if isinstance(group, dict) and isinstance(group.get("hooks"), list):
                        group["hooks"] = [hook for hook in group["hooks"] if commands.kind_of(hook) is None]
                events[event] = [group for group in groups if group != {"hooks": []}]
                _drop_empty(events, event)
        _drop_empty(document, "hooks")

    return _JsonEdit(add, remove)


def _codex_config(parley: str, codex: str) -> SettingsFile:
    path = ".codex/config.toml"
    arguments = ["mcp", "--for", "codex", *(("--codex", codex) if codex else ())]
    # JSON text is TOML text, too.
    table = (
        "[mcp_servers.parley]\n"
        f"command = {json.dumps(parley)}\n"
        f"args = {json.dumps(arguments)}\n"
        'default_tools_approval_mode = "approve"\n'
        f"tool_timeout_sec = {_TOOL_SECONDS}\n"
    )
    block = f"{_BEGIN}\n{table}{_END}\n"
    marked = re.compile(rf"\n?^{_BEGIN}$.*?^{_END}$\n?", re.DOTALL | re.MULTILINE)

    def add(text: str) -> str:
        rest = marked.sub("", text)
        if "parley" in _read_toml(rest, path).get("mcp_servers", {}):
            raise Invalid(f"{path} has another table mcp_servers.parley already; the file is left as it is")
        if marked.search(text):
            return marked.sub(lambda match: match[0][: match[0].index(_BEGIN)] + block, text)
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{block}"

    return SettingsFile(path, add, lambda text: marked.sub("", text), table)


def _read_toml(text: str, path: str) -> Document:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        raise Invalid(f"{path} is not TOML; it is left as it is") from None


def exclude_lines(text: str, paths: tuple[str, ...]) -> str:
    """The text of git's exclude file with these paths, so that personal files are not offered for a commit."""
    missing = [f"/{path}" for path in paths if f"/{path}" not in text.splitlines() and not path.startswith("~/")]
    gap = "" if not text or text.endswith("\n") else "\n"
    return text + gap + "".join(f"{line}\n" for line in missing) if missing else text


def without_lines(text: str, paths: tuple[str, ...]) -> str:
    """The same file without them."""
    dropped = {f"/{path}" for path in paths}
    return "".join(line for line in text.splitlines(keepends=True) if line.rstrip("\n") not in dropped)
