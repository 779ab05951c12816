from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.invisible_characters import is_hidden
from parley.surfaces.console.html import Html, address, h, join, label_cells, text


class Reader(HTMLParser):
    """What a browser reads: elements with their attributes, and the text; marks are put back as characters."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._in_mark = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if (tag, dict(attrs).get("class")) == ("span", "hid"):
            self._in_mark = True
        else:
            self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag == "span":
            self._in_mark = False

    def handle_data(self, data: str) -> None:
        self.text += chr(int(data.removeprefix("U+"), 16)) if self._in_mark else data


def read(html: Html) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


# A carriage return is a hidden character, so it is spelled out as well.
ANY_TEXT = st.text(st.characters(codec="utf-8"))


@given(ANY_TEXT)
def test_any_text_comes_back_as_that_text_and_as_no_element(content: str) -> None:
    reader = read(h("p", content))

    assert (reader.elements, reader.text) == ([("p", {})], content)


@given(ANY_TEXT)
def test_no_hidden_character_is_left_in_a_page(content: str) -> None:
    html = h("p", content, title=content)

    assert not any(is_hidden(character) for character in html)


@given(st.text(st.characters(codec="utf-8").filter(lambda one: not is_hidden(one))))
def test_any_text_in_an_attribute_comes_back_as_that_text_and_as_no_other_attribute(content: str) -> None:
    reader = read(h("p", title=content, data_x="1"))

    assert reader.elements == [("p", {"title": content, "data-x": "1"})]


def test_a_mark_that_a_sender_spells_is_no_mark() -> None:
    assert "class" not in text('<span class="hid">U+200B</span> ⟨U+200B⟩').replace("&lt;span class=", "")


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://elsewhere.example/", "//elsewhere.example", "data:,x"])
def test_a_link_leads_nowhere_else(url: str) -> None:
    with pytest.raises(ValueError, match="is no address of this server"):
        h("a", "here", href=url)


@given(st.text(min_size=1), st.text(min_size=1))
def test_steps_and_fields_of_an_address_are_escaped(step: str, value: str) -> None:
    try:
        step.encode(), value.encode()
    except UnicodeEncodeError:
        return
    path = address("approvals", step, status=value)

    assert path.isascii()
    assert path.count("/") == 3
    assert path.count("?") == 1
    assert "&" not in path


def test_pieces_are_joined_and_nothing_is_left_out() -> None:
    html = join(h("b", 1000), None, ["<", [h("i", "x")]])

    assert html == "<b>1,000</b>&lt;<i>x</i>"


@given(st.text(), st.text(min_size=1))
def test_the_cells_of_a_row_carry_their_headings_and_their_text_stays(content: str, heading: str) -> None:
    row = h("tr", h("th", content, scope="row"), h("td", f"<td>{content}"), h("td", "third"))

    labelled = read(label_cells(row, [heading, "", "Last"]))

    cells = [attributes for tag, attributes in labelled.elements if tag in ("th", "td")]
    plain = [attributes for tag, attributes in read(h("td", data_label=heading)).elements]
    assert cells == [{**plain[0], "scope": "row"}, {}, {"data-label": "Last"}]
    assert labelled.text == read(row).text
