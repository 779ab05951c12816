"""examples/deploy/ is what it says: its files agree with each other, with Parley, and with the tools that read them."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from parley.cli.command import make_parser
from parley.cli.dispatch import load_command
from parley.cli.server.stopping import DRAIN_SECONDS
from parley.settings import load, setting_names
from tests.docs.snippets import ROOT

DEPLOY = ROOT / "examples" / "deploy"
PORT = "8420"
# What the compose specification knows, of what is used here; whatever else is written is a mistake in spelling.
SERVICE = {
    *("build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "ports", "read_only"),
    *("restart", "security_opt", "shm_size", "stop_grace_period", "tmpfs", "volumes"),
}
HEALTHCHECK = {"test", "interval", "timeout", "retries", "start_period"}
DURATION = re.compile(r"(\d+)s")
SIZE = re.compile(r"\d+[bkmg]b?")


def missing(tool: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"{tool} is missing")
    pytest.skip(f"{tool} is missing")


class Strict(yaml.SafeLoader):
    """YAML in which no key stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        written = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        assert len(written) == len(set(written)), f"a key stands twice: {written}"
        return super().construct_mapping(node, deep)


@pytest.fixture(name="compose", scope="module")
def the_compose_file() -> dict[str, Any]:
    document = yaml.load((DEPLOY / "compose.yaml").read_text(), Loader=Strict)  # a SafeLoader
    assert isinstance(document, dict)
    return document


@pytest.fixture(name="nodes", scope="module")
def the_nodes(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose["services"].items() if name.startswith("parley-")}


@pytest.fixture(name="unit", scope="module")
def the_unit() -> list[tuple[str, str]]:
    text = (DEPLOY / "systemd" / "parley@.service").read_text()
    return [(name, value) for name, _, value in (line.partition("=") for line in text.splitlines()) if value or name]


def settings_in(text: str) -> dict[str, str]:
    """An environment file as systemd reads it."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


# ---------------------------------------------------------------- compose


def test_the_compose_file_holds_nothing_that_compose_does_not_know(compose: dict[str, Any]) -> None:
    assert {key for key in compose if not key.startswith("x-")} == {"name", "services", "volumes"}
    for service in compose["services"].values():
        assert service.keys() <= SERVICE
        assert "image" in service or "build" in service
        assert service["restart"] in ("no", "always", "on-failure", "unless-stopped")
        health = service.get("healthcheck", {})
        assert health.keys() <= HEALTHCHECK
        assert not health or health["test"][0] in ("CMD", "CMD-SHELL")
        times = [health[name] for name in ("interval", "timeout", "start_period") if name in health]
        assert all(DURATION.fullmatch(time) for time in [*times, service.get("stop_grace_period", "1s")])
        assert SIZE.fullmatch(service.get("shm_size", "1m"))
        # A number or a yes would be another type than the text that a container gets.
        assert all(isinstance(value, str) for value in service.get("environment", {}).values())


def test_who_waits_for_another_waits_until_it_is_healthy_and_it_can_say_so(compose: dict[str, Any]) -> None:
    waits = {
        (name, other): how["condition"]
        for name, service in compose["services"].items()
        for other, how in service.get("depends_on", {}).items()
    }

    assert set(waits.values()) == {"service_healthy"}
    assert all("healthcheck" in compose["services"][other] for _, other in waits)
    assert {other for name, other in waits if name == "balancer"} == {"parley-a", "parley-b", "parley-c"}


def test_every_volume_is_declared_and_every_file_is_there(compose: dict[str, Any]) -> None:
    mounted = [entry.split(":") for service in compose["services"].values() for entry in service.get("volumes", ())]
    files = [source for source, *_ in mounted if source.startswith("./")]
    named = [source for source, *_ in mounted if not source.startswith("./")]

    assert sorted(named) == sorted(compose["volumes"])  # each is used, and by one alone
    assert [source for source in files if not (DEPLOY / source).is_file()] == []
    assert all(entry[2:] == ["ro"] for entry in mounted if entry[0] in files)


def test_every_secret_has_to_be_given(compose: dict[str, Any]) -> None:
    text = (DEPLOY / "compose.yaml").read_text()

    assert set(re.findall(r"\$\{(\w+)", text)) == {"DATABASE_PASSWORD", "ADMIN_KEY"}
    assert all(asked.startswith(":?") for asked in re.findall(r"\$\{\w+([^}]*)\}", text))
    assert compose["services"]["balancer"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]


def test_the_nodes_differ_in_their_name_and_their_volume_alone(nodes: dict[str, dict[str, Any]]) -> None:
    def common(name: str, service: dict[str, Any]) -> str:
        return repr(service).replace(f"'{name.removeprefix('parley-')}'", "NAME").replace(name, "parley-NAME")

    assert list(nodes) == ["parley-a", "parley-b", "parley-c"]
    assert len({common(name, service) for name, service in nodes.items()}) == 1
    assert all(service["volumes"] == [f"{name}:/data"] for name, service in nodes.items())


def test_docker_reads_the_compose_file() -> None:
    if shutil.which("docker") is None or subprocess.run(["docker", "compose", "version"], check=False).returncode:
        pytest.skip("docker compose is missing")  # not among what a build has to have
    given = {**os.environ, "DATABASE_PASSWORD": "x", "ADMIN_KEY": "y"}
    command = ["docker", "compose", "--file", str(DEPLOY / "compose.yaml"), "config", "--quiet"]

    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


# ---------------------------------------------------------------- what Parley is told


def accepted(words: list[str]) -> Any:  # noqa: ANN401  # argparse's own
    """What our own parser makes of a command line that begins with `up`."""
    assert words[0] == "up"
    return make_parser("parley up", load_command("up")).parse_args(words[1:])


def test_every_command_line_is_accepted(
    nodes: dict[str, dict[str, Any]], unit: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(dict(unit)["ExecStart"].replace("%i", "a").replace("%S", "/var/lib"))
    image = re.search(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert image is not None

    asked = [accepted(node["command"]) for node in nodes.values()]
    asked += [accepted(words), accepted(yaml.safe_load(image[1]))]

    assert program == "/opt/parley/bin/parley"
    assert all(one.behind_proxy for one in asked)
    assert [one.node for one in asked] == ["a", "b", "c", "a", ""]


@pytest.mark.parametrize("place", ["compose", "systemd"])
def test_every_setting_is_a_real_one_and_has_a_value_that_is_taken(
    place: str, nodes: dict[str, dict[str, Any]]
) -> None:
    given = nodes["parley-a"]["environment"]
    if place == "systemd":
        given = settings_in((DEPLOY / "systemd" / "parley.env").read_text())
    plain = {name: re.sub(r"\$\{[^}]*\}", "secret", value) for name, value in given.items()}

    settings = load(environ={**plain, "HOME": "/nowhere"})

    assert [name for name in plain if name.removeprefix("PARLEY_").lower() not in setting_names()] == []
    assert settings.store.startswith("postgresql://parley:")
    assert (settings.host, settings.port) == ("0.0.0.0", PORT)  # behind the balancer


def test_nobody_is_killed_while_it_lingers_and_drains(
    nodes: dict[str, dict[str, Any]], unit: list[tuple[str, str]]
) -> None:
    node = nodes["parley-a"]
    asked = settings_in((DEPLOY / "systemd" / "parley.env").read_text())
    grace = DURATION.fullmatch(node["stop_grace_period"])
    assert grace is not None

    needed = [int(given["PARLEY_LINGER"]) + DRAIN_SECONDS for given in (node["environment"], asked)]

    assert int(grace[1]) >= needed[0] + 10
    assert int(dict(unit)["TimeoutStopSec"]) >= needed[1] + 10


# ---------------------------------------------------------------- the balancer, the image, the role


def test_the_balancer_knows_every_node_and_asks_it_whether_it_is_ready(nodes: dict[str, dict[str, Any]]) -> None:
    text = (DEPLOY / "haproxy.cfg").read_text()
    servers = dict(re.findall(r"^    server (\w+) (\S+)$", text, re.MULTILINE))
    noticed = re.search(r"check inter (\d+)s fall (\d+)", text)
    assert noticed is not None

    assert servers == {name.removeprefix("parley-"): f"{name}:{PORT}" for name in nodes}
    assert f"bind :{PORT}\n" in text
    assert "http-check send meth GET uri /readyz hdr Host localhost" in text
    # It has noticed, and a request that was on its way has arrived, before the node stops to answer.
    assert int(noticed[1]) * int(noticed[2]) * 2 <= int(nodes["parley-a"]["environment"]["PARLEY_LINGER"])


def test_haproxy_reads_its_file(tmp_path: Path) -> None:
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("haproxy is missing")  # not among what a build has to have
    # Names that only a compose network knows.
    text = re.sub(r"parley-[abc]:", "127.0.0.1:", (DEPLOY / "haproxy.cfg").read_text())
    (tmp_path / "haproxy.cfg").write_text(text)

    done = subprocess.run([program, "-c", "-f", tmp_path / "haproxy.cfg"], capture_output=True, text=True, check=False)

    assert (done.returncode, [line for line in done.stderr.splitlines() if "ALERT" in line]) == (0, [])


def test_the_image_runs_as_nobody_special_and_is_made_of_this_checkout() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    sent = (DEPLOY / "Dockerfile.dockerignore").read_text().split()

    assert [line for line in lines if line.startswith("USER ")] == ["USER parley"]
    assert lines.index("USER parley") < lines.index('ENTRYPOINT ["parley"]')
    assert any('"/checkout[postgres]"' in line for line in lines)
    assert [name for name in sent if name.startswith("!") and not (ROOT / name[1:]).exists()] == []
    assert f"EXPOSE {PORT}" in lines


def test_the_role_is_no_superuser(compose: dict[str, Any]) -> None:
    text = (DEPLOY / "create-role.sql").read_text()
    variable = re.search(r"^\\getenv password (\w+)$", text, re.MULTILINE)

    assert variable is not None
    assert variable[1] in compose["services"]["database"]["environment"]
    assert "CREATE ROLE parley LOGIN NOSUPERUSER NOBYPASSRLS" in text


# ---------------------------------------------------------------- systemd


@pytest.fixture(name="checked")
def a_unit_to_check(tmp_path: Path) -> Path:
    """The unit with a program that is there."""
    path = tmp_path / "parley@a.service"
    text = (DEPLOY / "systemd" / "parley@.service").read_text()
    path.write_text(text.replace("/opt/parley/bin/parley", str(Path(sys.executable).with_name("parley"))))
    return path


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze")
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)


def test_systemd_understands_the_unit(checked: Path) -> None:
    done = analyze("verify", "--man=no", "--recursive-errors=no", str(checked))

    # It tells about other units of the machine, too.
    assert (done.returncode, [line for line in done.stderr.splitlines() if "parley@" in line]) == (0, [])


def test_a_mistake_in_the_unit_would_be_found(checked: Path) -> None:
    checked.write_text(checked.read_text().replace("TimeoutStopSec=40", "TimeoutStopSec=soon"))

    done = analyze("verify", "--man=no", "--recursive-errors=no", str(checked))

    assert "parley@a.service:" in done.stderr
    assert "soon" in done.stderr


def test_the_unit_may_do_little_more_than_serve(checked: Path) -> None:
    done = analyze("security", "--offline=true", "--threshold=20", "--no-pager", str(checked))

    assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_the_unit_keeps_each_node_apart_and_starts_it_again(unit: list[tuple[str, str]]) -> None:
    values = dict(unit)

    assert (values["StateDirectory"], values["StateDirectoryMode"]) == ("parley/%i", "0700")
    assert values["Restart"] == "always"
    assert [value for name, value in unit if name == "EnvironmentFile"] == [
        "/etc/parley/parley.env",
        "-/etc/parley/%i.env",
    ]
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd" / "parley@.service")
    assert parser.sections() == ["Unit", "Service", "Install"]
