from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.text_places import placed_texts

TREES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def test_texts_and_keys_come_with_their_pointers_in_order() -> None:
    body = {"a/b": ["one", {"~": "two"}], "n": 1}

    assert list(placed_texts(body, "/payload")) == [
        ("/payload/a~1b#", "a/b"),
        ("/payload/a~1b/0", "one"),
        ("/payload/a~1b/1/~0#", "~"),
        ("/payload/a~1b/1/~0", "two"),
        ("/payload/n#", "n"),
    ]


@given(TREES)
def test_a_pointer_leads_to_its_text(tree: object) -> None:
    for where, text in placed_texts(tree, ""):
        last = where.rpartition("/")[2].removesuffix("#").replace("~1", "/").replace("~0", "~")
        assert text == _at(tree, where) or (where.endswith("#") and text == last)


def _at(tree: object, pointer: str) -> object:
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(tree, list):
            tree = tree[int(name)]
        elif isinstance(tree, dict):
            tree = tree.get(name)
    return tree
