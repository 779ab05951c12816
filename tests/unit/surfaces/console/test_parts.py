from __future__ import annotations

import pytest

from parley.surfaces.console.parts import short_id


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("conv_01M7Q76A64P9Y3PWPYNWPGFSTY", "…FSTY"),
        ("admin:key_01M7Q769W8X1YS1D8Z6NA1P265", "admin:…P265"),
        ("conv_7", "conv_7"),
        ("purchasing-and-procurement", "purchasing-and-procurement"),
        ("ann", "ann"),
    ],
)
def test_ids_are_shown_by_their_ends_and_names_as_they_are(name: str, shown: str) -> None:
    assert short_id(name) == shown
