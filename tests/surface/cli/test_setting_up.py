"""init and agent add, list, show."""

from __future__ import annotations

import stat

import pytest

from tests.surface.stage import AGENTS, Stage


def test_init_makes_a_project_with_its_agents(stage: Stage) -> None:
    ran = stage.run("init", "second", "--agents", "ann, ben")

    assert (ran.code, ran.err) == (0, "")
    assert "Created project second" in ran.out
    assert "Agents: ann, ben" in ran.out
    assert "Try: parley send ben 'Hello?' --from ann\n" in ran.out
    for agent in ("ann", "ben"):
        for folder in ("inbox", "inbox/archive", "outbox", "dead_letter"):
            assert (stage.home / "projects" / "second" / "agents" / agent / folder).is_dir()


def test_init_as_json_says_where_the_project_is(stage: Stage) -> None:
    ran = stage.run("init", "second", "--agents", "ann", "--json")

    path = str(stage.home / "projects" / "second")
    place = {"project": "second", "home": str(stage.home), "path": path}
    assert ran.json == {**place, "agents": ["ann"], "repo": None, "created": True}


def test_init_without_agents_says_how_to_add_some(stage: Stage) -> None:
    assert "parley agent add NAME --project second" in stage.run("init", "second").out


def test_init_for_a_repository_binds_it(stage: Stage) -> None:
    ran = stage.run("init", "second", "--repo", ".")

    assert f"Commands in every folder of {stage.here} find the project.\n" in ran.out
    assert stage.run("config", "--json").json["project"]["value"] == "second"


def test_a_repository_is_bound_to_one_project(stage: Stage) -> None:
    stage.run("init", "second", "--repo", ".")

    ran = stage.run("init", "third", "--repo", str(stage.here))

    assert (ran.code, ran.error) == (4, "project_exists")
    assert f"{stage.here} belongs to project second in {stage.home}" in ran.err
    assert not (stage.home / "projects" / "third").exists()


def test_a_repository_that_is_not_there_is_refused(stage: Stage) -> None:
    ran = stage.run("init", "second", "--repo", "missing")

    assert (ran.code, ran.error) == (2, "invalid")
    assert not (stage.home / "projects" / "second").exists()


def test_init_makes_the_home_that_is_missing(stage: Stage) -> None:
    ran = stage.run("init", "first", "--home", str(stage.here / "new" / "home"))

    assert ran.code == 0
    assert (stage.here / "new" / "home" / "projects" / "first" / "workspace.json").is_file()


def test_init_of_a_project_that_exists_is_refused_and_changes_nothing(stage: Stage) -> None:
    before = stage.everything()

    ran = stage.run("init", "demo", "--agents", "ann")

    assert (ran.code, ran.error) == (4, "project_exists")
    assert stage.everything() == before


def test_init_shared_lets_the_group_drop_but_not_look(stage: Stage) -> None:
    stage.run("init", "second", "--agents", "ann", "--shared")

    agent = stage.home / "projects" / "second" / "agents" / "ann"
    modes = [stat.S_IMODE((agent / name).stat().st_mode) for name in (".", "inbox", "outbox")]
    assert modes == [0o2710, 0o3730, 0o700]


@pytest.mark.parametrize("name", ["", "a/b", "..", "../../etc", ".", "-x", "con", "a" * 65, "demo2\n", "pröjekt"])
def test_a_project_name_that_is_not_allowed_makes_nothing(stage: Stage, name: str) -> None:
    before = stage.everything()

    ran = stage.run("init", "--home", str(stage.home), "--", name)

    assert (ran.code, ran.error) == (2, "bad_project_name")
    assert stage.everything() == before


@pytest.mark.parametrize("name", ["a/b", "..", "a" * 65, "ann\n"])
def test_one_bad_agent_name_makes_no_project(stage: Stage, name: str) -> None:
    ran = stage.run("init", "second", "--agents", f"ben,{name}")

    assert (ran.code, ran.error) == (2, "bad_agent_name")
    assert not (stage.home / "projects" / "second").exists()


def test_names_of_64_characters_are_allowed(stage: Stage) -> None:
    assert stage.run("init", "p" * 64, "--agents", "a" * 64).code == 0


def test_agent_add_makes_a_mailbox_that_can_be_written_to(stage: Stage) -> None:
    ran = stage.run("agent", "add", "ann", "--runtime", "codex")

    assert (ran.code, ran.out) == (0, "Added agent ann to project demo\n")
    stage.send(to="ann")
    assert len(stage.files("ann")) == 1


def test_agent_add_twice_is_no_error_and_loses_nothing(stage: Stage) -> None:
    stage.send()
    before = stage.everything()

    ran = stage.run("agent", "add", "codex")

    assert (ran.code, ran.out) == (0, "Agent codex is already in project demo\n")
    assert stage.everything() == before


def test_agent_add_as_json_lists_what_was_made(stage: Stage) -> None:
    added = stage.run("agent", "add", "ann", "--json").json

    assert (added["agent"], added["project"], added["path"]) == ("ann", "demo", str(stage.agent("ann")))
    assert "agents/ann/config.yaml" in added["created"]


def test_agent_add_to_an_unknown_project_makes_nothing(stage: Stage) -> None:
    before = stage.everything()

    ran = stage.run("agent", "add", "ann", "--project", "nowhere")

    assert (ran.code, ran.error) == (3, "unknown_project")
    assert stage.everything() == before


def test_agent_add_with_an_unknown_runtime_is_refused(stage: Stage) -> None:
    ran = stage.run("agent", "add", "ann", "--runtime", "abacus")

    assert (ran.code, ran.error) == (2, "invalid")
    assert "claude" in ran.err
    assert not stage.agent("ann").exists()


def test_agent_list_shows_who_is_there_and_what_waits(stage: Stage) -> None:
    stage.send()

    ran = stage.run("agent", "list")

    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == ["AGENT", "WAITING", "SENT", "DEAD", "LETTERS", "USES", "PARLEY", "NOTICES"]
    assert [line[0] for line in lines[1:]] == list(AGENTS)
    assert lines[1] == ["claude", "0", "1", "0", "yes", "does", "not", "notice"]
    assert lines[2] == ["codex", "1", "0", "0", "no", "does", "not", "notice"]


def test_agent_list_as_json(stage: Stage) -> None:
    listed = stage.run("agent", "list", "--json").json

    assert [one["agent"] for one in listed] == list(AGENTS)
    assert set(listed[0]) == {
        *("agent", "runtime", "description", "waiting", "sent", "dead_letters", "ledger", "notices", "path"),
    }


def test_agent_list_of_an_empty_project_says_how_to_add_one(stage: Stage) -> None:
    stage.run("init", "empty")

    ran = stage.run("agent", "list", "--project", "empty")

    assert ran.out == "Project empty has no agents; add one with: parley agent add NAME\n"
    assert stage.run("agent", "list", "--project", "empty", "--json").json == []


@pytest.mark.parametrize("words", [("list",), ("show", "codex")])
def test_who_has_a_server_and_no_project_is_told_how_to_see_its_agents(stage: Stage, words: tuple[str, ...]) -> None:
    nowhere = ("--home", str(stage.here / "nowhere"))
    without = stage.run("agent", *words, *nowhere)
    stage.patch.setenv("PARLEY_URL", "http://127.0.0.1:8420")

    ran = stage.run("agent", *words, *nowhere)

    assert (ran.code, ran.error, "--server" in without.err) == (3, "unknown_project", False)
    assert "create one with: parley init PROJECT; for the agents of the server, add --server" in ran.err


def test_agent_show_tells_about_one_agent(stage: Stage) -> None:
    stage.run("agent", "add", "ann", "--runtime", "gemini")

    shown = stage.run("agent", "show", "ann")
    as_json = stage.run("agent", "show", "ann", "--json").json

    assert "agent: ann\nruntime: gemini\n" in shown.out
    assert (as_json["agent"], as_json["runtime"], as_json["waiting"]) == ("ann", "gemini", 0)


def test_agent_show_of_nobody_is_an_error_with_advice(stage: Stage) -> None:
    ran = stage.run("agent", "show", "nobody")

    assert (ran.code, ran.error) == (3, "unknown_agent")
    assert "parley agent add nobody" in ran.err
