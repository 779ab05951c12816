"""The generated reference is complete: what can be imported, written or configured is on its page."""

import builtins
import re
import typing

import parley
from parley.wire.files import workflow
from tests.docs.snippets import ROOT

REFERENCE = ROOT / "docs" / "reference"
PYTHON = (REFERENCE / "python.md").read_text(encoding="utf-8")


def test_every_name_that_can_be_imported_is_on_the_page() -> None:
    named = set(re.findall(r"^#+ (\w+)$", PYTHON, re.MULTILINE)) | set(re.findall(r"^\| `(\w+)`", PYTHON, re.MULTILINE))

    assert set(parley.__all__) - named - {"AsyncClient", "Kind", "Priority", "Record"} == set()
    assert {"AsyncClient", "Kind", "Priority", "record.to_dict()"} <= set(re.findall(r"[\w.()]+", PYTHON))


def test_every_method_of_the_client_is_on_the_page_with_what_it_does() -> None:
    methods = {name for kind in parley.Client.__mro__ for name in vars(kind) if not name.startswith("_")}
    methods -= {"connection", "url", "agent"}
    explained = dict(re.findall(r"^#### (\w+)\n\n```text\n.*?\n```\n\n(\w[^\n]+)", PYTHON, re.MULTILINE | re.DOTALL))

    assert methods - explained.keys() == set()


def test_every_key_of_a_workflow_file_is_on_the_page() -> None:
    page = (REFERENCE / "workflow.md").read_text(encoding="utf-8")
    keys = {*workflow._TOP, *workflow._INTENT, *workflow._CHANNEL, *workflow._AGENT, *workflow._RULE, *workflow._STEP}

    assert keys - set(re.findall(r"^\| `(\w+)` \| \S", page, re.MULTILINE)) == set()


def test_types_are_shown_as_one_writes_them() -> None:
    assert re.findall(r"ForwardRef\S*|Literal\[\w[^\]]*\]|list\[\"\w+\"\]", PYTHON) == []


def test_every_type_of_ours_in_a_field_or_signature_is_explained() -> None:
    signatures = re.findall(r"^```text\n(.*?)^```$", PYTHON, re.MULTILINE | re.DOTALL)
    fields = re.findall(r"^\| `\w+` \| `([^`\n]+)` \|", PYTHON, re.MULTILINE)
    named = set(re.findall(r"\b[A-Z]\w+", re.sub(r'"[^"]*"', "", " ".join([*signatures, *fields]))))
    known = set(re.findall(r"^#+ (\w+)$", PYTHON, re.MULTILINE)) | set(
        re.findall(r"^\| `(\w+)` \|", PYTHON, re.MULTILINE)
    )
    pythons = {*vars(builtins), *vars(typing), "Logger", "PathLike"}

    assert named - known - pythons == {"AsyncClient"}  # which is said beside the client


def test_every_error_is_caught_by_one_that_can_be_imported() -> None:
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    caught = dict(re.findall(r"^\| `\w+` \| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE))

    assert set(caught.values()) <= set(parley.__all__)
    assert {name: caught[name] for name in ("NotFound", "UnknownSender")} == {
        "NotFound": "NotFound",
        "UnknownSender": "NotFound",
    }
