"""The glossary is law: its words are in the code, what the code exports is in it, and no word has two meanings."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import parley
from parley.domain.store.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| \*\*(?P<words>[^*]+)\*\* \| `(?P<place>[^`|]+)` \| (?P<meaning>[^|]+) \|", re.MULTILINE)
ROWS = [match.groupdict() for match in ROW.finditer((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))]
USED = {row["words"]: row["place"] for row in ROWS}
# The same noun elsewhere: as the API shows it, generated from the asynchronous client, and the error about it.
SAME_NOUN = ("wire.api.records.", "sdk.blocking.", "domain.errors.")


@pytest.mark.parametrize("word", USED)
def test_a_word_in_use_is_in_the_code(word: str) -> None:
    thing = find(USED[word])

    assert thing is not None


def find(path: str) -> object:
    """What a dotted name under parley leads to: modules first, then their members."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: object = import_module(".".join(["parley", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            thing = getattr(thing, part)
        return thing
    raise LookupError(path)


def test_every_row_of_the_tables_is_read() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")

    assert len(ROWS) == len(re.findall(r"^\| \*\*", text, re.MULTILINE))


def test_a_word_is_listed_once() -> None:
    listed = [class_name(word) for row in ROWS for word in row["words"].split(", ")]

    assert sorted(listed) == sorted(set(listed))


def test_every_exported_class_is_explained(explained: set[str]) -> None:
    names = {class_name(word) for word in explained}
    exported = {name: getattr(parley, name) for name in parley.__all__}

    missing = [
        name
        for name, thing in exported.items()
        if inspect.isclass(thing) and not issubclass(thing, BaseException) and class_name(name) not in names
    ]

    assert missing == []


def test_no_other_class_has_the_name_of_a_word() -> None:
    names = {class_name(word) for row in ROWS for word in row["words"].split(", ")}

    others = [
        place
        for place in public_classes()
        if class_name(place.rpartition(".")[2]) in names
        and place not in USED.values()
        and not place.startswith(SAME_NOUN)
    ]

    assert others == [], "give it a name of its own: a word of docs/glossary.md is used for nothing else"


def class_name(word: str) -> str:
    """A word as a class would be named, in small letters: `Dead letter` is `deadletter`."""
    return re.sub(r"[ _]", "", word).lower()


def public_classes() -> list[str]:
    """Dotted names, below parley, of all public classes of the source."""
    package = ROOT / "src" / "parley"
    return [
        ".".join([*path.relative_to(package).with_suffix("").parts, node.name])
        for path in sorted(package.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


@pytest.fixture(name="explained")
def words() -> set[str]:
    return {word.lower() for row in ROWS for word in row["words"].split(", ")}


def test_every_word_of_the_mailbox_is_explained(explained: set[str]) -> None:
    assert {"message", "ledger", "claim", "lease", "dead letter", "workspace", "doubt", "problem"} <= explained


def test_every_word_of_the_server_is_explained(explained: set[str]) -> None:
    assert {"channel", "post", "intent", "tenant", "key", "caller", "role", "position", "seq", "record"} <= explained


def test_every_word_of_the_rules_is_explained(explained: set[str]) -> None:
    assert {
        "envelope",
        "exchange",
        "round",
        "policy",
        "verdict",
        "approval",
        "side",
        "org unit",
        "purpose",
    } <= explained


def test_every_kind_of_record_that_users_meet_is_explained(explained: set[str]) -> None:
    # These stand behind another word: a key's listing and holder, an access list's entry, an identity's beginning,
    # a log's mark, a quota's count.
    hidden = {"issued_key", "key_names", "intent_count", "access_request", "challenge", "log_mark", "audit_mark"}
    shown = {"agent": "agent record", "request": "requeststate", "request_mark": "requestmark"}
    named = {kind: shown.get(kind, kind.replace("_", " ")) for kind in KINDS if kind not in hidden}

    missing = {kind for kind, word in named.items() if word not in explained}

    assert missing == set()


def test_every_word_of_the_sdk_is_explained(explained: set[str]) -> None:
    assert {
        "client",
        "transport",
        "agent",
        "agent class",
        "handler",
        "workplace",
        "bookmark",
        "workflow",
        "step",
    } <= explained
