"""The saved login to a server that this user starts with `parley up`: saved, moved to its address, and described."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import ParleyError
from parley.domain.logins import Login, OwnServer, SavedLogins
from parley.login_wiring import login_file

if TYPE_CHECKING:
    from parley.settings import Settings


class OwnLogin(NamedTuple):
    """The login of this user to the server. Without a login, `problem` says why, unless that was wanted."""

    login: Login | None = None
    path: str = ""
    # The context in use now, and before.
    current: str = ""
    before: str = ""
    problem: str = ""


def save_own_login(settings: Settings, server: OwnServer, secret: str, key_id: str) -> OwnLogin:
    """Save a new admin key of the server, and use it from now on; `problem` says why it could not be saved."""
    kind, before = KeyKind.ADMIN.value, ""
    login = Login("", server.url, secret, kind, DEFAULT_TENANT, key_id=key_id, data=server.data)

    def add(saved: SavedLogins) -> SavedLogins:
        nonlocal login, before
        before = saved.current
        saved = saved.with_own_server(server, _is_gone)
        login = login._replace(name=saved.free_name(login))
        return saved.with_login(login, use=True)

    file = login_file(settings)
    try:
        file.change(add)
    except ParleyError as error:
        return OwnLogin(problem=str(error))
    return OwnLogin(login, file.path, login.name, before)


def saved_keys(settings: Settings, data: str) -> frozenset[str]:
    """The keys that are saved for a data directory or database."""
    try:
        return frozenset(login.key for login in login_file(settings).load().logins if login.data == data)
    except ParleyError:
        return frozenset()  # it is said when the login is looked for


def find_own_login(settings: Settings, server: OwnServer) -> OwnLogin:
    """The saved login to a server that was started before, moved to the address that the server has now."""
    before = ""

    def move(saved: SavedLogins) -> SavedLogins:
        nonlocal before
        before = saved.current
        saved = saved.with_own_server(server, _is_gone)
        own = _login_to(saved, server)
        is_replaced = own is not None and own.key in server.keys and saved.is_replaced(server.url, server.data)
        return saved._replace(current=own.name) if own is not None and is_replaced else saved

    file = login_file(settings)
    try:
        # Without any login there is nothing to move, and no folder to create.
        saved = file.change(move) if file.load().logins else SavedLogins()
    except ParleyError as error:
        return OwnLogin(problem=str(error))
    return OwnLogin(_login_to(saved, server), file.path, saved.current, before)


def _login_to(saved: SavedLogins, server: OwnServer) -> Login | None:
    """The login to this server: one whose key is accepted, an admin's before others."""
    own = [login for login in saved.logins if login.data == server.data or login.covers(server.url)]
    own.sort(key=lambda login: (login.key not in server.keys, login.kind != KeyKind.ADMIN))
    return own[0] if own else None


def _is_gone(data: str) -> bool:
    return os.path.isabs(data) and not os.path.isdir(data)


def describe_own_login(own: OwnLogin, url: str, *, is_new: bool, is_valid: bool) -> list[str]:
    """Lines about the login, for people."""
    if own.login is None:
        if own.problem:
            return [f"Not saved: {own.problem}"] if is_new else [f"Saved logins were not read: {own.problem}"]
        return [_no_login(f"No login is saved for this server; log in with: parley login {url}")]
    name = own.login.name
    if not is_valid:
        return [_no_login(f'The saved key of context "{name}" is not valid here; log in with: parley login {url}')]
    lines = [f'Saved the admin key as context "{name}" in {_short(own.path)}'] if is_new else []
    if own.current != name:
        return [*lines, f'In use is context "{own.current}"; to use this server: parley context use {name}']
    lines.append("Your commands and programs use this server now.")
    if own.before not in ("", name):
        lines.append(f"To go back: parley context use {own.before}")
    return lines


def _no_login(text: str) -> str:
    return f"{text}\nIf the key is lost, stop the server and run: parley up --new-admin-key"


def _short(path: str) -> str:
    """A path below the home directory with ~."""
    home = os.path.expanduser("~")
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path
