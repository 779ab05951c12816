"""The skills that Parley ships: short instructions for common tasks, each in a file beside this module."""

from __future__ import annotations

import os

# In the order in which they are shown.
SKILLS = ("inbox", "ask", "review")


def read_skill(name: str) -> str:
    """The text of a skill: a heading with its name and description, then what to do."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "skill_texts", f"{name}.md")
    with open(path, encoding="utf-8") as file:
        return file.read()
