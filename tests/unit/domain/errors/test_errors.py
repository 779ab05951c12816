"""Every error has a code of its own, and its docstring is its default message."""

from __future__ import annotations

import re
from pathlib import Path

import parley
from parley.domain.errors import errors
from parley.domain.errors.errors import Invalid, NotFound, ParleyError, Problem, Stale

Tree = dict[str, tuple[str, str]]


def classes(root: type[ParleyError] = ParleyError) -> list[type[ParleyError]]:
    """The errors of the module; others are defined elsewhere, and tests may have made more."""
    below = [one for child in root.__subclasses__() for one in classes(child)]
    return [one for one in [root, *below] if vars(errors).get(one.__name__) is one]


def drawn() -> Tree:
    """The tree as the module's docstring draws it: class -> (parent, code)."""
    parents: list[str] = []
    tree: Tree = {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│├└─ ]*)([A-Z]\w+) +([a-z_]+)", line)
        if match:
            depth = len(match[1]) // 4
            del parents[depth:]
            tree[match[2]] = (parents[-1] if parents else "", match[3])
            parents.append(match[2])
    return tree


def test_the_drawn_tree_is_the_real_one() -> None:
    real = {one.__name__: (one.__mro__[1].__name__, one.code) for one in classes()}

    assert drawn() == {**real, "ParleyError": ("", "internal")}


def test_no_two_errors_share_a_code() -> None:
    codes = [one.code for one in classes()]

    assert len(set(codes)) == len(codes)


def test_the_docstring_is_the_default_message() -> None:
    assert Stale().message == str(Stale()) == "Somebody else was faster"
    assert Stale("other words").message == "other words"
    assert all(one().message for one in classes())


def test_a_hint_and_problems_are_carried_along() -> None:
    problem = Problem("too_long", "subject", "201 characters")

    error = Invalid("no", hint="try this", problems=(problem,))

    assert (error.hint, error.problems) == ("try this", (problem,))
    assert (Stale().hint, Stale().problems) == ("", ())


def test_one_error_names_all_problems() -> None:
    error = Invalid.because([Problem("a", "subject", "is empty"), Problem("b", "", "half a character")])

    assert error.message == "subject: is empty; half a character"
    assert [one.code for one in error.problems] == ["a", "b"]


def test_nothing_says_in_words_alone_what_was_not_found() -> None:
    # What may not be known answers like what does not exist, so no two places may say it differently.
    sources = Path(parley.__file__).parent.rglob("*.py")
    bare = re.compile(r'NotFound\(f?"no such \w+"')

    assert [path.name for path in sources if bare.search(path.read_text(encoding="utf-8"))] == []
    assert NotFound.no_such("intent").facts == {"missing": "intent"}
