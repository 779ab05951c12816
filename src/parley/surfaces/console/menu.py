"""The menu of the console, and the keys that open its pages. A page that does not exist yet has no entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.directory.callers import DEFAULT_TENANT
from parley.surfaces.console.html import address, h, join

if TYPE_CHECKING:
    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document

# Kinds of keys, as `whoami` names them, for entries that not everybody can use.
ADMIN = "admin"
AUDITOR = "auditor"
PERSON = "human"
GOVERNS = (ADMIN, AUDITOR)
NOT_AUDITORS = (ADMIN, PERSON, "agent", "service")


class MenuEntry(NamedTuple):
    """One page of the menu; `key` opens it after `g`. `kinds`: the kinds of keys that it is for; all without any.
    `for_operators`: only for keys of the operator's tenant.
    """

    name: str
    step: str
    key: str
    kinds: tuple[str, ...] = ()
    for_operators: bool = False


Groups = tuple[tuple[str, tuple[MenuEntry, ...]], ...]
MENU: Groups = (
    (
        "Now",
        (
            MenuEntry("Home", "", "h", GOVERNS),
        ),
    ),
    (
        "Decide",
        (
            MenuEntry("Approvals", "approvals", "a", NOT_AUDITORS),
        ),
    ),
    (
        "Watch",
        (
            MenuEntry("Channels", "channels", "c", NOT_AUDITORS),
            MenuEntry("Agents", "agents", "e"),
        ),
    ),
    (
        "Govern",
        (
            MenuEntry("Exchanges", "exchanges", "x"),
            MenuEntry("Traffic", "traffic", "t"),
            MenuEntry("Audit log", "audit", "l"),
            MenuEntry("Policies", "policies", "r"),
            MenuEntry("Suspend", "suspend", "p", GOVERNS),
        ),
    ),
    (
        "Operate",
        (
            MenuEntry("Servers", "servers", "o", (ADMIN,), for_operators=True),
            MenuEntry("Webhooks", "webhooks", "w", (ADMIN,)),
        ),
    ),
    (
        "You",
        (
            MenuEntry("Sign-ins", "sessions", "s", NOT_AUDITORS),
        ),
    ),
)  # fmt: skip
Keys = tuple[tuple[str, str], ...]
KEYS: Keys = (
    ("j k", "next and previous row"),
    ("y n e", "go to Approve, Reject, Answer; Enter decides"),
    ("u", "back to the list"),
    ("/", "go to the filters"),
    ("[ ]", "previous and next page"),
    (".", "pause and resume live updates"),
    ("t", "theme: automatic, light, dark"),
    ("?", "this list"),
)


def menu(who: Document, here: str, waiting: int, groups: Groups = MENU) -> Html:
    """The groups of entries that a caller can use; `here` is the step of the page that is open."""
    return join(*[_group(name, shown, here, waiting) for name, entries in groups if (shown := _for(who, entries))])


def keys(who: Document, groups: Groups = MENU, acts: Keys = KEYS) -> list[tuple[str, str]]:
    """Every key, and what it does; `acts`: those that do not open a page."""
    pages = [(f"g {entry.key}", entry.name) for _, entries in groups for entry in _for(who, entries)]
    return [*acts, *pages]


def _for(who: Document, entries: tuple[MenuEntry, ...]) -> list[MenuEntry]:
    return [entry for entry in entries if _is_for(who, entry)]


def _is_for(who: Document, entry: MenuEntry) -> bool:
    if entry.for_operators and who["tenant_id"] != DEFAULT_TENANT:
        return False
    return not entry.kinds or who["kind"] in entry.kinds


def _group(name: str, entries: list[MenuEntry], here: str, waiting: int) -> Html:
    return join(h("h2", name), h("ul", [_entry(entry, here, waiting) for entry in entries]))


def _entry(entry: MenuEntry, here: str, waiting: int) -> Html:
    is_counted = entry.step == "approvals" and waiting
    count = h("span", waiting, class_="count", aria_label=f"{waiting} waiting") if is_counted else None
    current = "page" if entry.step == here else None
    return h("li", h("a", entry.name, count, href=address(entry.step), aria_current=current, data_key=entry.key))
