"""What `import parley` offers, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import parley
from parley.domain import errors

PUBLIC = [
    "Conflict",
    "Denied",
    "Forbidden",
    "Found",
    "Invalid",
    "Item",
    "Kind",
    "LeaseLost",
    "Mailbox",
    "Message",
    "MessageHeld",
    "NotFound",
    "ParleyError",
    "Priority",
    "Problem",
    "Review",
    "Unavailable",
    "Undelivered",
    "UnknownAgent",
    "UnknownMessage",
    "UnknownProject",
]


def test_the_public_names_are_these() -> None:
    assert parley.__all__ == PUBLIC == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(parley, name).__name__ == name


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Kernel'"):
        parley.Kernel  # noqa: B018


def test_every_public_error_is_a_parley_error_with_a_code() -> None:
    public = [getattr(parley, name) for name in PUBLIC if hasattr(errors, name) and name != "Problem"]

    assert all(issubclass(error, parley.ParleyError) for error in public)
    assert len({error.code for error in public}) == len(public)


def test_a_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from parley import *", names)

    assert set(PUBLIC) <= set(names)


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import sys, parley; print(*[name for name in sys.modules if name.startswith('parley.')])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert loaded.stdout.split() == []
