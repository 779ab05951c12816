"""Traffic: who talked to whom in a period, as a matrix to read and a drawing to see."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.pages.traffic_drawing import drawing
from parley.surfaces.console.parts import Filter, badge, data_table, empty, filter_problem, filters, moment, note, tag
from parley.surfaces.console.periods import HINT, as_time
from parley.surfaces.console.visit import ApiRefused, Page

if TYPE_CHECKING:
    from parley.surfaces.console.html import Child, Html
    from parley.surfaces.console.visit import Document, Visit

_MENU = "traffic"
# Names in the matrix and in the drawing: the busiest. The table has all pairs.
NAMES_MAX = 12
_ROWS_MAX = 200
_TINTS = 5
_FILTERS = (
    Filter("since", "Since (UTC)", hint=HINT),
    Filter("until", "Until (UTC)", hint=HINT),
    Filter("by", "Between", (("user", "people"), ("org_unit", "org units")), unset="agents"),
)
_NOBODY = {"agent": "nobody", "user": "no person", "org_unit": "no org unit"}
EVERYONE = "everyone in a channel"
_HOURS = "Messages that channels no longer keep are counted by the hour: at the ends of the period, by whole hours."


async def list_page(visit: Visit) -> Page:
    """The traffic of a period, or what is wrong with the period that was asked for."""
    form = filters(visit, address("traffic"), *_FILTERS)
    try:
        traffic: Document = await visit.get(
            "traffic",
            since=as_time(visit.query.get("since", ""), visit.now),
            until=as_time(visit.query.get("until", ""), visit.now, ends=True),
            by=visit.query.get("by"),
        )
    except ApiRefused as refused:
        if refused.status != 422:
            raise
        content = join(h("h1", "Traffic"), form, filter_problem(visit, refused, _FILTERS))
        return Page("Traffic", content, _MENU, status=422)
    return Page("Traffic", join(h("h1", "Traffic"), form, _period(visit, traffic), _content(visit, traffic)), _MENU)


def _period(visit: Visit, traffic: Document) -> Html:
    """The period, how it is counted, and what of it is not."""
    end = moment(traffic["until"], visit.now) if visit.query.get("until") else "now"
    words = h("p", "From ", moment(traffic["since"], visit.now), " to ", end, ". ", _HOURS, class_="muted")
    evicted = traffic["evicted_channels"]
    if evicted:
        channels = "1 channel has" if evicted == 1 else f"{evicted:,} channels have"
        lost = f"{channels} evicted messages of this period before Parley counted them: these are missing."
        return join(words, note("warn", lost))
    if not traffic["complete"]:
        return join(words, note("warn", "Not all of this period is counted: choose a shorter one, of whole hours."))
    return words


def _content(visit: Visit, traffic: Document) -> Html:
    pairs = [_named(pair, traffic["by"]) for pair in traffic["pairs"]]
    if not pairs:
        return empty("No messages in this period. The same on the command line:", "parley traffic --since 7d")
    names = busiest(pairs)
    left_out = len({name for pair in pairs for name in (pair["from"], pair["to"])}) - len(names)
    more = h("p", f"Shown are the {len(names)} busiest; {left_out:,} more are in the list.", class_="muted")
    is_person = traffic["by"] == "user"
    return join(
        h("div", _matrix(pairs, names, is_person=is_person), drawing(pairs, names), class_="traffic"),
        more if left_out else None,
        _table(visit, pairs),
    )


def _named(pair: Document, by: str) -> Document:
    names = {side: EVERYONE if pair[side] == "*" else pair[side] or _NOBODY[by] for side in ("from", "to")}
    return {**pair, **names}


def busiest(pairs: list[Document]) -> list[str]:
    """The names with the most messages, by name."""
    totals: dict[str, int] = {}
    for pair in pairs:
        for name in dict.fromkeys((pair["from"], pair["to"])):
            totals[name] = totals.get(name, 0) + pair["delivered"] + pair["held"] + pair["denied"]
    return sorted(sorted(totals, key=lambda name: (-totals[name], name))[:NAMES_MAX])


def _matrix(pairs: list[Document], names: list[str], *, is_person: bool) -> Html:
    """Senders down, receivers across."""
    cells = {(pair["from"], pair["to"]): pair for pair in pairs}
    most = max([pair["delivered"] for pair in pairs])
    senders = [name for name in names if any(sender == name for sender, _ in cells)]
    receivers = [name for name in names if any(to == name for _, to in cells)]
    rows = [
        h("tr", h("th", _name(sender, is_person=is_person), scope="row"),
          [_cell(cells.get((sender, receiver)), most) for receiver in receivers])
        for sender in senders
    ]  # fmt: skip
    headings: list[Child] = [h("span", "From, to", class_="sr")]
    headings += [_name(receiver, is_person=is_person) for receiver in receivers]
    table = data_table("Who talked to whom: senders in rows, receivers in columns", headings, rows)
    # The script shows it while not all columns are in sight.
    hint = h("p", "Scroll sideways to see every column.", class_="muted sideways", hidden=True)
    return h("div", hint, table, class_="matrix")


def _name(name: str, *, is_person: bool) -> Html:
    return h("span", badge(name, is_person=is_person), h("span", name, dir="auto"), class_="name")


def _cell(pair: Document | None, most: int) -> Html:
    if pair is None:
        return h("td")
    return h("td", pair["delivered"] or None, " ", _tags(pair), class_=f"tint{_step(pair['delivered'], most)}")


def _step(count: int, most: int) -> int:
    """A tint from 0 for none to 5 for the most, by orders of magnitude."""
    if not count:
        return 0
    return 1 + round((_TINTS - 1) * log(count) / log(most)) if most > 1 else 1


def _tags(pair: Document) -> Html:
    held = tag(f"{pair['held']:,} held", "warn") if pair["held"] else None
    denied = tag(f"{pair['denied']:,} denied", "bad") if pair["denied"] else None
    return h("span", held, denied, class_="tags")


def _table(visit: Visit, pairs: list[Document]) -> Html:
    rows = [
        h("tr", h("td", pair["from"], dir="auto"), h("td", pair["to"], dir="auto"), h("td", pair["delivered"]),
          h("td", pair["held"]), h("td", pair["denied"]), h("td", moment(pair["last_at"], visit.now)))
        for pair in pairs[:_ROWS_MAX]
    ]  # fmt: skip
    caption = "Every pair, the busiest first" if len(pairs) <= _ROWS_MAX else f"The {_ROWS_MAX} busiest pairs"
    return data_table(caption, ("From", "To", "Delivered", "Held", "Denied", "Last"), rows)
