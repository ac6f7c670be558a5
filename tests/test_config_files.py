"""A file that the configuration names and nobody can use is said at the start, with its key's path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TLS = Path(__file__).parent / "relay" / "tls"


def document(tmp_path: Path) -> dict:
    ports = {"health": "127.0.0.1:0"}
    return {
        "experiment": "x",
        "capture": "full",
        "listen": "127.0.0.1:0",
        "admin": ports,
        "state": str(tmp_path / "state"),
        "primary": {"url": "https://127.0.0.1:9"},
        "arms": {"fp8": {"url": "https://127.0.0.1:8", "role": "candidate", "sample": 1}},
        "stream": {"kafka": {"bootstrap_servers": "127.0.0.1:1", "spill": str(tmp_path / "spill")}},
        "store": {"clickhouse": {"url": "https://127.0.0.1:1"}},
    }


def place(tree: dict, path: str, value: object) -> None:
    *groups, last = path.split(".")
    for group in groups:
        tree = tree.setdefault(group, {})
    tree[last] = value


def shadow(tmp_path: Path, command: str, tree: dict) -> tuple[int, str]:
    file = tmp_path / "shadow.yaml"
    file.write_text(yaml.safe_dump(tree))
    argv = [sys.executable, "-m", "shadow", command, "-c", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("key", "commands"),
    [
        ("stream.kafka.tls.ca", ("config", "up", "collect")),
        ("primary.tls.ca", ("proxy",)),
        ("arms.fp8.tls.certificate", ("config",)),
        ("store.clickhouse.ca", ("collect", "analyze")),
        ("arms.fp8.tokenizer", ("config",)),
        ("policy", ("config",)),
    ],
)
def test_a_missing_file_is_one_line_and_two(tmp_path, key, commands):
    """Whichever process would read it, and `shadow config`, end with 2 and name key and file."""
    tree = document(tmp_path)
    place(tree, key, str(tmp_path / "missing"))
    for command in commands:
        status, said = shadow(tmp_path, command, tree)
        assert (status, said.count("\n")) == (2, 1), (command, said)
        assert said.startswith(f"shadow: {key}: ")
        assert f"{tmp_path / 'missing'}: No such file" in said


def usable(tmp_path: Path, *pairs: tuple[str, object]) -> str:
    from shadow.config import Config, ConfigError
    from shadow.config.document import check
    from shadow.config.files import EVERY, files_usable

    tree = document(tmp_path)
    for key, value in pairs:
        place(tree, key, str(value))
    try:
        files_usable(check(tree, Config), *EVERY)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_file_that_is_something_else_is_said_too(tmp_path):
    """A folder, a text, a key without its certificate, or another one's key: each names its key."""
    text = tmp_path / "text.pem"
    text.write_text("no PEM")
    for key in ("stream.kafka.tls.ca", "primary.tls.ca", "store.clickhouse.ca"):
        assert usable(tmp_path, (key, text)).startswith(f"{key}: {text}: no certificates")
        assert usable(tmp_path, (key, tmp_path)).startswith(f"{key}: {tmp_path}: Is a directory")
    assert usable(tmp_path, ("arms.fp8.tokenizer", text)).endswith("is no tokenizer.json")
    assert usable(tmp_path, ("primary.tls.key", text)).startswith("primary.tls.key: stands without")
    said = usable(tmp_path, ("primary.tls.certificate", text), ("primary.tls.key", text))
    assert said.startswith(f"primary.tls.certificate: {text}: no certificate")


def test_files_in_order_are_nothing_to_speak_of(tmp_path):
    """An authority, a certificate with its key, and a JSON document pass."""
    found = {path.name: path for path in TLS.iterdir()}
    ca = next(path for name, path in sorted(found.items()) if name.startswith("ca"))
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    said = usable(tmp_path, ("primary.tls.ca", ca), ("arms.fp8.tokenizer", tokenizer))
    assert said == ""
