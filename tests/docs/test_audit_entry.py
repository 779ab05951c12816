"""docs/reference/audit-entry.md names every field and every action that a server writes into its audit log."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.snippets import ROOT, Block, Stage

PAGE = (ROOT / "docs" / "reference" / "audit-entry.md").read_text(encoding="utf-8")
POST = "parley post desk --intent $INTENT --agent ann-bot --field"
STORY = f"""\
$ parley up &
...
$ parley agent register ann-bot --user ann --org-unit sales
$ parley agent register bob-bot --user bob --org-unit sales
$ parley agent register eve-bot --user eve --org-unit legal
$ parley key create --user ann --save
$ parley intent create Launch --agent ann-bot --access open
Created intent Launch [intent_01M7H16BJG2G0T7VFEFHN4GRSJ] (active)
$ export INTENT=intent_01M7H16BJG2G0T7VFEFHN4GRSJ
$ {POST} text='How is it?' --to bob-bot --purpose information_query --conversation c1
$ {POST} text='To all' --type broadcast --purpose information_query
$ {POST} text='Secret' --to bob-bot --classification restricted   # exits 6
$ {POST} text='Away' --to eve@globex   # exits 6
$ {POST} text='We promise' --to bob-bot --purpose information_query --conversation c2   # exits 9
$ until parley audit list --action approval_told | grep -q told; do sleep 0.1; done
$ export PARLEY_ONE=$(parley approvals list --context ann --json | grep -o 'appr_[0-9A-Z]*' | head -1)
$ parley approvals approve $PARLEY_ONE --context ann --yes
$ export OPEN=$(parley exchange list --conversation c1 --json | grep -o 'exch_[0-9A-Z]*' | head -1)
$ parley exchange close $OPEN --agent ann-bot --reason 'done'
$ parley suspend agent bob-bot --reason 'a test'
$ parley resume agent bob-bot
$ parley audit erase --conversation c1 --yes
$ parley audit erase --sender ann-bot --yes
$ parley audit export > audit.jsonl
"""


@pytest.fixture(name="entries", scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The documents of all entries of a server to which about everything has happened."""
    home = tmp_path_factory.mktemp("audit")
    stage = Stage(home)
    try:
        stage.run(Block("the story of this test", 0, "console", STORY))
    finally:
        stage.close()
    return documents(home / "audit.jsonl")


def documents(export: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in export.read_text(encoding="utf-8").splitlines()]
    return [line["document"] for line in lines if line.get("document")]


def named() -> set[str]:
    return set(re.findall(r"`([A-Za-z_]+)`", PAGE))


@pytest.mark.slow
def test_every_field_of_an_entry_is_on_the_page(entries: list[dict[str, Any]]) -> None:
    fields = {field for entry in entries for field in entry}

    assert len(entries) > 10
    assert fields - named() == set()


@pytest.mark.slow
def test_every_action_is_on_the_page(entries: list[dict[str, Any]]) -> None:
    actions = {entry["action"] for entry in entries}

    assert {"agent_exchange", "agent_exchange_ended", "approval_decided", "content_erased", "suspended"} <= actions
    assert actions - named() == set()
