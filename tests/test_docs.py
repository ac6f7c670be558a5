"""The documentation says what the code does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen

import click
import yaml
from end_to_end.stage import answers, free_port, until

from shadow.cli.commands import cli
from shadow.config import Config, load

ROOT = Path(__file__).parent.parent


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[; ]", line)[0] for line in requirements}


def test_every_dependency_has_its_reason():
    """docs/dependencies.md and pyproject.toml name the same packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = names(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted |= names(extra)
    told = set(
        re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/dependencies.md").read_text(), re.MULTILINE)
    )
    assert told == wanted


def test_every_dependency_is_locked():
    """The lock that the make verbs install from holds every named package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = set(
        re.findall(r"^([A-Za-z0-9_.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    wanted = names(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted |= names(extra)
    assert {name.lower() for name in wanted} <= {name.lower() for name in locked}


def test_the_readme_names_every_command():
    """The table of commands is the command line's own."""
    told = set(re.findall(r"^\| `shadow ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert told == set(cli.commands)


def test_every_command_explains_itself():
    """Each command and each option has a help text."""
    for command in cli.commands.values():
        assert command.help
        for option in command.params:
            if isinstance(option, click.Argument):  # it stands in the command's own help
                assert option.make_metavar(click.Context(command)) in command.help
                continue
            assert isinstance(option, click.Option)
            assert option.help, f"{command.name} {option.name}"


def pages() -> list[Path]:
    """The repository's pages, each folder's README among them."""
    foreign = {".venv", "out", "node_modules", ".git"}
    folders = [each for each in ROOT.iterdir() if each.is_dir() and each.name not in foreign]
    return [*ROOT.glob("*.md"), *(page for each in folders for page in each.rglob("*.md"))]


def test_links_lead_somewhere():
    """Every relative link of every page is a file of the repository."""
    for page in pages():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def anchors(text: str) -> set[str]:
    """Where a link may lead within a page: its headings, as GitHub names them, and its own marks."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def test_links_into_a_page_find_their_place():
    """Each `#place` of a link stands in the page that it leads to."""
    for page in pages():
        for target, place in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
            found = anchors((page.parent / target if target else page).read_text())
            assert place in found, f"{page.name} links to {target}#{place}"


def test_modules_that_a_table_names_are_there():
    """A folder's README has no module that was renamed or taken away."""
    tables = r"^\| module \|.*\n\|[-| ]+\n((?:\|.*\n)+)"
    for page in [each for each in pages() if each.name == "README.md"]:
        for table in re.findall(tables, page.read_text(), re.MULTILINE):
            for cell in re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE):
                for name in re.findall(r"`(\w+)/?`", cell):
                    module = page.parent / name
                    assert module.is_dir() or module.with_suffix(".py").exists(), f"{page}: {name}"


def test_alerts_are_of_figures_that_exist():
    """What docs/operations.md alerts on is among the figures that it lists."""
    page = (ROOT / "docs/operations.md").read_text()
    alerts = re.search(r"^### Alerts$(.*?)^##", page, re.MULTILINE | re.DOTALL)[1]
    asked = set(re.findall(r"shadow_[a-z_]+", alerts))
    listed = set(re.findall(r"`(shadow_[a-z_]+)", page.split("## Every figure of /metrics")[1]))
    switch = page.split("## What mirroring costs")[1].split("## Clocks")[0]
    assert asked
    assert asked <= listed | set(re.findall(r"`(shadow_[a-z_]+)", switch))


def test_the_readme_names_every_page():
    """Nobody has to guess that there is one."""
    told = set(
        re.findall(r"^\| \[docs/([\w-]+\.md)\]", (ROOT / "README.md").read_text(), re.MULTILINE)
    )
    assert told == {page.name for page in (ROOT / "docs").glob("*.md")}


def test_the_make_verbs_are_listed():
    """`make` alone lists each verb that CONTRIBUTING names."""
    makefile = (ROOT / "Makefile").read_text()
    for verb in ("install", "lint", "test", "bench", "demo", "clean"):
        assert re.search(rf"^{verb}:.*## ", makefile, re.MULTILINE)


def test_nothing_names_where_it_was_made():
    """No page or source holds a path of a developer's machine."""
    wrong = re.compile(r"/work/|/home/[a-z]+/|/Users/")
    for path in [
        *ROOT.rglob("*.py"),
        *ROOT.rglob("*.md"),
        *ROOT.rglob("*.sql"),
        *ROOT.rglob("*.toml"),
    ]:
        if not {".venv", "out", "node_modules"} & set(
            path.relative_to(ROOT).parts
        ) and path != Path(__file__):
            assert not wrong.search(path.read_text()), path


def attaching():
    """(heading, configuration, commands) of the README's way into a path."""
    heading, block = re.search(
        r"^## (Attach it.*?)$.*?^```\n(.*?)^```",
        (ROOT / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    ).groups()
    before, sample, after = re.split(
        r"^cat > shadow.yaml <<'YAML'\n|^YAML\n", block, flags=re.MULTILINE
    )
    return heading, sample, (before + after).splitlines()


def test_the_readme_counts_its_lines():
    """Lines of the file and commands are as many as its heading says, each command one of shadow's or
    what makes it; first of all an environment, since Debian's pip installs into no other."""
    words = [
        "no",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ]
    heading, sample, commands = attaching()
    counted = re.fullmatch(r"Attach it: a file of (\w+) lines, (\w+) commands", heading)
    assert [words.index(each) for each in counted.groups()] == [
        len(sample.splitlines()),
        len(commands),
    ]
    assert commands[0].startswith("python3 -m venv .venv && . .venv/bin/activate")
    assert commands[1].startswith("pip install '.[embedded]'")
    assert all(cli.commands[line.split()[1]] for line in commands[2:])


def test_the_readme_names_every_build():
    """Whoever takes it over gets reports that say what ran on each side."""
    config = yaml.safe_load(attaching()[1])
    assert all(each.get("build") for each in [config["primary"], *config["arms"].values()])


def test_the_engines_to_try_it_with_start_as_shown(tmp_path):
    """attach.md's lines as they stand, but for the ports: three engines, and README's file names them."""
    page = (ROOT / "docs/attach.md").read_text()
    script = re.search(r"## Without an engine.*?```\n(.*?)```", page, re.DOTALL)[1]
    known = re.findall(r"--port (\d+)", script)
    free = dict(zip(known, [free_port() for _ in known], strict=True))
    for port in known:
        script = re.sub(rf"--port {port}\b", f"--port {free[port]}", script)
        script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free[port]}")
    (tmp_path / "shadow.yaml").write_text(attaching()[1])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with (tmp_path / "log").open("wb") as log:
        shell = subprocess.Popen(
            ["bash", "-ec", f"{script}\nwait"],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        urls = [f"http://127.0.0.1:{port}" for port in free.values()]
        for url in urls:
            until(lambda url=url: answers(f"{url}/health"), what=url)
        config = load(tmp_path / "shadow.yaml", Config, {})
        assert [config.primary.url, *(arm.url for arm in config.arms.values())] == urls
        with urlopen(f"{urls[0]}/v1/models", timeout=5) as answer:
            model = yaml.safe_load(answer.read())["data"][0]["id"]
        assert f'"model": "{model}"' in page  # that the requests shown ask for
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(20)
