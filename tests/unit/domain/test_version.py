"""One version, wherever one asks."""

import parley
from parley.domain.version import VERSION


def test_the_root_package_has_the_same_version() -> None:
    assert parley.__version__ == VERSION
