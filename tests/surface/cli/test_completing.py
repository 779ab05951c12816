"""Completion of values: agents, messages, channels, intents, contexts and choices, in bash and by our command."""

import gc
import os
import pty
import resource
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.cli.candidates import is_offered, join_words, parse_word, quote
from tests.surface.cli.team_stage import Team
from tests.surface.stage import Stage, parley_script

# Completion of mailbox values takes less CPU time.
MOST_SECONDS = 0.1


def offered(stage: Stage, *typed: str, shell: str = "bash") -> list[str]:
    """What our command prints for the words after `parley`; it succeeds and says nothing else."""
    ran = stage.run("__complete", shell, stdin="".join(f"{word}\0" for word in ("parley", *typed)).encode())
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


def bash_offers(*typed: str) -> list[str]:
    """What the bash function offers for words as bash splits them."""
    words = " ".join(quote(word) or "''" for word in ("parley", *typed))
    script = (
        f"source <(parley completion bash)\nCOMP_WORDS=({words}); COMP_CWORD={len(typed)}; _parley\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    ended = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return [line for line in ended.stdout.splitlines() if line]


def words_after_tab(*typed: str) -> list[str]:
    """The words of a command line on which somebody pressed TAB, as an interactive bash reads them."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "INPUTRC": "/dev/null", "TERM": "dumb", "PS1": "", "HISTFILE": ""}
    process = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    keys = "\t".join((*typed, "")) if len(typed) > 1 else f"{typed[0]}\t"
    # Ctrl-A: to the beginning of the line, where a command is written that prints the words.
    result = Path(environment["HOME"]) / "words"
    lines = f"source <(parley completion bash)\n{keys}\x01printf '%s\\n' >'{result}' \nexit\n"
    os.write(ours, lines.encode())
    while True:
        try:
            if not os.read(ours, 65_536):
                break
        except OSError:
            break
    os.close(ours)
    process.wait(60)
    return result.read_text().splitlines()


@pytest.fixture(autouse=True)
def _on_path(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(Path(parley_script()).parent)
    stage.patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    stage.patch.setenv("HOME", str(tmp_path_factory.mktemp("user")))


def send(stage: Stage, subject: str) -> str:
    words = ("--to", "codex", "--type", "question", "--subject", subject, "--body", "?", "--json")
    message_id: str = stage.run("send", "-a", "claude", *words).json["id"]
    return message_id


# ---------------------------------------------------------------- mailboxes


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        (("send", ""), ["claude", "codex", "gemini"]),
        (("send", "c"), ["claude", "codex"]),
        (("send", "--to", "ge"), ["gemini"]),
        (("send", "--to", "gemini,cl"), ["gemini,claude"]),
        (("inbox", "--agent", "co"), ["codex"]),
        (("send", "--from", "co"), ["codex"]),
        (("send", "--to", "=", "co"), ["codex"]),
        (("send", "--type", "q"), ["question"]),
        (("send", "--priority", ""), ["P0", "P1", "P2", "P3"]),
        (("inbox", "--project", ""), ["demo"]),
        (("agent", "show", "g"), ["gemini"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("send", "claude", "c"), []),
        (("done", "--token", ""), []),
        (("status", "--key", ""), []),
        (("store", "copy", "a", ""), []),
        (("oacp", "send", ""), []),
    ],
)
def test_bash_offers_the_values_of_a_mailbox(stage: Stage, typed: tuple[str, ...], values: list[str]) -> None:
    assert offered(stage, *typed) == values
    assert bash_offers(*typed) == values


@pytest.mark.parametrize("command", ["read", "reply", "done", "thread"])
def test_messages_of_the_inbox_are_offered_by_the_ends_of_their_ids(stage: Stage, command: str) -> None:
    sent = send(stage, "Which port?")
    end = sent.rpartition("-")[2]

    assert end in offered(stage, command, "-a", "codex", "")
    assert offered(stage, command, "-a", "codex", sent[:12]) == [sent]
    assert f"{end}\tclaude: Which port?" in offered(stage, command, "-a", "codex", end[:2], shell="fish")
    assert end in bash_offers(command, "-a", "codex", end[:2])  # `thread` may know a conversation that begins so, too


def test_looking_for_values_writes_nothing_in_the_mailbox(stage: Stage) -> None:
    for number in range(3):
        send(stage, f"question {number}")
    gc.collect()  # the ledgers of the commands above are closed

    def contents() -> dict[Path, bytes]:
        """All files but what every reader of SQLite leaves: an index of locks and an empty log."""
        files = [path for path in stage.home.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
        return {path: path.read_bytes() for path in files if path.stat().st_size or not path.name.endswith("-wal")}

    before = contents()
    for words in ("read -a codex ", "send ", "approvals show -p demo -a claude "):
        typed = f"parley {words}".replace(" ", "\0").encode() + b"\0"
        subprocess.run([parley_script(), "__complete", "bash"], input=typed, check=True)

    assert contents() == before


def test_values_of_a_mailbox_take_less_than_a_tenth_of_a_second(stage: Stage) -> None:
    send(stage, "Which port?")
    stage.patch.setenv("PARLEY_AGENT", "codex")
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([parley_script(), "__complete", "bash"], input=b"parley\0read\0\0", check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(taken) < MOST_SECONDS


def test_approvals_and_exchanges_of_a_governed_mailbox_are_offered(stage: Stage) -> None:
    assert stage.run("governance", "init", "--tenant", "acme").code == 0
    path = stage.project / ".parley" / "governance.yaml"
    governance = yaml.safe_load(path.read_text())
    for agent, user, unit in (("claude", "ann", "eng"), ("codex", "ben", "eng")):
        governance["agents"][agent] = {"user_id": user, "org_unit": unit, "max_classification": "internal"}
    path.write_text(yaml.safe_dump(governance))
    words = ("--to", "codex", "--type", "question", "--subject", "Ship?", "--body", "I promise it.")
    stage.run("send", "--from", "claude", *words, "--purpose", "information_query")
    approvals = stage.run("approvals", "list", "--agent", "claude", "--json").json
    exchanges = stage.run("exchange", "list", "--agent", "claude", "--json").json

    ends = offered(stage, "approvals", "show", "--agent", "claude", "")

    assert len(approvals) == len(ends) == 1
    assert approvals[0]["id"].endswith(ends[0])
    assert offered(stage, "exchange", "show", "--agent", "claude", "exch_") == [exchanges[0]["exchangeId"]]


# ---------------------------------------------------------------- servers


def test_values_of_a_server_are_offered(team: Team) -> None:
    stage = team.stage
    team.said("agent", "register", "ada", "--role", "reviewer")
    team.said("intent", "create", "Launch the $HOME 'site'", "--access", "open")
    channel = team.channel("launch-talk")
    posted = team.post(channel, "--payload", "{}", sender="ada")

    assert "ada" in offered(stage, "messages", "--to", "a")
    assert offered(stage, "post", "launch-talk", "--to", "role:rev", shell="zsh") == ["role:reviewer"]
    assert bash_offers("post", "launch-talk", "--to", "any", ":", "rev") == ["reviewer"]
    assert "role:reviewer" in bash_offers("post", "launch-talk", "--to", "ro")
    assert offered(stage, "post", "--intent", team.intent, "launch-t") == ["launch-talk"]
    assert bash_offers("channel", "show", "--intent", team.intent, "launch-t") == ["launch-talk"]
    assert offered(stage, "answer", "--channel", channel, posted[:9])[0].startswith("msg_")
    assert posted[-4:] in offered(stage, "answer", "--channel", channel, "")[0]
    assert offered(stage, "intent", "show", "Launch the", shell="zsh") == [r"Launch\ the\ \$HOME\ \'site\'"]
    assert team.intent in offered(stage, "intent", "show", "intent_")
    assert offered(stage, "intent", "list", "--status", "act") == ["active"]


def test_bash_reads_a_completed_title_as_exactly_that_title(team: Team) -> None:
    title = "Wind & rain; $(touch pwned) `id` \"and\" 'more' é"
    team.said("intent", "create", title, "--access", "open")

    for start in ("Wi", '"Wi', "'Wi", r"Wind\ "):
        assert words_after_tab(f"parley intent show {start}") == ["parley", "intent", "show", title]
    assert not (team.stage.here / "pwned").exists()


def test_bash_completes_a_role_after_its_colon(team: Team) -> None:
    team.said("agent", "register", "eve", "--role", "translator")

    assert words_after_tab("parley post talk --to role:tr")[-1] == "role:translator"
    assert words_after_tab("parley post talk --to=any:tr")[-1] == "--to=any:translator"


def test_policies_are_offered(lone_team: Team) -> None:
    names = [f"{p['scope']}/{p['name']}" for p in lone_team.said("policy", "list")["policies"]]

    assert sorted(offered(lone_team.stage, "policy", "show", "")) == sorted(names)
    assert names


def test_contexts_are_offered_without_their_keys(team: Team) -> None:
    assert team.run("login", team.server.url, "--context", "work", stdin=team.server.key.encode()).code == 0
    lines = offered(team.stage, "context", "use", "", shell="fish")

    assert lines == ["work\tadmin"]
    assert offered(team.stage, "status", "--context", "w") == ["work"]
    assert team.server.key not in "".join(lines)


def test_a_dead_server_gives_nothing(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        stage.patch.setenv("PARLEY_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
    stage.patch.setenv("PARLEY_KEY", "none")

    assert offered(stage, "messages", "") == []
    assert bash_offers("messages", "") == []


def test_why_a_server_gives_nothing_is_in_the_log_of_hooks(team: Team, tmp_path: Path) -> None:
    team.stage.patch.setattr("parley.cli.values.SERVER_SECONDS", 30.0)
    team.stage.patch.setenv("XDG_STATE_HOME", str(tmp_path))
    team.stage.patch.setenv("PARLEY_KEY", "none")

    assert offered(team.stage, "intent", "show", "") == []

    (line,) = (tmp_path / "parley" / "hook.log").read_text(encoding="utf-8").splitlines()
    assert " completion: unauthorized: Unauthorized: " in line


def test_a_server_that_does_not_answer_is_given_up(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        stage.patch.setenv("PARLEY_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        stage.patch.setenv("PARLEY_KEY", "none")
        begun = time.monotonic()

        ended = subprocess.run(
            [parley_script(), "__complete", "bash"], input=b"parley\0messages\0\0", capture_output=True, check=False
        )

        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
        assert (
            time.monotonic() - begun < 5
        )  # it is 0.3 seconds and the start of a process; without the limit, 30 seconds


# ---------------------------------------------------------------- hostile names


@given(st.text(max_size=40))
@example("a\x1b[31m")
@example("x\u202ey")
@example("--help")
@example("two\nlines")
def test_no_control_character_is_ever_offered(name: str) -> None:
    if is_offered(name):
        assert name.isprintable()
        assert not name.startswith("-")
    else:
        assert not name or name.startswith("-") or not name.isascii() or not name.isprintable()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=20).filter(is_offered), min_size=1, max_size=20))
@example(["$(id)", "`id`", "a;b", "a&b", "~", "#x", "*", "!x", "a'b", 'a"b', "a\\b", "{a,b}", "é ü", "=x", "a|b>c"])
def test_bash_reads_what_we_quote_as_exactly_the_name(names: list[str]) -> None:
    forms = [quote(name) for name in names]
    forms += [f"'{quote(name, chr(39))}'" for name in names]
    forms += [f'"{quote(name, chr(34))}"' for name in names]
    script = f"printf '%s\\0' {' '.join(forms)}"

    ended = subprocess.run(["bash"], input=script.encode(), capture_output=True, check=True)

    assert ended.stdout.decode().split("\0")[:-1] == names * 3


@given(st.text(max_size=20).filter(is_offered))
def test_a_quoted_word_is_read_back(name: str) -> None:
    assert parse_word(quote(name)).text == name
    assert parse_word(f"'{quote(name, chr(39))}").text == name
    assert parse_word(f'"{quote(name, chr(34))}').text == name


def test_words_that_bash_split_are_joined() -> None:
    assert join_words(["parley", "post", "--to", "role", ":", "re"]) == ["parley", "post", "--to", "role:re"]
    assert join_words(["parley", "post", "--to", "=", "any", ":", ""]) == ["parley", "post", "--to=any:"]


def test_a_hostile_folder_is_not_offered(stage: Stage) -> None:
    for name in ("co\x1b[2Jdex", "-rf", "co\nx", "co\u202ex"):
        shutil.copytree(stage.agent("codex"), stage.agent(name))

    assert offered(stage, "send", "co") == ["codex"]
    assert all(line.isprintable() for line in offered(stage, "send", ""))
