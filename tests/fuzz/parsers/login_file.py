"""A file of saved logins is read as it would be written again, or refused without anything that may be a key."""

from __future__ import annotations

from parley.domain.errors.errors import BadConfig
from parley.domain.logins import SavedLogins, addresses
from parley.wire.files.logins import read_logins, write_logins


def check(data: bytes) -> None:
    try:
        saved = read_logins(data, "logins.json")
    except BadConfig as error:
        refusal = error.message
    else:
        _check_read(saved)
        return
    assert refusal.startswith("logins.json"), "refused without the name of the file"


def _check_read(saved: SavedLogins) -> None:
    assert read_logins(write_logins(saved), "logins.json") == saved
    for login in saved.logins:
        assert login.covers(login.url)
        assert addresses(",".join(addresses(login.url))) == addresses(login.url), "one form has another"
