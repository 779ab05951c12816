"""Saved logins: which server and key are used, and that no key goes to another server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.errors import Ambiguous, Invalid, NotFound
from parley.domain.logins import (
    Login,
    OwnServer,
    SavedLogins,
    ServerAccess,
    SettingValue,
    addresses,
    check_context_name,
    resolve,
    unauthorized_hint,
    unreachable_hint,
)

DEFAULT_URL = "http://127.0.0.1:8420"
LOCAL = Login("local", DEFAULT_URL, "pk_local", kind="admin", tenant="default", data="/data")
PROD = Login("prod", "https://parley.example.org", "pk_prod", kind="human", tenant="default", user="ann")
BOB = Login("bob", "https://parley.example.org", "pk_bob", kind="human", tenant="default", user="bob")
FLAG, VARIABLE, FILE = 3, 2, 1
NOTHING = SettingValue()
NOW = "2026-03-14T12:00:00.000000+00:00"


def access(
    saved: SavedLogins, url: SettingValue = NOTHING, key: SettingValue = NOTHING, context: SettingValue = NOTHING
) -> ServerAccess:
    return resolve(url, key, context, DEFAULT_URL, lambda: saved)


def env(text: str, name: str = "PARLEY_URL") -> SettingValue:
    return SettingValue(text, f"${name}", VARIABLE)


def flag(text: str, name: str = "url") -> SettingValue:
    return SettingValue(text, f"--{name}", FLAG)


def repository(text: str) -> SettingValue:
    return SettingValue(text, "/src/parley.toml", FILE, from_repository=True)


def user_file(text: str) -> SettingValue:
    return SettingValue(text, "/home/ann/.config/parley/parley.toml", FILE)


# ---------------------------------------------------------------- a repository does not choose who gets a key

ELSEWHERE = "https://elsewhere.example"


@pytest.mark.parametrize("key", [env("pk_x", "PARLEY_KEY"), user_file("pk_x")])
@pytest.mark.parametrize(
    "url",
    [
        ELSEWHERE,
        f"{DEFAULT_URL},{ELSEWHERE}",
        "https://parley.example.org.elsewhere.example",
        "http://127.0.0.1.elsewhere.example",
        "http://127.0.0.1@elsewhere.example",
        "http://localhost:8420@elsewhere.example",
        "http://[::1].elsewhere.example",
    ],
)
def test_a_key_of_the_person_is_not_sent_where_only_a_repository_says(url: str, key: SettingValue) -> None:
    with pytest.raises(Invalid) as refused:
        access(SavedLogins("prod", (LOCAL, PROD)), url=repository(url), key=key)

    assert refused.value.message == f"the key from {key.source} is not sent to {url}, which only /src/parley.toml names"
    assert refused.value.hint == f"if you trust this server: parley login {url}, or set PARLEY_URL as well"
    assert "pk_x" not in repr(refused.value)


def test_a_key_of_the_person_goes_where_a_login_or_their_own_file_says_or_to_this_machine() -> None:
    key = env("pk_x", "PARLEY_KEY")
    saved = SavedLogins("local", (LOCAL, PROD))

    assert access(saved, url=repository(f"{PROD.url}/"), key=key).key == "pk_x"
    assert access(SavedLogins(), url=repository("http://localhost:9"), key=key).key == "pk_x"
    assert access(SavedLogins(), url=env(ELSEWHERE), key=key).key == "pk_x"
    assert access(SavedLogins(), url=user_file(ELSEWHERE), key=key).key == "pk_x"
    own = resolve(repository(ELSEWHERE), key, NOTHING, DEFAULT_URL, SavedLogins, own_url=f"{ELSEWHERE}/api/v1")
    assert (own.url, own.key) == (ELSEWHERE, "pk_x")


def test_a_key_for_this_call_and_a_key_of_the_repository_go_to_its_server() -> None:
    assert access(SavedLogins(), url=repository(ELSEWHERE), key=flag("pk_x", "key")).key == "pk_x"
    assert access(SavedLogins(), url=repository(ELSEWHERE), key=repository("pk_own")).key == "pk_own"


# ---------------------------------------------------------------- which server, which key


def test_without_logins_the_default_server_is_used_without_a_key() -> None:
    assert access(SavedLogins()) == ServerAccess(DEFAULT_URL, "", "default", "")


def test_the_login_in_use_gives_address_and_key() -> None:
    found = access(SavedLogins("prod", (LOCAL, PROD)))

    assert (found.url, found.key, found.url_source, found.login) == (PROD.url, "pk_prod", "context prod", PROD)


def test_the_last_login_that_is_left_is_not_used_without_being_chosen() -> None:
    with pytest.raises(Ambiguous, match="no saved login is in use; there is prod "):
        access(SavedLogins("local", (LOCAL, PROD)).without("local"))


def test_two_logins_of_which_none_is_chosen_are_an_error_that_names_both() -> None:
    with pytest.raises(Ambiguous) as refused:
        access(SavedLogins("gone", (LOCAL, PROD)))

    assert refused.value.message == (
        "no saved login is in use; there is local (http://127.0.0.1:8420, admin), "
        "prod (https://parley.example.org, human ann)"
    )
    assert refused.value.hint == "choose one with --context NAME, or for all commands with: parley context use NAME"


def test_an_address_and_a_key_that_are_given_read_no_saved_login() -> None:
    def refuse() -> SavedLogins:
        raise AssertionError("it was read")

    found = resolve(env("http://127.0.0.1:1"), env("pk_x", "PARLEY_KEY"), SettingValue(), DEFAULT_URL, refuse)

    assert (found.url, found.key, found.login) == ("http://127.0.0.1:1", "pk_x", None)


def test_a_given_address_takes_the_key_that_was_saved_for_it() -> None:
    found = access(SavedLogins("local", (LOCAL, PROD)), env("https://PARLEY.example.org:443/api/v1/"))

    assert (found.key, found.login) == ("pk_prod", PROD)


def test_a_given_address_never_gets_the_key_of_another_one() -> None:
    found = access(SavedLogins("local", (LOCAL,)), env("https://evil.example"))

    assert (found.key, found.login) == ("", None)


def test_an_address_of_this_machine_in_another_spelling_gets_no_key_but_a_hint() -> None:
    found = access(SavedLogins("local", (LOCAL,)), env("http://localhost:8420"))

    assert found.key == ""
    assert unauthorized_hint(found, NOW) == (
        "there is no key for http://localhost:8420; saved are local (http://127.0.0.1:8420, admin); "
        "log in with: parley login http://localhost:8420"
    )


def test_of_two_logins_for_an_address_the_one_in_use_is_taken_else_both_are_named() -> None:
    assert access(SavedLogins("bob", (BOB, PROD)), env(PROD.url)).key == "pk_bob"
    with pytest.raises(Ambiguous) as refused:
        access(SavedLogins("local", (BOB, LOCAL, PROD)), env(PROD.url))
    assert refused.value.message == (
        "2 saved logins for https://parley.example.org: bob (https://parley.example.org, human bob), "
        "prod (https://parley.example.org, human ann)"
    )


def test_a_given_key_goes_to_the_server_in_use() -> None:
    found = access(SavedLogins("prod", (LOCAL, PROD)), key=env("pk_other", "PARLEY_KEY"))

    assert (found.url, found.key, found.key_source, found.login) == (PROD.url, "pk_other", "$PARLEY_KEY", None)


def test_a_context_flag_wins_over_variables() -> None:
    saved = SavedLogins("local", (LOCAL, PROD))

    found = access(saved, env("http://127.0.0.1:1"), env("pk_x", "PARLEY_KEY"), flag("prod", "context"))

    assert (found.url, found.key) == (PROD.url, "pk_prod")


def test_an_address_flag_wins_over_a_context_variable() -> None:
    saved = SavedLogins("", (BOB, LOCAL, PROD))

    assert access(saved, flag(DEFAULT_URL), context=env("prod", "PARLEY_CONTEXT")).key == "pk_local"
    assert access(saved, flag(PROD.url), context=env("prod", "PARLEY_CONTEXT")).key == "pk_prod"


def test_a_context_and_another_address_contradict_each_other() -> None:
    with pytest.raises(Invalid) as refused:
        access(SavedLogins("", (LOCAL,)), flag("http://127.0.0.1:1"), context=flag("local", "context"))

    assert refused.value.message == ('context "local" is for http://127.0.0.1:8420, but --url names http://127.0.0.1:1')


def test_an_unknown_context_names_near_misses() -> None:
    with pytest.raises(NotFound) as refused:
        access(SavedLogins("", (LOCAL, PROD)), context=flag("lokal", "context"))

    assert (refused.value.message, refused.value.hint) == ('no context "lokal"', 'did you mean "local"?')


@pytest.mark.parametrize("url", ["http://h:80/ /", "http://h/api/v1 /", "HTTP://H:80:80//", "http://h:80 "])
def test_the_form_of_an_address_has_no_other_form(url: str) -> None:
    assert addresses(",".join(addresses(url))) == addresses(url) == ["http://h"]


def test_a_login_for_two_addresses_covers_each_but_no_third() -> None:
    both = LOCAL._replace(url="http://127.0.0.1:1,http://127.0.0.1:2")
    saved = SavedLogins("local", (both,))

    assert access(saved, env("http://127.0.0.1:2")).key == "pk_local"
    assert access(saved, env("http://127.0.0.1:2, http://127.0.0.1:1/")).key == "pk_local"
    assert access(saved, env("http://127.0.0.1:2,http://127.0.0.1:3")).key == ""


_HOSTS = st.sampled_from(
    ["127.0.0.1", "localhost", "a.example", "A.Example", "a.example:80", "a.example:443", "[::1]:1"]
)
_URLS = st.builds(
    "{}://{}{}".format, st.sampled_from(["http", "https"]), _HOSTS, st.sampled_from(["", "/", "/x", "/api/v1"])
)
_LOGINS = st.lists(_URLS, max_size=4).map(
    lambda urls: tuple(Login(f"c{n}", url, f"pk_{n}") for n, url in enumerate(urls))
)
_GIVEN_URLS = st.one_of(
    st.just(SettingValue()), st.builds(SettingValue, _URLS, st.just("$PARLEY_URL"), st.sampled_from([1, 2, 3]))
)
_CONTEXTS = st.one_of(
    st.just(SettingValue()),
    st.builds(
        SettingValue, st.sampled_from(["c0", "c1", "c9"]), st.just("$PARLEY_CONTEXT"), st.sampled_from([1, 2, 3])
    ),
)


@given(_LOGINS, _GIVEN_URLS, _CONTEXTS, st.sampled_from(["", "c0", "c2", "gone"]))
def test_a_saved_key_goes_only_to_addresses_that_it_was_saved_for(
    logins: tuple[Login, ...], url: SettingValue, context: SettingValue, current: str
) -> None:
    try:
        found = access(SavedLogins(current, logins), url, context=context)
    except (Ambiguous, Invalid, NotFound):
        return
    if found.key:
        owner = next(login for login in logins if login.key == found.key)
        assert set(addresses(found.url)) <= set(addresses(owner.url))
        assert found.login == owner
    if url.rank > context.rank:
        assert found.url == url.text


# ---------------------------------------------------------------- hints


def test_without_a_key_the_hint_says_how_to_get_one() -> None:
    assert unauthorized_hint(access(SavedLogins()), NOW) == (
        "log in with: parley login http://127.0.0.1:8420, or set PARLEY_KEY; start a server of your own with: parley up"
    )
    elsewhere = access(SavedLogins(), env("https://parley.example.org"))
    assert (
        unauthorized_hint(elsewhere, NOW) == "log in with: parley login https://parley.example.org, or set PARLEY_KEY"
    )


def test_a_saved_key_that_is_refused_was_revoked_or_has_expired() -> None:
    assert unauthorized_hint(access(SavedLogins("local", (LOCAL,))), NOW) == (
        'the saved key of context "local" was revoked or replaced since it was saved; log in with: parley login '
        "http://127.0.0.1:8420; on the server's own machine: parley up --new-admin-key"
    )
    own = PROD._replace(data="/data")
    assert unauthorized_hint(access(SavedLogins("prod", (own,))), NOW) == (
        'the saved key of context "prod" was revoked or replaced since it was saved; ask an admin for a new key, then '
        "log in with: parley login https://parley.example.org"
    )
    expired = PROD._replace(expires_at="2026-03-14T11:00:00.000000+00:00")
    assert unauthorized_hint(access(SavedLogins("prod", (expired,))), NOW) == (
        'the saved key of context "prod" expired at 2026-03-14T11:00Z; '
        "log in with: parley login https://parley.example.org"
    )


def test_a_given_key_that_is_refused_is_named_by_its_source() -> None:
    found = access(SavedLogins(), key=env("pk_secret", "PARLEY_KEY"))

    assert unauthorized_hint(found, NOW) == (
        "the key from $PARLEY_KEY is not valid there; set another, or leave it out and "
        "log in with: parley login http://127.0.0.1:8420"
    )


def test_a_server_that_does_not_answer_is_named_by_its_context() -> None:
    assert unreachable_hint(access(SavedLogins("local", (LOCAL,)))) == (
        "context local is for this address; start its server, or see: parley context list"
    )
    assert unreachable_hint(access(SavedLogins())) == (
        "start a server with: parley up; set another address with --url or PARLEY_URL"
    )


def test_no_record_shows_its_key() -> None:
    found = access(SavedLogins("local", (LOCAL,)))

    assert "pk_local" not in f"{found!r}{found}{SavedLogins('', (LOCAL,))!r}{LOCAL!r}{LOCAL}"


# ---------------------------------------------------------------- changes


def test_a_login_is_picked_by_its_name_or_its_address() -> None:
    saved = SavedLogins("prod", (BOB, LOCAL, PROD))

    assert (saved.pick("local"), saved.pick("http://127.0.0.1:8420/"), saved.pick(PROD.url)) == (LOCAL, LOCAL, PROD)
    with pytest.raises(NotFound) as refused:
        saved.pick("http://127.0.0.1:8421")
    assert (refused.value.message, refused.value.hint) == (
        'no context "http://127.0.0.1:8421"',
        'did you mean "http://127.0.0.1:8420"?',
    )


def test_a_name_of_another_server_or_holder_is_not_free() -> None:
    saved = SavedLogins("", (LOCAL, PROD))

    saved.check_free("prod", PROD.url, PROD.identity)
    saved.check_free("new", PROD.url, PROD.identity)
    for url, identity in ((LOCAL.url, PROD.identity), (PROD.url, BOB.identity)):
        with pytest.raises(Invalid) as refused:
            saved.check_free("prod", url, identity)
        assert refused.value.message == 'context "prod" is for https://parley.example.org (human ann)'
        assert refused.value.hint == "use another name, or remove it first: parley context remove prod"


def test_the_data_of_a_server_is_known_from_any_of_its_logins() -> None:
    saved = SavedLogins("", (LOCAL, LOCAL._replace(name="ann", data="")))

    assert (saved.data_of("http://127.0.0.1:8420/"), saved.data_of(PROD.url)) == ("/data", "")


def test_a_renamed_context_stays_in_use() -> None:
    renamed = SavedLogins("prod", (LOCAL, PROD)).renamed("prod", "work")

    assert (renamed.current, renamed.names, renamed.get("work").key) == ("work", ["local", "work"], "pk_prod")


def test_a_context_that_is_not_in_use_is_renamed_without_being_used() -> None:
    assert SavedLogins("prod", (LOCAL, PROD)).renamed("local", "laptop").current == "prod"


def test_a_name_that_is_taken_or_no_name_is_refused() -> None:
    with pytest.raises(Invalid, match='there is a context "prod" already'):
        SavedLogins("", (LOCAL, PROD)).renamed("local", "prod")
    with pytest.raises(Invalid, match="'a b' is not a name for a context"):
        check_context_name("a b")


def test_a_removed_context_leaves_none_in_use() -> None:
    left = SavedLogins("prod", (LOCAL, PROD)).without("prod")

    assert (left.current, left.names) == ("", ["local"])


def test_a_new_login_never_takes_the_name_of_another_server_or_holder() -> None:
    saved = SavedLogins("", (LOCAL, PROD))

    assert saved.free_name(LOCAL._replace(name="", key="pk_new")) == "local"
    assert saved.free_name(LOCAL._replace(name="", data="/other")) == "local-2"
    assert saved.free_name(PROD._replace(name="", key="pk_new")) == "prod"
    assert saved.free_name(BOB._replace(name="")) == "parley.example.org"
    taken = saved.with_login(BOB._replace(name="parley.example.org"), use=False)
    assert taken.free_name(BOB._replace(name="", user="cy")) == "parley.example.org-cy"


@given(st.lists(st.sampled_from([LOCAL, PROD, BOB, LOCAL._replace(data="/b"), PROD._replace(user="")]), max_size=8))
def test_saving_under_a_free_name_loses_no_login(logins: list[Login]) -> None:
    saved = SavedLogins()
    for login in logins:
        saved = saved.with_login(login._replace(name=saved.free_name(login)), use=True)

    assert {(login.url, login.identity, login.data) for login in saved.logins} == {
        (login.url, login.identity, login.data) for login in logins
    }
    assert len(saved.logins) == len(set(saved.names)) == len({(o.url, o.identity, o.data) for o in logins})


# ---------------------------------------------------------------- servers of this user


def test_a_login_moves_only_if_the_server_has_accepted_its_key() -> None:
    saved = SavedLogins("local", (LOCAL, LOCAL._replace(name="old", key="pk_old"), PROD))
    server = OwnServer("http://127.0.0.1:9", "/data", frozenset({"pk_local"}))

    moved = saved.with_own_server(server, lambda data: False)

    assert [login.url for login in moved.logins] == ["http://127.0.0.1:9", LOCAL.url, PROD.url]
    assert moved.current == "local"


def test_servers_of_one_database_are_addresses_of_one_login() -> None:
    login = LOCAL._replace(data="postgresql://db/parley")
    server = OwnServer("http://127.0.0.1:9", login.data, frozenset({login.key}), shared=True)

    moved = server.move(login)

    assert moved.url == "http://127.0.0.1:8420,http://127.0.0.1:9"
    assert server.move(moved) == moved
    for port in range(10, 40):
        moved = server._replace(url=f"http://127.0.0.1:{port}").move(moved)
    assert len(addresses(moved.url)) == 10


def test_logins_of_data_that_is_gone_are_removed() -> None:
    other = LOCAL._replace(name="other", data="/gone")
    saved = SavedLogins("other", (LOCAL, other, PROD))

    left = saved.with_own_server(OwnServer("http://127.0.0.1:9", "/data"), lambda data: data == "/gone")

    assert (left.names, left.current) == (["local", "prod"], "")


def test_a_login_for_the_address_of_another_data_directory_is_replaced() -> None:
    assert SavedLogins("local", (LOCAL,)).is_replaced(LOCAL.url, "/other")
    assert SavedLogins("", (LOCAL,)).is_replaced(LOCAL.url, "/data")
    assert not SavedLogins("local", (LOCAL,)).is_replaced(LOCAL.url, "/data")
    assert not SavedLogins("prod", (PROD,)).is_replaced(LOCAL.url, "/data")
