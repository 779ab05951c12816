"""Saved logins: log in, choose a context, log out. Each wrong input with the sentence that a user reads."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import parley
from parley.domain.errors.team import Unauthorized
from tests.surface.cli.team_stage import Server, Team
from tests.surface.stage import Ran, Stage, parley_script
from tests.unit.sdk.peer import a_peer, nobodys_port
from tests.unit.sdk.peer import answer as kept_open
from tests.unit.sdk.peer import refused as refused_kept_open


@pytest.fixture
def team(team: Team) -> Team:
    """A server that the environment does not name."""
    for name in ("PARLEY_URL", "PARLEY_KEY"):
        team.stage.patch.delenv(name)
    return team


def answer(document: object, status: str = "200 OK", *more: str) -> bytes:
    """An answer after which the peer takes the next connection: a command leaves its own open."""
    return kept_open(document, status, "Connection: close", *more)


def refused(status: str, code: str) -> bytes:
    return refused_kept_open(status, code, "Connection: close")


def file_of(stage: Stage) -> Path:
    return Path(os.environ["HOME"]) / ".config" / "parley" / "logins.json"


def logins(stage: Stage) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file_of(stage).read_text(encoding="utf-8"))
    return document


def log_in(team: Team, *words: str, key: str = "", url: str = "") -> Ran:
    return team.run("login", url or team.server.url, *words, stdin=(key or team.server.key).encode() + b"\n")


def new_key(server: Server, *words: str) -> dict[str, Any]:
    """A key that an admin creates on another machine."""
    kinds = {"--agent": "agent", "--user": "human"}
    with parley.Client(server.url, key=server.key) as client:
        made = client.create_key(kinds[words[0]], **{"agent_id" if words[0] == "--agent" else "user_id": words[1]})
    return {"id": made.id, "key": made.key}


def error_of(ran: Ran) -> tuple[str, str, str]:
    """Code, message and hint of an error."""
    error = json.loads(ran.err)["error"]
    return error["code"], error["message"], error["hint"]


# ---------------------------------------------------------------- log in and out


def test_after_a_login_commands_and_programs_need_neither_address_nor_key(team: Team) -> None:
    ran = log_in(team)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f'Logged in to {team.server.url} as admin, tenant default\nSaved as context "local", now in use\n'
    )
    assert team.said("intent", "list")
    with parley.Client() as client:
        assert client.whoami().kind == "admin"


def test_the_saved_key_is_for_this_user_alone(team: Team) -> None:
    log_in(team)

    path = file_of(team.stage)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_on_a_terminal_the_key_is_typed_and_not_shown(team: Team) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [parley_script(), "login", team.server.url], stdin=theirs, stdout=theirs, stderr=theirs
    ) as run:
        os.close(theirs)
        shown = ""
        while "(it is not shown): " not in shown:
            shown += os.read(ours, 65_536).decode()
        os.write(ours, f"{team.server.key}\n".encode())
        with suppress(OSError):  # the end of a terminal whose last process has ended
            while piece := os.read(ours, 65_536):
                shown += piece.decode()
        assert run.wait(60) == 0
    os.close(ours)

    assert f"Key for {team.server.url} (it is not shown): " in shown
    assert "Saved as context" in shown
    assert team.server.key not in shown


def test_whoami_says_server_context_kind_holder_roles_and_tenant(team: Team) -> None:
    with parley.Client(team.server.url, key=team.server.key) as client:
        client.grant_role("reviewer", "whoami-bot")
    log_in(team, key=new_key(team.server, "--agent", "whoami-bot")["key"])

    ran = team.run("whoami")
    document = team.said("whoami")

    assert ran.out == (
        f"server: {team.server.url}\ncontext: local\nkey: agent, from context local\n"
        "agent: whoami-bot\nroles: reviewer\ntenant: default\n"
    )
    assert document["agent_id"] == "whoami-bot"
    assert (document["kind"], document["context"], document["roles"]) == ("agent", "local", ["reviewer"])


def test_no_command_about_logins_prints_a_key(team: Team) -> None:
    key = team.server.key
    shown = [log_in(team), log_in(team, "--json", "--context", "two")]
    for words in (["whoami"], ["context", "list"], ["context", "show"], ["context", "use", "local"], ["config"]):
        shown += [team.run(*words), team.run(*words, "--json")]
    shown += [team.run("context", "rename", "local", "one", "--json"), team.run("logout", "--json")]

    assert [ran.code for ran in shown] == [0] * len(shown)
    assert key not in "".join(ran.out + ran.err for ran in shown)


def test_a_second_login_of_the_same_holder_replaces_its_key(team: Team) -> None:
    log_in(team, key=new_key(team.server, "--user", "bea")["key"])
    second = new_key(team.server, "--user", "bea")["key"]

    log_in(team, key=second)

    assert logins(team.stage)["contexts"].keys() == {"local"}
    assert logins(team.stage)["contexts"]["local"]["key"] == second


def test_a_login_of_another_holder_or_server_is_never_overwritten(team: Team) -> None:
    log_in(team)
    log_in(team, key=new_key(team.server, "--user", "bea")["key"])
    with a_peer(answer({"kind": "admin", "tenant_id": "t", "key_id": "key_x"})) as peer:
        ran = log_in(team, url=peer.url, key="pk_other")

    assert ran.code == 0, ran.err
    urls = {name: login["url"] for name, login in logins(team.stage)["contexts"].items()}
    assert urls == {"local": team.server.url, "local-bea": team.server.url, "local-2": peer.url}


def test_a_name_of_another_server_is_refused(team: Team) -> None:
    log_in(team, "--context", "work")
    with a_peer(answer({"kind": "admin", "tenant_id": "t", "key_id": "key_x"})) as peer:
        ran = log_in(team, "--context", "work", "--json", url=peer.url, key="pk_other")

    assert error_of(ran) == (
        "invalid",
        f'context "work" is for {team.server.url} (admin)',
        "use another name, or remove it first: parley context remove work",
    )
    assert logins(team.stage)["contexts"]["work"]["key"] == team.server.key


def test_after_a_logout_no_key_is_left_and_no_other_login_is_used(team: Team) -> None:
    log_in(team)
    log_in(team, key=new_key(team.server, "--user", "bea")["key"])

    ran = team.run("logout")
    after = team.run("intent", "list", "--json")

    assert ran.out == (
        f"Logged out: local-bea ({team.server.url})\n"
        "The key is still valid; an admin can end it with: parley key revoke KEY\n"
        "No login is in use now; choose one of local: parley context use NAME\n"
    )
    assert error_of(after) == (
        "ambiguous",
        f"no saved login is in use; there is local ({team.server.url}, admin)",
        "choose one with --context NAME, or for all commands with: parley context use NAME",
    )
    assert team.run("logout", "--all").code == 0
    assert "pk_" not in file_of(team.stage).read_text(encoding="utf-8")


# ---------------------------------------------------------------- contexts


def test_a_context_is_listed_used_shown_renamed_and_removed(team: Team) -> None:
    log_in(team)
    log_in(team, "--context", "bea", "--no-use", key=new_key(team.server, "--user", "bea")["key"])

    listed = team.run("context", "list").out.splitlines()
    assert [line.split()[:3] for line in listed[1:]] == [["bea", "human", "bea"], ["*", "local", "admin"]]
    assert team.run("context", "use", "bea").out == (f'Now in use: context "bea", {team.server.url} as human bea\n')
    assert team.said("whoami")["user_id"] == "bea"
    assert team.said("context", "show")["name"] == "bea"
    assert team.run("context", "rename", "bea", "me").out == 'Renamed context "bea" to "me"\n'
    assert team.said("whoami")["context"] == "me"
    assert team.run("context", "remove", "me").out.startswith('Removed context "me"; its key is still valid\n')
    assert [login["name"] for login in team.said("context", "list")] == ["local"]


@pytest.mark.parametrize("words", [("context", "use"), ("context", "show"), ("context", "remove"), ("logout",)])
def test_an_unknown_context_names_near_misses(team: Team, words: tuple[str, ...]) -> None:
    log_in(team, "--context", "staging")

    assert error_of(team.run(*words, "stagin", "--json")) == (
        "not_found",
        'no context "stagin"',
        'did you mean "staging"?',
    )
    assert error_of(team.run("whoami", "--context", "other", "--json"))[1:] == (
        'no context "other"',
        "see: parley context list",
    )


def test_two_logins_for_one_address_are_an_error_that_names_both(team: Team) -> None:
    log_in(team, "--context", "one")
    log_in(team, "--context", "two", key=new_key(team.server, "--user", "bea")["key"])
    team.run("context", "remove", "two")
    log_in(team, "--context", "two", "--no-use", key=new_key(team.server, "--user", "bea")["key"])
    with a_peer(answer({"kind": "admin", "tenant_id": "t", "key_id": "key_x"})) as peer:
        log_in(team, url=peer.url, key="pk_other")

    ran = team.run("whoami", "--url", team.server.url, "--json")

    assert error_of(ran) == (
        "ambiguous",
        f"2 saved logins for {team.server.url}: one ({team.server.url}, admin), two ({team.server.url}, human bea)",
        "choose one with --context NAME, or for all commands with: parley context use NAME",
    )
    assert team.run("whoami", "--url", team.server.url, "--context", "two").code == 0


def test_without_logins_the_commands_say_what_to_do(stage: Stage) -> None:
    assert stage.run("context", "list").out == (
        "No saved logins. Log in with: parley login URL; or start a server of your own: parley up\n"
    )
    assert error_of(stage.run("logout", "--json"))[1:] == ("no login is saved", "see: parley context list")
    assert error_of(stage.run("context", "show", "--json"))[1] == "no login is saved"
    assert not file_of(stage).exists()


def test_what_goes_before_a_saved_login_is_said(team: Team) -> None:
    team.stage.patch.setenv("PARLEY_KEY", "pk_x")

    assert log_in(team).err == "note: $PARLEY_KEY goes before saved logins\n"


def test_config_shows_where_address_and_key_come_from(team: Team) -> None:
    log_in(team)
    before = team.said("config")
    team.stage.patch.setenv("PARLEY_KEY", "pk_x")
    after = team.said("config")

    assert before["url"] == {"value": team.server.url, "source": "context local"}
    assert before["key"] == {"value": "(set)", "source": "context local"}
    assert before["context"] == {"value": "local", "source": str(file_of(team.stage))}
    assert after["key"] == {"value": "(set)", "source": "$PARLEY_KEY"}
    assert after["url"] == {"value": team.server.url, "source": "context local"}


# ---------------------------------------------------------------- keys of others


def test_a_new_key_is_saved_under_the_name_of_its_holder_and_not_printed(team: Team) -> None:
    log_in(team)

    ran = team.run("key", "create", "--user", "cleo", "--save")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith(' for human cleo; saved as context "cleo"\n')
    assert "pk_" not in ran.out
    assert team.said("whoami", "--context", "cleo")["user_id"] == "cleo"
    assert team.said("whoami")["kind"] == "admin"


def test_a_key_is_not_created_when_it_could_not_be_saved_under_its_name(team: Team) -> None:
    log_in(team, "--context", "dora")
    before = len(team.said("key", "list"))

    ran = team.run("key", "create", "--user", "dora", "--save", "--json")

    assert error_of(ran)[1] == f'context "dora" is for {team.server.url} (admin)'
    assert len(team.said("key", "list")) == before
    assert error_of(team.run("key", "create", "--kind", "service", "--save", "--json"))[1:] == (
        "--save needs a name for a key of this kind",
        "write --save NAME",
    )


def test_a_saved_key_that_is_rotated_is_replaced_where_it_was_saved(team: Team) -> None:
    log_in(team)
    team.run("key", "create", "--agent", "rota", "--save")

    ran = team.run("key", "rotate", "rota")

    assert ran.err.endswith("note: saved in context rota\n")
    assert team.said("whoami", "--context", "rota")["agent_id"] == "rota"


# ---------------------------------------------------------------- keys and addresses


def test_a_saved_key_is_not_sent_to_another_address(team: Team) -> None:
    log_in(team)
    with a_peer(*[refused("401 Unauthorized", "unauthorized")] * 3) as peer:
        team.stage.patch.setenv("PARLEY_URL", peer.url)
        ran = team.run("intent", "list", "--json")
        with parley.Client() as client, pytest.raises(Unauthorized):
            client.list_agents()
        with parley.Client(peer.url) as client, pytest.raises(Unauthorized):
            client.list_agents()

    assert len(peer.got) == 3
    assert [got.headers.get("x-api-key") for got in peer.got] == [None] * 3
    assert team.server.key not in str(peer.got)
    assert error_of(ran)[2] == (
        f"there is no key for {peer.url}; saved are local ({team.server.url}, admin); "
        f"log in with: parley login {peer.url}"
    )


def test_a_redirect_takes_no_key_elsewhere(team: Team) -> None:
    with a_peer(answer({})) as elsewhere:
        location = f"Location: {elsewhere.url}/api/v1/whoami"
        with a_peer(*[answer({}, "307 Temporary Redirect", location)] * 2) as peer:
            ran = log_in(team, "--json", url=peer.url)
            with parley.Client(peer.url, key="pk_x") as client, pytest.raises(parley.ParleyError):
                client.whoami()
        assert elsewhere.got == []

    assert ran.code != 0
    assert not file_of(team.stage).exists()


def test_a_repository_that_names_another_address_gets_no_key(team: Team) -> None:
    log_in(team)
    with a_peer(refused("401 Unauthorized", "unauthorized")) as peer:
        (team.stage.here / "parley.toml").write_text(f'url = "{peer.url}"\n', encoding="utf-8")
        ran = team.run("intent", "list")

    assert ran.code == 6
    assert "x-api-key" not in peer.got[0].headers


def test_a_cloned_repository_does_not_get_the_key_from_the_environment(stage: Stage) -> None:
    file = stage.here / "parley.toml"
    file.write_text('url = "https://elsewhere.example"\n', encoding="utf-8")
    stage.patch.setenv("PARLEY_KEY", "pk_secret")
    refusal = f"the key from $PARLEY_KEY is not sent to https://elsewhere.example, which only {file} names"

    for words in (["status"], ["intent", "list"], ["whoami"]):
        ran = stage.run(*words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            f"error: {refusal} [invalid]\n"
            "hint: if you trust this server: parley login https://elsewhere.example, or set PARLEY_URL as well\n"
        )
    with pytest.raises(parley.ParleyError, match="is not sent to https://elsewhere"), parley.Client() as client:
        client.whoami()


def test_variables_and_options_win_over_a_saved_login(team: Team) -> None:
    log_in(team)
    bea = new_key(team.server, "--user", "bea")["key"]

    assert team.said("whoami", "--key", bea)["user_id"] == "bea"
    team.stage.patch.setenv("PARLEY_KEY", bea)
    assert team.said("whoami")["user_id"] == "bea"
    assert team.said("whoami", "--context", "local")["kind"] == "admin"
    with parley.Client() as client:
        assert client.whoami().user_id == "bea"


# ---------------------------------------------------------------- wrong input


def test_without_any_key_the_error_says_how_to_get_one(team: Team) -> None:
    ran = team.run("intent", "list", "--url", team.server.url, "--json")

    assert error_of(ran) == (
        "unauthorized",
        "A valid key is needed",
        f"log in with: parley login {team.server.url}, or set PARLEY_KEY; start a server of your own with: parley up",
    )


def test_a_saved_key_that_was_revoked_says_so(team: Team) -> None:
    made = new_key(team.server, "--user", "rita")
    log_in(team, key=made["key"])
    with parley.Client(team.server.url, key=team.server.key) as client:
        client.revoke_key(made["id"])
    expected = (
        'the saved key of context "local" was revoked or replaced since it was saved; '
        f"ask an admin for a new key, then log in with: parley login {team.server.url}"
    )

    ran = team.run("intent", "list", "--json")
    with parley.Client() as client, pytest.raises(Unauthorized) as refusal:
        client.list_intents()

    assert error_of(ran) == ("unauthorized", "A valid key is needed", expected)
    assert refusal.value.hint == expected
    assert made["key"] not in ran.err


def test_a_saved_key_that_expired_says_when(team: Team) -> None:
    log_in(team)
    document = logins(team.stage)
    document["contexts"]["local"] |= {"key": "pk_old", "expires_at": "2026-03-14T11:00:00.000000+00:00"}
    file_of(team.stage).write_text(json.dumps(document), encoding="utf-8")

    assert error_of(team.run("whoami", "--json"))[2] == (
        f'the saved key of context "local" expired at 2026-03-14T11:00Z; log in with: parley login {team.server.url}'
    )


def test_a_key_that_the_server_does_not_accept_is_not_saved(team: Team) -> None:
    ran = log_in(team, "--json", key="pk_wrong")

    assert error_of(ran) == (
        "unauthorized",
        f"{team.server.url} does not accept this key",
        "nothing was saved; see: parley key create",
    )
    assert "pk_wrong" not in ran.err
    assert not file_of(team.stage).exists()


def test_no_key_at_all_is_not_saved(team: Team) -> None:
    ran = team.run("login", team.server.url, "--json", stdin=b"\n")

    assert error_of(ran) == (
        "invalid",
        "no key given, nothing was saved",
        f"type it, or: parley login {team.server.url} < FILE",
    )


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        ("parley.example.org", "'parley.example.org' is no address of a server", "write https://parley.example.org"),
        ("ftp://x", "'ftp://x' is no address of a server", "write https://HOST:PORT"),
        ("http://", "'http://' is no address of a server", "write https://HOST:PORT"),
        ("http://u:secret@x", "'...@x' is no address of a server", "write https://HOST:PORT"),
        (
            "http://parley.example.org",
            "the key would travel to parley.example.org in the clear",
            "use https://, or set PARLEY_PLAIN_HTTP=any where nobody else can listen",
        ),
    ],
)
def test_a_wrong_address_is_refused(stage: Stage, url: str, message: str, hint: str) -> None:
    ran = stage.run("login", url, "--json", stdin=b"pk_x\n")

    assert error_of(ran) == ("invalid", message, hint)


def test_a_server_that_is_down_is_named(stage: Stage) -> None:
    url = f"http://127.0.0.1:{nobodys_port()}"

    ran = stage.run("login", url, "--json", stdin=b"pk_x\n")

    assert error_of(ran) == (
        "unavailable",
        f"no server answers at {url}: Connection refused",
        "nothing was saved; check the address, or start the server with: parley up",
    )


def test_a_saved_server_that_is_down_is_named_by_its_context(stage: Stage) -> None:
    url = f"http://127.0.0.1:{nobodys_port()}"
    save(stage, json.dumps({"current": "work", "contexts": {"work": {"url": url, "key": "pk_x"}}}))

    assert error_of(stage.run("whoami", "--json")) == (
        "unavailable",
        f"no server answers at {url}: Connection refused",
        "context work is for this address; start its server, or see: parley context list",
    )


def test_what_is_no_parley_server_is_refused(stage: Stage) -> None:
    with a_peer(answer({"hello": "world"}), refused("404 Not Found", "not_found")) as peer:
        first = stage.run("login", peer.url, "--json", stdin=b"pk_x\n")
        second = stage.run("login", peer.url, "--json", stdin=b"pk_x\n")

    assert error_of(first)[1] == f"{peer.url} does not answer like a Parley server"
    assert error_of(second)[1:] == (
        f"{peer.url} cannot say whose key this is",
        "is it a Parley server of 0.7 or later?",
    )
    assert not file_of(stage).exists()


def save(stage: Stage, text: str, mode: int = 0o600) -> Path:
    path = file_of(stage)
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("words", [("whoami",), ("login", "http://127.0.0.1:1"), ("context", "list"), ("logout",)])
def test_a_broken_file_is_named_by_every_command_that_needs_it(stage: Stage, words: tuple[str, ...]) -> None:
    path = save(stage, '{"contexts": {"a": {"url": "http://x", "key": "pk_secret"')

    ran = stage.run(*words, "--json", stdin=b"pk_x\n")

    assert error_of(ran) == (
        "bad_config",
        f"{path} is not JSON",
        "fix it, or remove it and log in again: parley login URL",
    )
    assert "pk_secret" not in ran.err


def test_a_file_that_others_can_read_is_refused_in_one_line(stage: Stage) -> None:
    path = save(stage, "{}", 0o644)

    ran = stage.run("whoami", "--json")

    assert error_of(ran) == (
        "unsafe_mode",
        f"{path} can be read by other users",
        f"chmod 600 {path}; others may know its keys: see parley key rotate",
    )


def test_a_broken_file_does_not_matter_when_address_and_key_are_given(team: Team) -> None:
    save(team.stage, "{")

    assert team.run("intent", "list", "--url", team.server.url, "--key", team.server.key).code == 0
    assert team.said("config")["url"]["source"].startswith("not found: ")
    with parley.Client(team.server.url, key=team.server.key) as client:
        assert client.whoami().kind == "admin"


def test_a_governed_mailbox_and_a_saved_login_are_an_error_that_names_both(team: Team) -> None:
    stage = team.stage
    log_in(team)
    stage.patch.setenv("PARLEY_AGENT", "claude")
    assert team.run("approvals", "list").code == 0  # the mailbox has no rules
    assert stage.run("governance", "init", "--tenant", "acme").code == 0

    assert error_of(team.run("approvals", "list", "--json")) == (
        "ambiguous",
        f"a governed mailbox (project demo) and a saved login ({team.server.url}) both fit",
        "add --project demo for the mailbox, or --context local for the server",
    )
    assert team.run("approvals", "list", "--project", "demo").code == 0
    assert team.run("approvals", "list", "--context", "local").code == 0


def test_version_is_a_word_that_people_type(stage: Stage) -> None:
    assert stage.run("version").out == f"parley {parley.__version__}\n"
    assert stage.run("version", "--json").json == {"version": parley.__version__}


def test_a_context_that_gets_another_key_says_which_one_it_had_and_that_it_stays_valid(team: Team) -> None:
    log_in(team)
    first = team.run("key", "create", "--user", "olga", "--save", "--json").json["id"]

    again = team.run("key", "create", "--user", "olga", "--save")
    second = again.out.split()[2]
    replaced = log_in(team, "--context", "olga", key=new_key(team.server, "--user", "olga")["key"])

    def had(key_id: str) -> str:
        kept = f'note: context "olga" had key {key_id} until now; that key stays valid\n'
        return f"{kept}hint: end it with: parley key revoke {key_id}\n"

    assert (again.code, again.err) == (0, had(first))
    assert (replaced.code, replaced.err) == (0, had(second))
    assert 'Before, context "local" was in use; to go back: parley context use local\n' in replaced.out
    assert "for the agents of the server, add --server" in team.run("agent", "list", "--home", "/nowhere").err


def test_a_key_that_was_revoked_before_is_said_to_be(team: Team) -> None:
    log_in(team)
    made = new_key(team.server, "--user", "oleg")["id"]

    assert team.run("key", "revoke", made).out == f"Revoked key {made} of human oleg; its streams are closed\n"
    assert team.run("key", "revoke", made).out.startswith(f"No change: key {made} of human oleg was revoked at ")
