"""`parley oacp` beside the real tool: same exit code, same streams, same files, case by case."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.interop.oacp.pair import Case, Pair, Preparation, make_pair, make_workspace, shape_of, tree


def case(
    line: str, *, stdin: bytes = b"", env: Mapping[str, str] | None = None, before: Preparation | None = None
) -> Case:
    """A command line split at spaces."""
    return Case(tuple(line.split()), stdin, env or {}, before)


def message(to: str = "bob", kind: str = "notification", *more: str) -> Case:
    fixed = ("send", "p", "--from", "alice", "--to", to, "--type", kind, "--subject", "Hi there", "--body", "hello")
    return Case((*fixed, *more))


def written(name: str, text: str, agent: str = "bob") -> Preparation:
    def write(place: Path) -> None:
        (place / f"h/projects/p/agents/{agent}/{name}").write_bytes(text.encode("utf-8", "surrogateescape"))

    return write


def offline(place: Path) -> None:
    path = place / "h/projects/p/agents/dave/status.yaml"
    path.write_text(path.read_text().replace("status: available", 'status: "Offline"'))


def linked_repo(place: Path) -> None:
    (place / "repo/docs").mkdir(parents=True)


def gone_inbox(place: Path) -> None:
    shutil.rmtree(place / "h/projects/p/agents/carol/inbox")


LONG = "x" * 201
REPO = "init q --repo repo --link docs:d/e --link nope:m --agents zoe"

CASES = {
    "the version is the tool's": case("--version"),
    "an unknown command is a usage error": case("bogus"),
    "an unknown flag in front is a usage error": case("--bogus"),
    # init
    "init says where the project is": case("init q --agents zoe,yan"),
    "init answers in JSON": case("init q --agents zoe --json"),
    "init without agents makes none": Case(("init", "q", "--agents", " , ")),
    "init by default makes the tool's three agents": case("init q"),
    "init plans": case("init q --dry-run"),
    "init plans in JSON": case("init q --agents zoe,zoe --dry-run --json"),
    "init refuses an existing project": case("init p"),
    "init refuses an existing project in JSON": case("init p --json"),
    "init plans nothing over an existing project": case("init p --dry-run"),
    "init plans nothing over an existing project in JSON": case("init p --dry-run --json"),
    "init links what a repository has": case(REPO, before=linked_repo),
    "init links in JSON": case(REPO + " --json", before=linked_repo),
    "init plans links": case(REPO + " --dry-run", before=linked_repo),
    "init plans links in JSON": case(REPO + " --dry-run --json", before=linked_repo),
    "init refuses a hidden project": case("init .x"),
    "init refuses a path as project": case("init a/b --json"),
    "init refuses an empty project": Case(("init", "")),
    "init refuses a bad agent": case("init q --agents=-bad"),
    "init refuses a link without repository": case("init q --link a:b"),
    "init refuses a link out of artifacts": case("init q --repo repo --link a:../b"),
    "init refuses a link over the layout": case("init q --repo repo --link a:.gitkeep"),
    "init refuses links inside each other": case("init q --repo repo --link a:b --link c:b/d"),
    "init refuses a destination twice": case("init q --repo repo --link a:b --link c:b"),
    "init refuses half a link": case("init q --link nocolon"),
    "init takes an abbreviated option": case("init q --agent zoe"),
    "init needs a project": case("init"),
    # agent add
    "agent add tells what it made": case("agent add p zoe"),
    "agent add with a runtime makes a card": case("agent add p zoe --runtime claude"),
    "agent add completes an agent": case("agent add p alice --run gemini"),
    "agent add is idempotent": case("agent add p dave --runtime codex"),
    "agent add takes the home on either side": case("agent --oacp-dir nope add p zoe --oacp-dir=h"),
    "agent add refuses an unknown project": case("agent add nope zoe"),
    "agent add refuses a bad name": Case(("agent", "add", "p", "a b")),
    "agent add refuses a path": case("agent add ../x zoe"),
    "agent add refuses a bad runtime": case("agent add p zoe --runtime human"),
    "agent add needs both names": case("agent add p"),
    "agent knows its sub-commands": case("agent bogus"),
    # send
    "send tells the files": message(),
    "send answers in JSON": message("bob", "question", "--json"),
    "send can be quiet": message("bob", "question", "--quiet"),
    "send is not too quiet for JSON": message("bob", "question", "--quiet", "--json"),
    "send broadcasts": message("bob,carol", "question"),
    "send broadcasts in JSON": message("bob, carol ,", "question", "--json"),
    "send takes a message to oneself": message("alice"),
    "send takes any text for any type": message("bob", "review_request"),
    "send takes a subject of two lines": message("bob", "question", "--subject", "a\nb", "--json"),
    "send takes a life of no time": message("bob", "question", "--expires", "0m"),
    "send takes a follow_up without fields": message("bob", "follow_up", "--body", "risk_tier: P2", "--priority", "P0"),
    "send dry runs in JSON": message("bob", "question", "--dry-run", "--json"),
    "send takes every option": message(
        *("bob", "question", "--related-pr", "0042", "--related-packet", "x", "--conversation-id"),
        *("conv-20260101-bob-1", "--parent-message-id", "m", "--context-keys", "- a\n- b", "--expires", "3 H"),
        *("--channel", "ops", "--autonomy-hint", "auto_proceed", "--priority", "P0"),
    ),
    "send reads standard input": case(
        "send p --from alice --to bob --type question --subject s --json", stdin=b"a\r\nb\n\n"
    ),
    "send takes the sender from the environment": case(
        "send p --to bob --type question --subject s --body b", env={"AGENT_NAME": " alice "}
    ),
    "send warns of an offline recipient": message("dave")._replace(before=offline),
    "send warns loudly of an offline recipient": message("dave", "question", "--priority", "P0", "--json")._replace(
        before=offline
    ),
    "send warns of a parent nobody knows": message("bob", "question", "--in-reply-to", "nope"),
    "send warns of a parent nobody knows in JSON": message("bob", "question", "--in-reply-to", "nope", "--json"),
    "send needs a sender": case("send p --to bob --type question --subject s --body b"),
    "send needs a sender in JSON": case("send p --to bob --type question --subject s --body b --json"),
    "send needs its options": case("send p"),
    "send refuses an unknown type": message("bob", "bogus"),
    "send refuses an unknown priority": message("bob", "question", "--priority", "P9"),
    "send refuses an ambiguous option": message("bob", "question", "--bod", "x"),
    "send refuses a missing body file": message("bob", "question", "--body-file", "nope"),
    "send refuses a missing context file": message("bob", "question", "--context-keys-file", "nope", "--json"),
    "send refuses an odd duration": message("bob", "question", "--expires", "90s"),
    "send refuses an empty body": message("bob", "question", "--body", " \n"),
    "send refuses an empty standard input": case("send p --from alice --to bob --type question --subject s"),
    "send refuses bytes that are no text": message("bob", "question", "--body-file", "bytes")._replace(
        before=lambda place: (place / "bytes").write_bytes(b"\xff")
    ),
    "send refuses a long body": message("bob", "question", "--body", "x" * 20_001),
    "send refuses a long subject": message("bob", "question", "--subject", LONG),
    "send refuses an empty subject in JSON": message("bob", "question", "--subject", "", "--json"),
    "send refuses a path as recipient": message("../x"),
    "send refuses a path as sender": message("bob", "question", "--from", "../x"),
    "send refuses a bad recipient": message("a b"),
    "send refuses bad recipients": message("bob,a b"),
    "send refuses a bad sender": message("bob", "question", "--from", "a b"),
    "send refuses too many recipients": message("a,b,c,d,e,f,g,h,i,j,k"),
    "send refuses the sender in a list": message("bob,alice"),
    "send refuses to broadcast a handoff": message("bob,carol", "handoff"),
    "send refuses a bad suffix": message("bob", "question", "--suffix", "a/b"),
    "send names everything that is wrong at once": message(
        *("bob", "question", "--subject", "", "--related-pr", "#4", "--conversation-id", "q", "--channel", "a b"),
        *("--autonomy-hint", "x", "--parent-message-id", LONG),
    ),
    "send refuses a broken signing block": message()._replace(before=written("config.yaml", "signing: 3\n", "alice")),
    "send refuses to guess about signing": message()._replace(before=written("config.yaml", "signing: [\n", "alice")),
    # inbox
    "inbox of nothing": case("inbox p --agent bob"),
    "inbox of nothing in JSON": case("inbox p --agent bob --json"),
    "inbox of all agents": case("inbox p --all"),
    "inbox of all agents in JSON": case("inbox p --all --json"),
    "inbox of an agent without inbox": case("inbox p --agent carol", before=gone_inbox),
    "inbox refuses an unknown project": case("inbox nope --all"),
    "inbox refuses an unknown agent": case("inbox p --agent nope --json"),
    "inbox needs an agent": case("inbox p"),
    "inbox takes one or all": case("inbox p --all --agent bob"),
    # watch
    "watch refuses a bad state id": case("watch --project p --agent bob --state-id a/b"),
    "watch refuses a time it cannot read": case("watch --project p --agent bob --since bogus"),
    "watch needs a project": case("watch --agent bob"),
    "watch tells of an unknown project": case("watch --agent bob --project nope --json"),
    "watch tells of an unknown agent": case("watch --agent nope --project p --project p"),
    "watch tells of an agent nobody has": case("watch --agent nope --all-projects --json"),
    "watch tells of a missing inbox": case("watch --agent carol --project p", before=gone_inbox),
    # validate
    "validate needs a file": case("validate"),
    "validate tells of a missing file": case("validate ./nope.yaml"),
    "validate tells of a folder": case("validate h"),
}


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("workspace"))


@pytest.fixture
def pair(workspace: Path, tmp_path: Path) -> Pair:
    return make_pair(workspace, tmp_path)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_both_tools_do_and_say_the_same(pair: Pair, case: Case) -> None:
    real, drop_in = pair.run(case)

    assert drop_in == real
    assert tree(pair.ours) == tree(pair.theirs)
    if "--json" in case.args and real.out and "watch" not in case.args:
        assert shape_of(drop_in.out) == shape_of(real.out)


def test_a_dry_run_shows_the_same_fields(pair: Pair) -> None:
    options = ("--dry-run", "--priority=P1", "--channel=ops", "--related-pr=42", "--autonomy-hint=auto_proceed")

    real, drop_in = pair.run(message("bob,carol", "question", *options))

    assert yaml.load(drop_in.out, yaml.BaseLoader) == yaml.load(real.out, yaml.BaseLoader)
    assert tree(pair.ours) == tree(pair.theirs)


def test_the_yaml_of_a_dry_run_is_in_its_json(pair: Pair) -> None:
    _, drop_in = pair.run(message("bob", "question", "--dry-run", "--json"))

    assert list(json.loads(drop_in.out))[-2:] == ["dry_run", "yaml"]
