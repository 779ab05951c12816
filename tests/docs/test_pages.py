"""The pages are true: what they show runs, what they link to is there, what is generated is fresh."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, SHOWN_HOME, Stage, blocks, pages

RUN = [page for page in pages() if any(blocks(page))]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
LINKED = [*pages(), ROOT / "CHANGELOG.md", *sorted((ROOT / ".github").glob("*.md"))]
LONGEST_README = 200


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path)
    for variable in list(os.environ):
        monkeypatch.delenv(variable)
    for variable, value in stage.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)

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
