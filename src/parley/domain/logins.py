"""Saved logins: which server and which key a client uses, from what was given and what was saved.

A saved key belongs to the addresses that it was saved for and is never used for another one. What a flag or a variable
gives goes before what was saved. Two logins that fit are an error, never a silent choice. A repository chooses the
server for its own keys only: see `_check_destination`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import Ambiguous, Invalid
from parley.domain.lookup import Noun, unknown
from parley.domain.names import NAME_RULE, is_loopback, is_name, name_from

if TYPE_CHECKING:
    from collections.abc import Callable

_API = "/api/v1"
# The rank of what was given for one call: an option, or an argument.
_FOR_THIS_CALL = 3
# Addresses besides the newest that a login for servers of one database has.
_OTHER_NODES_MAX = 9
_PORTS = {"http": ":80", "https": ":443"}
_LOCAL = "local"
_ADMIN = "admin"
_CONTEXT = Noun("context", "", "parley context list")
_CHOOSE = "choose one with --context NAME, or for all commands with: parley context use NAME"


class Login(NamedTuple):
    """A context: a server and a key for it, under a name, and whose key it is."""

    name: str
    url: str
    key: str
    kind: str = ""
    tenant: str = ""
    agent: str = ""
    user: str = ""
    expires_at: str = ""
    key_id: str = ""
    # The data directory or database of a server that this user started; it stays the same on another port.
    data: str = ""

    def __repr__(self) -> str:
        return f"Login({self.name!r}, {self.url!r})"  # without the key: this may go into logs

    @property
    def holder(self) -> str:
        """Whose key it is, in a few words."""
        return " ".join(part for part in (self.kind, self.agent or self.user) if part) or "key"

    @property
    def identity(self) -> tuple[str, ...]:
        """What another key of the same holder has in common with it."""
        return self.kind, self.tenant, self.agent, self.user

    def covers(self, url: str) -> bool:
        """Whether the key was saved for every address in `url`."""
        return set(addresses(url)) <= set(addresses(self.url))


class OwnServer(NamedTuple):
    """A server that this user has started: its address, its data directory or database, and the keys it accepts."""

    url: str
    data: str
    keys: frozenset[str] = frozenset()
    # Whether other servers use the database, too.
    shared: bool = False

    def move(self, login: Login) -> Login:
        """A login, with the address of this server if it is one of its own."""
        if login.data != self.data or login.key not in self.keys:
            return login
        others = [address for address in addresses(login.url) if self.shared and address != self.url]
        return login._replace(url=",".join([*others[-_OTHER_NODES_MAX:], self.url]))


class SavedLogins(NamedTuple):
    """All saved logins of a user, and the name of the one in use, or ""."""

    current: str = ""
    logins: tuple[Login, ...] = ()

    def find(self, name: str) -> Login | None:
        """The login of a name, or None."""
        return next((login for login in self.logins if login.name == name), None)

    def get(self, name: str) -> Login:
        """The login of a name; `NotFound` names those that are called like it."""
        login = self.find(name)
        if login is None:
            raise unknown(_CONTEXT, name, self.names)
        return login

    @property
    def names(self) -> list[str]:
        return [login.name for login in self.logins]

    def in_use(self) -> Login | None:
        """The login that commands use, None without any. `Ambiguous` when none is chosen, even if only one is left."""
        chosen = self.find(self.current)
        if chosen is None and self.logins:
            raise Ambiguous(f"no saved login is in use; there is {_names_and_servers(self.logins)}", hint=_CHOOSE)
        return chosen

    def for_url(self, url: str, preferred: str = "") -> Login | None:
        """The login for an address: the preferred one, the one in use, or the only one. `Ambiguous` for several."""
        fitting = [login for login in self.logins if login.covers(url)]
        for name in (preferred, self.current):
            for login in fitting:
                if login.name == name:
                    return login
        if len(fitting) <= 1:
            return fitting[0] if fitting else None
        raise Ambiguous(f"{len(fitting)} saved logins for {url}: {_names_and_servers(fitting)}", hint=_CHOOSE)

    def with_login(self, login: Login, *, use: bool) -> SavedLogins:
        """With one more login, in the place of one of the same name."""
        logins = (*(other for other in self.logins if other.name != login.name), login)
        return SavedLogins(login.name if use else self.current, tuple(sorted(logins)))

    def without(self, name: str) -> SavedLogins:
        """Without a login. If it was in use, none is."""
        logins = tuple(login for login in self.logins if login.name != name)
        return SavedLogins("" if self.current == name else self.current, logins)

    def renamed(self, name: str, new_name: str) -> SavedLogins:
        """With another name for a login; `Invalid` for a name that is taken or no name."""
        login = self.get(name)
        check_context_name(new_name)
        if new_name != name and self.find(new_name) is not None:
            raise Invalid(f'there is a context "{new_name}" already', hint="remove it first, or use another name")
        return (
            self.without(name)
            .with_login(login._replace(name=new_name), use=self.current == name)
            ._replace(current=new_name if self.current == name else self.current)
        )

    def check_free(self, name: str, url: str, identity: tuple[str, ...]) -> None:
        """Refuse a name whose login is for another server or of another holder."""
        other = self.find(check_context_name(name))
        if other is not None and not (other.covers(url) and other.identity == identity):
            raise Invalid(
                f'context "{name}" is for {other.url} ({other.holder})',
                hint=f"use another name, or remove it first: parley context remove {name}",
            )

    def data_of(self, url: str) -> str:
        """The data directory of the server at an address, if this user has started it."""
        return next((login.data for login in self.logins if login.data and login.covers(url)), "")

    def with_own_server(self, server: OwnServer, is_gone: Callable[[str], bool]) -> SavedLogins:
        """After this user has started a server at an address.

        Its logins move to the address, if it has accepted their keys; those of servers that share a database get one
        more address. Logins of data directories that are gone are of no use, and removed.
        """
        remaining = [
            login for login in self.logins if login.data == server.data or not (login.data and is_gone(login.data))
        ]
        names = {login.name for login in remaining}
        return SavedLogins(self.current if self.current in names else "", tuple(map(server.move, remaining)))

    def is_replaced(self, url: str, data: str) -> bool:
        """Whether the login in use cannot be meant: there is none, or its address is now of another data directory."""
        in_use = self.find(self.current)
        return in_use is None or (in_use.covers(url) and bool(in_use.data) and in_use.data != data)

    def pick(self, text: str) -> Login:
        """The login that a name or an address means."""
        if "://" not in text:
            return self.get(text)
        login = self.for_url(text)
        if login is None:
            raise unknown(_CONTEXT, text, [login.url for login in self.logins])
        return login

    def free_name(self, login: Login) -> str:
        """A name for a new login: that of another key of its holder for this server, else one that is not taken."""
        for other in self.logins:
            is_same_server = other.data == login.data and (login.data or other.covers(login.url))
            if is_same_server and other.identity == login.identity:
                return other.name
        host = _host(addresses(login.url)[0])
        base = _LOCAL if is_loopback(host) else name_from(host) or "server"
        holder = name_from(login.agent or login.user)
        candidates = [base, *([name_from(f"{base}-{holder}")] if holder else [])]
        candidates += [f"{base[:60]}-{number}" for number in range(2, len(self.logins) + 3)]
        return next(name for name in candidates if name and self.find(name) is None)


class SettingValue(NamedTuple):
    """A setting that was given: its text, where it came from, and how explicit that is; 0 for none."""

    text: str = ""
    source: str = ""
    rank: int = 0
    # Whether a file of a repository gave it: its author may be somebody else than the person who runs this.
    from_repository: bool = False

    def __repr__(self) -> str:
        return f"SettingValue(from {self.source or 'nowhere'})"  # the text may be a key


class ServerAccess(NamedTuple):
    """Which server a client talks to, with which key, and where both came from."""

    url: str
    key: str
    url_source: str
    key_source: str
    # The login whose key is used.
    login: Login | None = None
    # Logins for other addresses that may have been meant.
    similar: tuple[Login, ...] = ()

    def __repr__(self) -> str:
        return f"ServerAccess({self.url!r}, key from {self.key_source or 'nowhere'})"  # this may go into logs


def resolve(
    url: SettingValue,
    key: SettingValue,
    context: SettingValue,
    default_url: str,
    saved: Callable[[], SavedLogins],
    own_url: str = "",
) -> ServerAccess:
    """The server and the key to use. `saved` is called only if something of both was not given.

    A context that was given as explicitly as an address must be for that address. `own_url` is what the user's own
    settings file names.
    """
    if context.rank and context.rank >= url.rank:
        login = saved().get(context.text)
        if context.rank == url.rank and not login.covers(url.text):
            raise Invalid(
                f'context "{login.name}" is for {login.url}, but {url.source} names {url.text}',
                hint="leave one of them out",
            )
        return _with_key(login, key, ignore_below=context.rank)
    if url.rank and key.rank:
        _check_destination(url, key, own_url, saved)
        return ServerAccess(url.text, key.text, url.source, key.source)
    logins = saved()
    if url.rank:
        fitting = logins.for_url(url.text, context.text)
        if fitting is None:
            return ServerAccess(url.text, "", url.source, "", similar=_similar(logins, url.text))
        return ServerAccess(url.text, fitting.key, url.source, source_of(fitting), fitting)
    in_use = logins.in_use()
    if in_use is None:
        return ServerAccess(default_url, key.text, "default", key.source)
    return _with_key(in_use, key)


def _check_destination(url: SettingValue, key: SettingValue, own_url: str, saved: Callable[[], SavedLogins]) -> None:
    """Refuse to send a key of this person to an address that only a repository names.

    It may have been cloned from anywhere. A key for this call (`--key`, `key=`) goes where the call goes.
    """
    if not url.from_repository or key.from_repository or key.rank >= _FOR_THIS_CALL:
        return
    if all(is_loopback(_host(address)) for address in addresses(url.text)):
        return
    is_own = Login("", own_url, "").covers(url.text) if own_url else False
    if is_own or any(login.covers(url.text) for login in saved().logins):
        return
    raise Invalid(
        f"the key from {key.source} is not sent to {url.text}, which only {url.source} names",
        hint=f"if you trust this server: parley login {url.text}, or set PARLEY_URL as well",
    )


def _with_key(login: Login, key: SettingValue, *, ignore_below: int = 1) -> ServerAccess:
    """A login's server with its key, or with a key that was given explicitly enough."""
    if key.rank >= ignore_below:
        return ServerAccess(login.url, key.text, source_of(login), key.source)
    return ServerAccess(login.url, login.key, source_of(login), source_of(login), login)


def source_of(login: Login) -> str:
    """Where a setting from a saved login comes from, in words."""
    return f"context {login.name}"


def unauthorized_hint(access: ServerAccess, now: str) -> str:
    """What to do when the server does not accept the key, or there was none."""
    again = f"log in with: parley login {access.url}"
    login = access.login
    if login is not None:
        what = f'the saved key of context "{login.name}"'
        if login.expires_at and login.expires_at <= now:
            return f"{what} expired at {login.expires_at[:16]}Z; {again}"
        if login.kind != _ADMIN:
            return f"{what} was revoked or replaced since it was saved; ask an admin for a new key, then {again}"
        lost = "; on the server's own machine: parley up --new-admin-key" if login.data else ""
        return f"{what} was revoked or replaced since it was saved; {again}{lost}"
    if access.key:
        return f"the key from {access.key_source} is not valid there; set another, or leave it out and {again}"
    if access.similar:
        return f"there is no key for {access.url}; saved are {_names_and_servers(access.similar)}; {again}"
    own = "; start a server of your own with: parley up" if is_loopback(_host(addresses(access.url)[0])) else ""
    return f"{again}, or set PARLEY_KEY{own}"


def unreachable_hint(access: ServerAccess) -> str:
    """What to do when no server answers."""
    if access.url_source.startswith("context "):
        return f"{access.url_source} is for this address; start its server, or see: parley context list"
    return "start a server with: parley up; set another address with --url or PARLEY_URL"


def addresses(url: str) -> list[str]:
    """The addresses in `url`, separated by commas, each in one form: equal texts are the same server."""
    return [_address(part.strip()) for part in url.split(",") if part.strip()] or [""]


def _address(url: str) -> str:
    """An address in one form, which has no other: what an ending hides may be another one."""
    while (form := _shortened(url)) != url:
        url = form
    return url


def _shortened(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    scheme = scheme.lower()
    host, path = _without(host.lower(), _PORTS.get(scheme, "")), _without(f"{slash}{path}", "/", _API)
    return f"{scheme}{mark}{host}{path}".strip()


def _without(text: str, *endings: str) -> str:
    """A text without these endings, however often they are there."""
    while any(ending and text.endswith(ending) for ending in endings):
        for ending in endings:
            text = text.removesuffix(ending)
    return text


def check_context_name(name: str) -> str:
    """`name` if a context may be called so, else `Invalid`."""
    if not is_name(name):
        raise Invalid(f"{name[:70]!r} is not a name for a context", hint=f"use {NAME_RULE}")
    return name


def _host(address: str) -> str:
    """The host of an address without port and brackets."""
    place = address.partition("://")[2].partition("/")[0]
    host, colon, port = place.rpartition(":")
    return (host if colon and port.isdigit() else place).strip("[]")


def _similar(logins: SavedLogins, url: str) -> tuple[Login, ...]:
    """Logins of this machine, for an address of this machine that is written otherwise."""
    if not is_loopback(_host(addresses(url)[0])):
        return ()
    return tuple(login for login in logins.logins if is_loopback(_host(addresses(login.url)[0])))


def _names_and_servers(logins: tuple[Login, ...] | list[Login]) -> str:
    return ", ".join(f"{login.name} ({login.url}, {login.holder})" for login in logins)
