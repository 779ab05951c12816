from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from parley.surfaces.console.pages.traffic import NAMES_MAX, busiest
from parley.surfaces.console.pages.traffic_drawing import drawing


def a_pair(sender: str, to: str, delivered: int = 1, held: int = 0, denied: int = 0) -> dict[str, Any]:
    return {"from": sender, "to": to, "delivered": delivered, "held": held, "denied": denied}


class _Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_each_way_and_outcome_is_a_curve_of_its_own_and_names_are_text() -> None:
    hostile = "<script>x</script>"
    pairs = [a_pair("a", "b", 200, 1, 2), a_pair("b", "a", 9), a_pair("a", hostile), a_pair("a", "a")]

    elements = _Elements(drawing(pairs, ["a", "b", hostile])).tags

    flows = [attrs["class"] for tag, attrs in elements if tag == "g" and "class" in attrs]
    assert flows == ["flow delivered w3", "flow held w1", "flow denied w1", "flow delivered w1", "flow delivered w1"]
    paths = [attrs["d"] for tag, attrs in elements if tag == "path"]
    assert len({*paths}) == len(paths)
    assert not {"script"} & {tag for tag, _ in elements}
    assert not [attrs for _, attrs in elements if "style" in attrs]


def test_only_the_busiest_names_are_drawn() -> None:
    pairs = [a_pair(f"agent-{number:02}", "hub", number + 1) for number in range(40)]

    names = busiest(pairs)

    assert len(names) == NAMES_MAX
    assert {"hub", "agent-39"} <= {*names}
    assert drawing(pairs, names).count("<path") == NAMES_MAX - 1
