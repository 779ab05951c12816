"""docs/reference/settings.md: every setting."""

from __future__ import annotations

from collections.abc import Iterator

from parley import settings
from parley.domain.limits import HARD_FILE_BYTES
from tools.reference.markdown import table

SETTING_MEANINGS = {
    "home": "the folder that holds all projects; empty: found from the working directory, else `~/oacp`, see below",
    "project": "the project; empty: found from the working directory, else the only one there is, see below",
    "agent": "who acts, on a server too; empty: in a mailbox the agent whose card or name fits the runtime, see below",
    "lease": "how long `parley next` and `parley extend` hold a message",
    "wakes_per_hour": "how often in an hour a coding agent is woken, or kept from going idle; 0 is never",
    "quiet_hours": "when it never does, in local time, such as `22:00-07:00`",
    "wake": "which idle sessions of a coding agent are woken for messages: `always`, `attended` (by a person), `never`",
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
    "context": "the saved login to use (see `parley context list`)",
    "intent": "the intent of commands that name none, by its title or id",
    "human_key": "a person's key, for decisions in a mailbox; `parley config` does not print it",
    "admin_key": "the first admin key of a new server, instead of one that it makes up",
    "data": "where a server keeps everything; empty: `~/.local/share/parley` (or under `$XDG_DATA_HOME`)",
    "host": "the address that `parley up` listens on",
    "port": "the port that `parley up` listens on; 0 takes any free one",
    "allowed_hosts": "further names that the server answers to, with commas between them",
    "trusted_proxies": "addresses or networks of proxies in front of the server, with commas between them: their"
    " `X-Forwarded-For` names the client, and their connections are not counted by address",
    "checkpoints": "where a server keeps signed checkpoints of its audit logs, best on another disk; empty:"
    " `checkpoints` beside its store",
    "store": "the PostgreSQL database that several servers share, as `postgresql://user@host/database`; empty: a file"
    " in `data`",
    "store_connections": "connections that a server may have to it, 4 at least",
    "node": "the name of this server among those that share a store; empty: its machine and port",
    "linger": "seconds for which a server that was asked to stop says so and goes on, so that a balancer can look"
    " elsewhere",
    "new_intents": "who has access to a new intent whose creator does not say: `closed` (its creator) or `open` (every"
    " agent)",
    "event_names": "how the type of an audited message is spelled: `rfc` (channel_message) or `sdk` (channel.message)",
    "plain_http": "where clients send a key over http:// to: to `loopback` addresses only, or to `any`",
    "approval_links": "whether people may create links by which they decide without signing in: `off` or `decide`",
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
    "intents_per_agent": "intents that one agent creates",
    "agents_per_tenant": "registered agents of one tenant",
    "keys_per_tenant": "keys of one tenant",
    "webhooks_per_tenant": "webhooks of one tenant",
    "webhooks_per_agent": "webhooks of one agent",
    "tasks_per_intent": "tasks of one intent",
    "timers_per_agent": "timers of one agent",
    "timer_days": "days until a timer is due, at most",
    "streams_per_key": "open streams of one key",
    "streams": "open streams in all",
    "requests_per_second": "requests of one key a second, on a server that other machines can reach",
    "requests_burst": "requests that one key may make at once",
    "failed_logins_per_minute": "wrong keys from one address a minute",
    "decisions_per_minute": "decisions of one person about held messages a minute",
    "connections": "open connections in all",
    "connections_per_address": "open connections from one address; not counted on this machine, for"
    " `trusted_proxies`, and with `--behind-proxy` unless they are named",
    "idle_seconds": "seconds that a connection stays open without a request",
    "stranger_idle_seconds": "the same for a connection on which no valid key was shown",
    "ask_seconds": "seconds that a question may wait for its answer",
    "expiry_days": "days until a message expires, at most",
    "idempotency_hours": "hours that an `Idempotency-Key` is remembered",
    "retention_days": "days that messages of a closed channel stay readable; 0: none",
    "audit_retention_days": "days that audit entries keep their documents, their hashes stay; 0: for ever",
}
SETTING_GROUPS = ("Mailboxes", "Commands on a server", "The server", "Limits of the server")
SETTINGS_INTRO = """\
# Settings

A flag wins over an environment variable, that over `parley.toml`, that over the user's `~/.config/parley/parley.toml`
(or under `$XDG_CONFIG_HOME`), that over the default. `parley config` prints each value, where it came from, and the
files that were read. An unknown name in a file, or a bad value, is an error (`bad_config`, exit code 78).

`parley.toml` is looked for in the working directory and upwards, up to the root of the git repository or your home
directory, whichever comes first; outside of both, only in the working directory. If there are several, each setting
comes from the nearest one that has it. Paths in a file (`home`, `data`, `checkpoints`, `rego`, `approvals_home`) are
relative to that file. A file above the working directory that belongs to another user is refused.

A variable `PARLEY_...` that is not a setting may belong to another program or version, so commands ignore it and
`parley config` lists it. `parley up` refuses one that looks like a misspelt setting, because what it should limit or
protect would be missing; it logs a warning about any other.
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

## How home and project of a mailbox are found

The first of these that names one decides:

1. the flag (`--home`, `--project`), then the variable;
2. going up from the working directory, the nearest folder with a `parley.toml` that has `home` or `project`, a link
   `.oacp` to the `workspace.json` of a project, or a folder `.parley/` that holds `projects/`. `parley.toml` and
   `.parley/` are looked for as above, `.oacp` up to the root of the file system. A linked git worktree belongs to its
   repository, so the files there count, too;
3. the project: `repo_path` in the `workspace.json` of a project of the home (`parley init NAME --repo .` writes it),
   if it is the working directory or above it; the nearest one;
4. the user's file; the home `~/oacp`; the only project of the home. Inside a repository, a project that belongs to
   another repository is not taken for that.

Two that disagree in one folder, or two projects with the same `repo_path`, are an error (`ambiguous`, exit code 4)
that names both. Parley never chooses one of them.

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


def settings_page() -> Iterator[str]:
    yield SETTINGS_INTRO
    defaults = settings._TEXTS | settings._LIMITS | settings._team_defaults()
    rows: dict[str, list[tuple[str, ...]]] = {title: [] for title in SETTING_GROUPS}
    for name in defaults:
        variables = [f"PARLEY_{name.upper()}", *settings._OACP_VARIABLES.get(name, ())]
        shown = ", ".join(f"`{variable}`" for variable in variables)
        row = (f"`{name}`", f"`{defaults[name]}`" if defaults[name] else "", shown, SETTING_MEANINGS[name])
        rows[setting_group(name)].append(row)
    for title, of_group in rows.items():
        yield f"## {title}"
        yield ""
        yield from table(("name", "default", "environment", "meaning"), of_group)
        yield ""
    yield SETTINGS_RUNTIME.format(runtimes=", ".join(sorted(settings.RUNTIMES)))
    yield from table(("variable", "runtime"), ((f"`{mark}`", runtime) for mark, runtime in settings._RUNTIME_VARIABLES))
    yield SETTINGS_END


def setting_group(name: str) -> str:
    mailbox, remote_commands, server, limits = SETTING_GROUPS
    if name in settings._team_defaults():
        return limits
    if name in {"url", "key"}:
        return remote_commands
    beyond = list(settings._TEXTS)[list(settings._TEXTS).index("url") :]
    return server if name in beyond else mailbox
