"""`shadow purge` from the command line to the store's rows."""

import time
from contextlib import closing

import pytest
import yaml

from collector.embedded import EmbeddedStore
from collector.migrate import Retention, migrate
from shadow.capture.subject import subject_of
from shadow.cli.commands import run

SALT = "0123456789abcdef"


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration whose store's folder nobody serves."""
    monkeypatch.setenv("SUBJECT_SALT", SALT)
    tree = {
        "experiment": "e",
        "capture": "text",
        "primary": {"url": "http://127.0.0.1:9"},
        "stream": {"embedded": str(tmp_path / "stream")},
        "store": {"embedded": str(tmp_path / "store"), "listen": "127.0.0.1:9"},
        "subject": {"header": "X-User-Id", "salt": "${SUBJECT_SALT}"},
    }
    path = tmp_path / "shadow.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.fixture
def folder(config):
    """The store, filled with one exchange of jörg and one of somebody else, then closed."""
    mine, now = subject_of("jörg".encode(), SALT), time.time_ns()
    with (
        EmbeddedStore.open(
            config.parent / "store", ("127.0.0.1", 0), "shadow", "default", ""
        ) as store,
        closing(store.client()) as client,
    ):
        migrate(client, "shadow", Retention(10**9, 10**9))
        for table in ("bodies", "exchanges"):
            rows = [[now, "p1", mine], [now, "p2", "x" * 32]]
            client.insert(table, rows, column_names=["arrived_at", "pair_id", "subject"])
    return config.parent / "store"


def left(folder, table):
    with (
        EmbeddedStore.open(folder, ("127.0.0.1", 0), "shadow", "default", "") as store,
        closing(store.client()) as client,
    ):
        return [
            row[0]
            for row in client.query(
                f"SELECT pair_id FROM {table} FINAL WHERE subject != ''"
            ).result_rows
        ]


@pytest.mark.parametrize("more", [[], ["--all"]])
def test_a_person_is_forgotten_by_the_headers_value(config, folder, capsys, more):
    """The value is given as the client sends it; what was found is said, and is gone."""
    assert run(["purge", "-c", str(config), "--subject", "jörg", *more]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"subject {subject_of('jörg'.encode(), SALT)}: 1 texts, 0 dead letters")
    assert said.endswith(", 1 exchanges with their pairs\n" if more else " dead letters\n")
    assert left(folder, "bodies") == ["p2"]
    assert left(folder, "exchanges") == (["p2"] if more else ["p1", "p2"])


@pytest.mark.parametrize("more", [[], ["--all"]])
def test_what_was_stamped_before_the_clock_was_set_back_goes_too(
    config, folder, capsys, monkeypatch, more
):
    """It had arrived, whatever the clock says now; others' rows stay."""
    past_ns = time.time_ns() - 5 * 3600 * 10**9
    monkeypatch.setattr("shadow.cli.purging.time.time_ns", lambda: past_ns)
    assert run(["purge", "-c", str(config), "--subject", "jörg", *more]) == 0
    assert ": 1 texts, 0 dead letters" in capsys.readouterr().out
    assert left(folder, "bodies") == ["p2"]
    assert left(folder, "exchanges") == (["p2"] if more else ["p1", "p2"])


def test_mistakes_are_one_line(config, capsys):
    """No subject configured; a salt written out; nothing there to purge in."""
    tree = yaml.safe_load(config.read_text())
    arguments = ["purge", "-c", str(config), "--subject", "x"]
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith(
        "shadow: store: not all is purged, do it again: no store at"
    )
    config.write_text(yaml.safe_dump({**tree, "subject": {"salt": SALT}}))
    assert run(arguments) == 2
    assert (
        capsys.readouterr().err
        == "shadow: subject.salt: a secret stands written out; use ${NAME}\n"
    )
    config.write_text(
        yaml.safe_dump({name: value for name, value in tree.items() if name != "subject"})
    )
    assert run(arguments) == 2
    assert (
        capsys.readouterr().err
        == "shadow: subject: not configured, so no record says whose it is\n"
    )
