"""The skills that are shipped: short, named, and free of what their forms cannot hold."""

from __future__ import annotations

import re

import pytest

from parley.adapters.harness.skills import SKILLS, read_skill

# Of prose, the worst value that was measured with two tokenizers, less an eighth.
PROSE_BYTES_PER_TOKEN = 3.5


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_takes_fewer_than_300_tokens_and_says_when_to_use_it(name: str) -> None:
    text = read_skill(name)

    assert len(text.encode()) / PROSE_BYTES_PER_TOKEN < 300
    assert text.startswith(f"---\nname: parley-{name}\ndescription: ")
    assert " Use " in text.split("\n")[2]


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_has_nothing_that_ends_a_text_in_toml_or_yaml(name: str) -> None:
    text = read_skill(name)

    assert "\\" not in text
    assert '"""' not in text
    assert re.fullmatch(r"[^:#]+", text.split("\n")[2].removeprefix("description: "))


def test_every_file_of_a_skill_is_offered() -> None:
    from pathlib import Path

    from parley.adapters.harness import skills

    folder = Path(skills.__file__).parent / "skill_texts"
    assert {path.stem for path in folder.iterdir()} == set(SKILLS)
