"""Which server and key a client uses: flag > variable > settings files > saved login > default.

The command line and the SDK both ask `find_access`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.process import SystemClock
from parley.domain.logins import ServerAccess, SettingValue, resolve, unauthorized_hint, unreachable_hint
from parley.domain.times import stamp
from parley.settings import DEFAULT, FLAG

if TYPE_CHECKING:
    from parley.adapters.data.login_file import LoginFile
    from parley.settings import Settings

_FLAG_RANK, _VARIABLE_RANK, _FILE_RANK = 3, 2, 1


class FoundServer(NamedTuple):
    """The server of a client, who speaks, whether the key may go there in the clear, and hints for two refusals."""

    url: str
    key: str
    agent: str
    plain_http: bool
    hints: dict[str, str]

    def __repr__(self) -> str:
        return f"FoundServer({self.url!r}, agent={self.agent!r})"  # without the key: this may go into logs


def find_server_of(settings: Settings, *, saved: bool) -> FoundServer:
    """The server of a client in Python; see `wiring.find_server`."""
    access = find_access(settings, option="%s=", saved=saved)
    return FoundServer(access.url, access.key, settings.agent, settings.plain_http == "any", access_hints(access))


def find_access(settings: Settings, *, option: str = "--%s", saved: bool = True) -> ServerAccess:
    """The server and the key that the settings and the saved logins name.

    `option` is how an error writes a flag. Without `saved`, saved logins are left alone.
    """
    url, key, context = (_given(settings, name, option) for name in ("url", "key", "context"))
    if not saved:
        return ServerAccess(settings.url, settings.key, url.source or DEFAULT, key.source)
    return resolve(url, key, context, settings.url, lambda: login_file(settings).load(), settings.user_url)


def access_hints(access: ServerAccess) -> dict[str, str]:
    """What to do when the server does not accept the key or does not answer, by the code of the error."""
    now = stamp(SystemClock().now().at)
    return {"unauthorized": unauthorized_hint(access, now), "unreachable": unreachable_hint(access)}


def login_file(settings: Settings) -> LoginFile:
    """The file of this user's saved logins."""
    from parley.adapters.data.login_file import LoginFile

    return LoginFile(settings.user_folder)


def _given(settings: Settings, name: str, option: str) -> SettingValue:
    value = next(value for value in settings.sources if value.name == name)
    if value.source == DEFAULT or not value.value:
        return SettingValue()
    rank = _FLAG_RANK if value.source == FLAG else _VARIABLE_RANK if value.source.startswith("$") else _FILE_RANK
    from_repository = rank == _FILE_RANK and value.source != settings.user_file
    return SettingValue(value.value, option % name if value.source == FLAG else value.source, rank, from_repository)
