"""Under which names and addresses a server is safe."""

import pytest

from parley.domain.errors.team import UnsafeMode
from parley.domain.names import is_loopback
from parley.surfaces.http.server import check_exposure, names_of, tls_context


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1"])
def test_loopback_needs_no_encryption_and_may_be_served_by_root(host: str) -> None:
    assert is_loopback(host)

    check_exposure(host, encrypted=False, behind_proxy=False, root=True)


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "192.168.1.5",
        "example.org",
        "128.0.0.1",
        "127.example.org",
        "127.0.0.1.example.org",
        "127.0.0.256",
    ],
)
def test_what_others_can_reach_in_the_clear_is_refused_with_what_to_do(host: str) -> None:
    with pytest.raises(UnsafeMode, match="--behind-proxy"):
        check_exposure(host, encrypted=False, behind_proxy=False, root=False)


@pytest.mark.parametrize(("encrypted", "behind_proxy"), [(True, False), (False, True)])
def test_what_others_can_reach_is_served_with_encryption_but_not_by_root(encrypted: bool, behind_proxy: bool) -> None:
    check_exposure("0.0.0.0", encrypted=encrypted, behind_proxy=behind_proxy, root=False)

    with pytest.raises(UnsafeMode, match="--allow-root"):
        check_exposure("0.0.0.0", encrypted=encrypted, behind_proxy=behind_proxy, root=True)


def test_a_server_on_loopback_answers_to_its_own_names_and_to_those_allowed() -> None:
    names = names_of("127.0.0.1", "parley.test, ", behind_proxy=False)

    assert names == {"127.0.0.1", "localhost", "::1", "parley.test"}


def test_a_server_behind_a_proxy_answers_to_what_was_allowed_or_to_all() -> None:
    assert names_of("0.0.0.0", "", behind_proxy=True) == frozenset()
    assert names_of("0.0.0.0", "parley.test", behind_proxy=True) == {"parley.test"}


def test_a_certificate_without_its_key_is_refused() -> None:
    assert tls_context("", "") is None

    with pytest.raises(UnsafeMode, match="both"):
        tls_context("cert.pem", "")
    with pytest.raises(UnsafeMode, match="cannot be used"):
        tls_context("/nonexistent/cert.pem", "/nonexistent/key.pem")
