"""Commands and a store that is away, hangs, is another's, or does not take the password: one line."""

from __future__ import annotations

import http.server
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import yaml

from collector.embedded import EmbeddedStore
from collector.migrate import FOLDER, Retention, migrate
from collector.store_errors import StoreRefused
from shadow.cli import store as reached
from shadow.cli.commands import run
from shadow.config import Config, load

WAIVE = ["tpot.mean", "--by", "a", "--reason", "r", "--until", "2099-01-01"]
COMMANDS = {"gate": [], "report": [], "plan": [], "migrate": [], "waive": WAIVE}
ARMS = {
    "fp8": {"role": "candidate", "url": "http://127.0.0.1:9", "sample": 1},
    "control": {"role": "control", "url": "http://127.0.0.1:9", "sample": 1},
}


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Write a configuration with this store; its path."""
    monkeypatch.setenv("PW", "wrong")

    def write(store: dict, **more) -> str:
        tree = {
            "experiment": "e",
            "capture": "text",
            "primary": {"url": "http://127.0.0.1:9"},
            "stream": {"embedded": str(tmp_path / "stream")},
            "arms": ARMS,
            "store": store,
        }
        path = tmp_path / "shadow.yaml"
        path.write_text(yaml.safe_dump(tree | more))
        return str(path)

    return write


@pytest.fixture
def said(capsys):
    """Run a command: (its status, what it said on both)."""

    def of(command: str, path: str, *more: str) -> tuple[int, str, str]:
        status = run([command, "-c", path, *COMMANDS[command], *more])
        out = capsys.readouterr()
        return status, out.out, out.err

    return of


@contextmanager
def answering(status: int):
    """An HTTP server that is no ClickHouse; its URL."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            self.send_header("content-length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        do_POST = do_GET  # noqa: N815 as the library names it

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def silent():
    """A listener whose connections are accepted and never answered; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_is_away(configured, said, command):
    """The URL and the reason; nothing of the driver's. The gate and the report hold."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        status, out, err = said(command, configured({"clickhouse": {"url": url}}))
    assert status == {"gate": 3, "report": 3, "plan": 0}.get(command, 2)
    assert f"store at {url}: connection refused\n" in out + err
    assert "HTTPConnectionPool" not in out + err
    assert err.count("\n") == (command not in {"gate", "plan"})


@pytest.mark.parametrize("command", ["gate", "report", "plan"])
def test_a_store_that_never_answers_is_given_up(configured, said, monkeypatch, command):
    """In seconds, with the reason; in a query as at the first word."""
    monkeypatch.setattr(reached, "GREET_S", 1)
    with silent() as url:
        begun = time.monotonic()
        status, out, err = said(command, configured({"clickhouse": {"url": url}}))
        assert time.monotonic() - begun < 8
    assert status == (0 if command == "plan" else 3)
    assert f"store at {url}: no answer in 1 s\n" in out + err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("answer", [200, 404])
def test_who_is_no_clickhouse(configured, said, command, answer):
    """A mistake of the configuration: its key, and 2 from every command."""
    with answering(answer) as url:
        status, out, err = said(command, configured({"clickhouse": {"url": url + "/path"}}))
    assert (status, out) == (2, "")
    assert err.startswith(f"shadow: store.clickhouse.url: store at {url}/path: ")
    assert err.count("\n") == 1


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A migrated store that asks for a password."""
    folder = tmp_path_factory.mktemp("served") / "store"
    with EmbeddedStore.open(folder, ("127.0.0.1", 0), "shadow", "default", "right") as store:
        with closing(store.client()) as client:
            migrate(client, "shadow", Retention(10**9, 10**9))
        yield store


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["clickhouse", "embedded"])
def test_a_wrong_password(configured, said, served, command, kind):
    """The key and the way out, and 2 from every command: no waiting mends it."""
    listen = served.url.removeprefix("http://")
    store = {
        "clickhouse": {"clickhouse": {"url": served.url, "password": "${PW}"}},
        "embedded": {"embedded": str(served.folder), "listen": listen, "password": "${PW}"},
    }[kind]
    status, out, err = said(command, configured(store))
    assert (status, out) == (2, "")
    key = "store.clickhouse.password" if kind == "clickhouse" else "store.password"
    wanted = f"shadow: {key}: store at {served.url} does not take it for the user default; "
    assert err.startswith(wanted)
    assert err.count("\n") == 1


def test_a_reading_command_needs_the_stores_secrets_alone(configured, said, served, monkeypatch):
    """Missing variables of others stop the services, not a gate; its own still does."""
    monkeypatch.setenv("PW", "right")
    headers = {"set": {"authorization": "Bearer ${NO_KEY}", "x-tenant": "${NO_TENANT}"}}
    more = {
        "arms": {**ARMS, "fp8": {**ARMS["fp8"], "headers": headers}},
        "subject": {"header": "x-user", "salt": "${NO_SALT}"},
        "admin": {"control": "0.0.0.0:9090", "token": "${NO_TOKEN}"},
    }
    path = configured({"clickhouse": {"url": served.url, "password": "${PW}"}}, **more)
    for command, status in {"gate": 3, "report": 0, "plan": 0, "migrate": 0, "waive": 0}.items():
        assert said(command, path)[0] == status, command
    assert run(["config", "-c", path]) == 2
    assert run(["mirror", "-c", path, "status"]) == 2  # by the control port, with its token
    assert run(["purge", "-c", path, "--subject", "x"]) == 2
    monkeypatch.delenv("PW")
    _, _, err = said("gate", path)
    assert err.endswith("shadow: store.clickhouse.password: the environment has no PW\n")


def test_what_a_hash_covers_is_needed_by_everyone(configured, said):
    """A missing variable in a URL would make another comparison of it."""
    arms = {"fp8": {**ARMS["fp8"], "url": "http://${NO_HOST}:1"}}
    status, _, err = said("gate", configured({"embedded": "/nowhere"}, arms=arms))
    assert (status, err) == (2, "shadow: arms.fp8.url: the environment has no NO_HOST\n")


def migrated(path: str) -> list[str]:
    """Make the folder's tables in a process of its own: one has one folder. The command's words."""
    shadow = [sys.executable, "-m", "shadow"]
    line = [*shadow, "migrate", "-c", path]
    subprocess.run(line, check=True, capture_output=True, timeout=60, cwd=Path(__file__).parents[1])
    return shadow


def test_readers_of_a_folder_wait_for_each_other(configured, tmp_path):
    """Two gates and a report at once, nothing serving: each has its answer, and nothing else."""
    path = configured({"embedded": str(tmp_path / "store"), "listen": "127.0.0.1:1"})
    shadow = migrated(path)
    lines = [["gate", "--candidate", "fp8"]] * 2 + [["report", "-o", str(tmp_path / "r.md")]]
    running = [
        subprocess.Popen(
            [*shadow, *line, "-c", path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        for line in lines
    ]
    said = [(*one.communicate(timeout=60), one.returncode) for one in running]
    none = "fp8: hold: no verdict was written yet\n"
    assert said == [(none, "", 3), (none, "", 3), ("", "", 0)]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_folder_that_stays_in_use_is_named(configured, said, tmp_path, monkeypatch, hangs):
    """Who has it, and that nobody serves it, or that he who does hangs: in seconds."""
    monkeypatch.setattr(reached, "GREET_S", 1)
    monkeypatch.setattr(reached, "FOLDER_WAIT_S", 60 if hangs else 0.3)
    folder = tmp_path / "store"
    path = configured({"embedded": str(folder), "listen": "127.0.0.1:1"})
    migrated(path)
    hold = "import sys, collector.store as s, pathlib; c = s.open_folder(pathlib.Path(sys.argv[1])); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1],
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == "open\n"
        with silent() as url:
            if hangs:
                listen = url.removeprefix("http://")
                path = configured({"embedded": str(folder), "listen": listen})
            begun = time.monotonic()
            status, out, err = said("gate", path)
            assert time.monotonic() - begun < 8
        holder.communicate("\n")
    assert (status, err) == (3, "")
    why = "no answer in 1 s" if hangs else "connection refused"
    assert f"{why}; the store's folder {folder} is in use by process {holder.pid}" in out


def test_a_missing_authority_is_named(configured, said):
    """The key and the file."""
    store = {"clickhouse": {"url": "https://127.0.0.1:1", "ca": "/nowhere.pem"}}
    status, _, err = said("gate", configured(store))
    assert (status, err) == (2, "shadow: store.clickhouse.ca: /nowhere.pem: no such file\n")


def test_without_tables(configured, said, tmp_path):
    """A store in which nothing was collected: readers hold, who would write says the way out."""
    path = configured({"embedded": str(tmp_path / "none"), "listen": "127.0.0.1:1"})
    nothing = f"no store at {tmp_path}/none: nothing was collected there yet\n"
    assert said("gate", path)[:2] == (3, f"fp8: hold: the store cannot be read: {nothing}")
    assert said("waive", path)[::2] == (2, f"shadow: store: {nothing}")
    refused = StoreRefused(60, "Unknown table")
    assert str(reached.without_store(refused)).startswith(
        "store: it has no tables yet; `shadow mig"
    )


def test_tables_of_another_version(configured, served, monkeypatch, tmp_path):
    """A column that a later migration makes is a hold with the reason; any other refusal is our
    fault, an unknown column in a store that lacks nothing too."""
    monkeypatch.setenv("PW", "right")
    store = {"clickhouse": {"url": served.url, "password": "${PW}", "database": "older"}}
    config = load(Path(configured(store)), Config)
    early = tmp_path / "early"
    early.mkdir()
    shutil.copy(FOLDER / "0001_exchanges.sql", early)
    with closing(reached.connect(config, create=True)) as client:
        migrate(client, "older", Retention(86_400, 86_400), early)
    found, why = reached.read_store(config, lambda client: client.query("SELECT a FROM exchanges"))
    assert found is None
    assert why.startswith("the store cannot be read: the store lacks ")
    with closing(reached.connect(config, create=True)) as client:
        migrate(client, "older", Retention(86_400, 86_400))
    with pytest.raises(StoreRefused):
        reached.read_store(config, lambda client: client.query("SELECT a FROM exchanges"))
    with pytest.raises(StoreRefused):
        reached.read_store(config, lambda client: client.query("SELECT throwIf(1)"))


def test_a_relative_policy_says_from_where(configured, said, tmp_path, monkeypatch, capsys):
    """Relative files count from where one stands, not from the configuration."""
    (tmp_path / "elsewhere").mkdir()
    path = configured({"embedded": "store"}, policy="policy.yaml")
    monkeypatch.chdir(tmp_path / "elsewhere")
    status, _, err = said("gate", path)
    assert status == 2
    assert err == (
        "shadow: policy: policy.yaml: No such file or directory (relative paths count from the"
        f" current directory: {tmp_path}/elsewhere/policy.yaml)\n"
    )
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("")
    assert run(["judge", str(pairs), "--policy", "nope.yaml"]) == 2
    assert capsys.readouterr().err == "shadow: --policy nope.yaml: No such file or directory\n"
