"""The pages are true: what they show runs, what they link to is there, what is generated is fresh."""

import os
import random
import re
import shutil
import string
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from parley.cli.width import display_width
from tests.docs.snippets import COLUMNS, ROOT, SHOWN_HOME, Stage, blocks, commands, pages

RUN = [page for page in pages() if any(blocks(page))]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
LINKED = [*pages(), ROOT / "CHANGELOG.md", *sorted((ROOT / ".github").glob("*.md"))]
LONGEST_README = 200


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder whose path is as long as the one that pages show, so that lines are wrapped where pages show it."""
    while True:
        folder = Path("/tmp") / "".join(random.choices(string.ascii_lowercase, k=len(SHOWN_HOME) - len("/tmp/")))
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            break
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name)
def test_what_a_page_shows_is_what_happens(page: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(home)
    for variable in list(os.environ):
        monkeypatch.delenv(variable)
    for variable, value in stage.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(home)

    try:
        for block in blocks(page):
            stage.run(block)
    finally:
        stage.close()


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = [link for link in LINK.findall(text) if not link.startswith("https://") and not resolves(page, link)]

    assert broken == []


def resolves(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(target)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        links = LINK.findall(page.read_text(encoding="utf-8"))
        ahead += [(page.parent / link.split("#")[0]).resolve() for link in links if not link.startswith("http")]

    assert [name(page) for page in pages() if page not in reached] == []


def test_the_generated_pages_are_fresh() -> None:
    checked = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "gen_docs.py"), "--check"], capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < LONGEST_README


def test_no_page_shows_a_folder_of_the_one_who_wrote_it() -> None:
    shown = {
        f"{name(page)}: {path}"
        for page in pages()
        for path in re.findall(r"(?<![\w.~])/(?:home|tmp)/[\w.]+", page.read_text(encoding="utf-8"))
        if path != SHOWN_HOME
    }

    assert shown == set()


def test_the_packaged_description_is_the_readme() -> None:
    assert 'readme = "README.md"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", [page for page in RUN if "tutorial" in page.parts or page.name == "README.md"], ids=name
)
def test_no_output_that_a_beginner_sees_is_wrapped_by_the_terminal(page: Path) -> None:
    """Commands run at 80 columns, so a page that is true and wide shows a command that does not fit its output."""
    lines = [
        line
        for block in blocks(page)
        if block.language == "console"
        for _, output in commands(block.text)
        for line in output
    ]
    too_wide = [line for line in lines if display_width(line) > int(COLUMNS) and len(line.split()) > 1]

    assert too_wide == []
