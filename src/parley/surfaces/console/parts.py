"""The small parts that pages are made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from parley.surfaces.console.html import Html, h, join, label_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parley.surfaces.console.html import Child
    from parley.surfaces.console.visit import ApiRefused, Document, Visit

_HUES = 10
# Ids are longer than this; names that people give are not cut.
_LONG_ID = 14
_ID_KINDS = ("appr_", "conv_", "exch_", "key_", "msg_")
# With more fields than this, a phone shows the filters when they are asked for.
_FILTERS_SHOWN = 2


def badge(name: str, *, is_person: bool = False) -> Html:
    """The initials of a name; people are round. The name stands beside it."""
    words = [word for word in name.replace("_", "-").replace(".", "-").split("-") if word]
    initials = "".join([word[0] for word in words[:2]]) or "?"
    hue = f"h{crc32(name.encode()) % _HUES}"
    kind = " person" if is_person else ""
    return h("span", initials.upper(), class_=f"badge {hue}{kind}", aria_hidden="true")


def tag(word: str, kind: str = "") -> Html:
    return h("span", word, class_=f"tag {kind}".rstrip())


def fact(name: str, value: Child, *, is_long: bool = False) -> Html:
    """One line of a list of facts; a long value, such as a hash, has the whole width."""
    return h("div", h("dt", name), h("dd", value), class_="long" if is_long else None)


def short_id(name: str) -> str:
    """The end of a long id, as tables of commands show it; other names as they are. Of `admin:key_...` the first part
    stays.
    """
    kind, colon, key = name.rpartition(":")
    return f"{kind}{colon}…{key[-4:]}" if key.startswith(_ID_KINDS) and len(key) > _LONG_ID else name


def moment(at: str, now: datetime) -> Html:
    """A time as its distance from now, with the exact one as its title. The script keeps the distance true."""
    then = datetime.fromisoformat(at).astimezone(UTC)
    return h("time", distance(then, now), datetime=then.isoformat(), title=f"{then:%Y-%m-%d %H:%M:%S} UTC")


def distance(then: datetime, now: datetime) -> str:
    """How long ago, or how long until: 4 m ago, 23 h left."""
    seconds = (then - now).total_seconds()
    return f"{duration(seconds)} left" if seconds > 0 else f"{duration(-seconds)} ago"


def duration(seconds: float) -> str:
    """A time span in its largest whole unit."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def presence(agent: Document, now: datetime) -> Html:
    """Whether an agent is there: a filled dot, or a hollow one and when it was last seen."""
    if agent["online"]:
        return h("span", "online", class_="presence on")
    if agent["status"] == "deregistered":
        return h("span", "left", class_="presence")
    if not agent["last_seen_at"]:
        return h("span", "never seen", class_="presence")
    return h("span", "seen ", moment(agent["last_seen_at"], now), class_="presence")


def note(kind: str, *content: Child, role: str | None = None) -> Html:
    """A box that says what is the matter."""
    return h("div", *content, class_=f"note {kind}", role=role)


def command(line: str) -> Html:
    """A command to type."""
    return h("pre", h("code", line))


def empty(words: Child, line: str = "") -> Html:
    """What stands in an empty list: what would be here, and a command that makes it."""
    return join(note("", words), command(line) if line else None)


def tabs(*entries: tuple[str, str, bool]) -> Html:
    """Views of one page: name, address, and whether it is the one that is open."""
    links = [h("a", name, href=path, aria_current="page" if is_here else None) for name, path, is_here in entries]
    return h("p", links, class_="tabs")


def fresh(part_id: str, *content: Child) -> Html:
    """A part of a page that stays fresh: when a topic of the page changes, the script puts the new one in its place. It
    waits while the reader points at it, is in it by keyboard, or has typed into it.
    """
    return h("div", *content, id=part_id, data_fresh=True)


def data_table(caption: str, headings: Sequence[Child], rows: Iterable[Html]) -> Html:
    """A table that scrolls sideways where it is too wide; on a phone each row is a card. Each row is a `tr`, and `j`
    and `k` go to its links.
    """
    head = h("tr", [h("th", heading, scope="col") for heading in headings])
    labels = [heading if isinstance(heading, str) and not isinstance(heading, Html) else "" for heading in headings]
    body = h("tbody", [label_cells(row, labels) for row in rows], class_="rows")
    table = h("table", h("caption", caption), h("thead", head), body)
    # What scrolls can be reached by keyboard.
    return h("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


class Filter(NamedTuple):
    """One field of a filter form: the name of the API's parameter, its label, and what can be chosen; without choices
    it is a text to type.
    """

    name: str
    label: str
    # Value and words of each.
    choices: tuple[tuple[str, str], ...] = ()
    hint: str = ""
    # The words of the choice that is made when nothing is chosen.
    unset: str = "all"


def filters(visit: Visit, path: str, *fields: Filter, words: str = "Filter") -> Html:
    """A form of the API's filters. It is sent by GET, so a view is a link."""
    shown = [_field(field, visit.query.get(field.name, "")) for field in fields]
    is_set = any(visit.query.get(field.name) for field in fields)
    clear = h("a", "Clear", href=path, class_="button") if is_set else None
    form = h(
        "form", shown, h("span", h("button", words), clear, class_="buttons"), method="get", action=path,
        class_="filters", role="search",
    )  # fmt: skip
    return join(_filter_switch(is_set=is_set), form) if len(fields) > _FILTERS_SHOWN else form


def filter_problem(visit: Visit, refused: ApiRefused, fields: Iterable[Filter]) -> Html:
    """What is wrong with a filter: by its label, with what was typed."""
    labels = {field.name: field.label for field in fields}
    lines = [
        h("div", h("b", labels[name]), " ", h("q", visit.query.get(name, ""), dir="auto"), f": {words}")
        for name, words in refused.fields.items()
        if name in labels
    ]
    return note("bad", lines or refused.detail, role="alert")


def _filter_switch(*, is_set: bool) -> Html:
    """Shows the filters on a phone, where they would fill the first screen. It needs no script."""
    return join(
        h("input", type="checkbox", id="filters-on", class_="sr filters-on", checked=is_set),
        h("label", "Filters", for_="filters-on", class_="button filters-label"),
    )


def _field(field: Filter, value: str) -> Html:
    field_id = f"filter-{field.name}"
    label = h("label", field.label, for_=field_id)
    if field.choices:
        options = [
            h("option", words, value=choice, selected=choice == value)
            for choice, words in (("", field.unset), *field.choices)
        ]
        return h("span", label, h("select", options, id=field_id, name=field.name))
    entry = h("input", id=field_id, name=field.name, value=value, placeholder=field.hint or None, dir="auto",
              autocomplete="off", spellcheck="false")  # fmt: skip
    return h("span", label, entry)


def next_page(path: str, words: str = "Next page") -> Html:
    """The link to the next page of a list."""
    return h("p", h("a", words, href=path, class_="button", rel="next"))
