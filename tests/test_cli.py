"""The command line: exit statuses that scripts can use, and one line for every mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shadow.config import Config, load

ONE = "arms: {fp8: {role: candidate, url: 'http://127.0.0.1:9', sample: 1}}"
TWO = (
    "arms: {a: {role: candidate, url: 'http://127.0.0.1:9', sample: 1},"
    " b: {role: candidate, url: 'http://127.0.0.1:9', sample: 1}}"
)


def shadow(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shadow", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | env
    )


def configured(tmp_path: Path, more: str = ONE) -> str:
    path = tmp_path / "shadow.yaml"
    path.write_text(
        "experiment: e\ncapture: text\nprimary: {url: 'http://127.0.0.1:9'}\n"
        f"stream: {{embedded: {tmp_path}/stream}}\n"
        f"store: {{embedded: {tmp_path}/store, listen: '127.0.0.1:1'}}\n{more}\n"
    )
    return str(path)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "command", ["up", "proxy", "collect", "analyze", "report", "gate", "config", "migrate"]
)
def test_a_configuration_mistake_stops_every_command(tmp_path, command):
    """One line on stderr with the path, nothing else, exit 2."""
    path = configured(tmp_path, "arms: {fp8: {role: candidate, url: 'http://x'}}")
    done = shadow(command, "-c", path)
    assert done.returncode == 2
    assert (
        one_line(done) == "shadow: arms.fp8.sample: missing; it has no default and must be stated\n"
    )


@pytest.mark.parametrize("command", ["up", "analyze", "report", "gate"])
def test_a_policy_mistake_stops_every_command_that_judges(tmp_path, command):
    """The policy is checked before anything runs."""
    (tmp_path / "policy.yaml").write_text("metrics: {ttft_any.p50: {margin: 5}}")
    done = shadow(command, "-c", configured(tmp_path, f"{ONE}\npolicy: {tmp_path}/policy.yaml"))
    assert done.returncode == 2
    assert one_line(done).startswith("shadow: policy: metrics.ttft_any.p50.margin: ")


@pytest.mark.parametrize(
    "words",
    [
        ["gate"], ["gate", "-c"], ["gate", "-c", "/nowhere.yaml"], ["nonsense"], [], ["report", "--format", "pdf"],
        ["engine-sim", "--ttft-ms=-1"], ["engine-sim", "--port=99999"], ["demo", "--primary", "http://x"],
    ],
)  # fmt: skip
def test_a_usage_mistake_is_two(words):
    """Neither a verdict nor a fault."""
    assert shadow(*words).returncode == 2


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_data_holds_at_once(tmp_path, form):
    """No verdict can be had: 3, with the reason."""
    done = shadow("gate", "-c", configured(tmp_path), "--format", form)
    assert done.returncode == 3, done.stderr
    if form == "json":
        said = json.loads(done.stdout)
        assert (said["verdict"], said["experiment"], said["candidate"]) == ("hold", "e", "fp8")
    else:
        assert done.stdout.startswith("fp8: hold: ")
    assert done.stdout.count("\n") == 1


def test_several_candidates_need_a_name(tmp_path):
    """The gate never chooses; an unknown name is a mistake, a known one without data holds."""
    path = configured(tmp_path, TWO)
    assert "--candidate" in one_line(shadow("gate", "-c", path))
    assert shadow("gate", "-c", path).returncode == 2
    assert shadow("gate", "-c", path, "--candidate", "c").returncode == 2
    assert shadow("gate", "-c", path, "--candidate", "b").returncode == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tpot.p50"], "is not gated; the policy gates ttft_any.p50"),
        (["tpot.mean", "--until", "tomorrow"], "write a date or a time"),
        (["tpot.mean", "--candidate", "x"], "no candidate is named x"),
        (["tpot.mean", "--until", "9999-12-31"], "write a year from 1971 to 2199"),
        (["tpot.mean", "--until", "0001-01-01"], "write a year from 1971 to 2199"),
        (["tpot.mean", "--by", "  "], "--by: must say something"),
        (["tpot.mean", "--reason", "a\x1b[31m"], "--reason: must say something"),
    ],
)
def test_a_waiver_s_mistakes_are_one_line(tmp_path, words, said):
    """Nothing is stored for a metric, an end or a candidate that is none."""
    stated = ["--by", "ann", "--reason", "r", "--until", "2099-01-01"]
    done = shadow("waive", *stated, "-c", configured(tmp_path), *words)
    assert done.returncode == 2
    assert said in one_line(done)


def test_a_waiver_is_stored_and_shown(tmp_path):
    """By the command alone, nothing else running: the gate's line has it in its report."""
    path = configured(tmp_path)
    assert shadow("migrate", "-c", path).returncode == 0
    stated = ["--by", "ann", "--reason", "known", "--until", "2099-01-01"]
    done = shadow("waive", "tpot.mean", "-c", path, *stated)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("waived tpot.mean by ann until 2099-01-01T00:00:00+00:00: known")
    report = json.loads(shadow("report", "-c", path, "--format", "json").stdout)
    assert report["candidates"]["fp8"]["waivers"]["tpot.mean"]["by"] == "ann"
    assert "(waived: tpot.mean by ann" in shadow("gate", "-c", path).stdout


def test_a_report_without_data_says_so(tmp_path):
    """Nothing to report: 3, one line."""
    done = shadow("report", "-c", configured(tmp_path))
    assert done.returncode == 3
    assert one_line(done).startswith("shadow report: ")


def test_a_broken_install_is_seventy(tmp_path):
    """What fails before the command line exists is a fault of shadow, never a reject."""
    (tmp_path / "click.py").write_text("raise RuntimeError('broken')")
    done = shadow("gate", "-c", configured(tmp_path), PYTHONPATH=str(tmp_path))
    assert done.returncode == 70
    assert done.stdout == ""


def test_config_prints_what_loads_again(tmp_path):
    """Resolved, secrets masked, overrides applied."""
    path = configured(
        tmp_path,
        ONE[:-2]
        + ", headers: {set: {authorization: 'Bearer ${KEY}'}}, params: {set: {user: '${KEY}'}}}}",
    )
    done = shadow("config", "-c", path, KEY="s3cret", SHADOW__ARMS__FP8__SAMPLE="0.5")
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in done.stdout
    printed = yaml.safe_load(done.stdout)
    assert printed["arms"]["fp8"]["sample"] == 0.5
    assert printed["arms"]["fp8"]["params"]["set"] == {"user": "********"}
    del printed["arms"]["fp8"]["headers"]
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(printed))
    assert load(tmp_path / "again.yaml", Config, {}).arms["fp8"].sample == 0.5


def test_config_says_what_each_worker_gives(tmp_path):
    """Limits are of the whole proxy; behind the YAML stands each worker's part of them."""
    limits = "limits: {requests_per_s: 5, tokens_per_day: 1000000}"
    path = configured(tmp_path, ONE[:-2] + f", {limits}}}}}\nworkers: 4")
    done = shadow("config", "-c", path)
    assert done.returncode == 0, done.stderr
    assert "# each of 4 workers gives arms.fp8: requests_per_s 1.25\n" in done.stdout
    assert "# each of 4 workers gives arms.fp8: concurrency 50\n" in done.stdout
    assert "# each of 4 workers gives arms.fp8: tokens_per_day 250000\n" in done.stdout
    assert yaml.safe_load(done.stdout)["arms"]["fp8"]["limits"]["tokens_per_day"] == 1000000


def test_a_tokenizer_that_cannot_be_had_stops_the_collector(tmp_path):
    """Its key, the file and the reason; nothing is collected with another count than was asked for."""
    (tmp_path / "t.json").write_text("{}")
    for name, why in (("t.json", "is no tokenizer.json"), ("none.json", "No such file")):
        more = ONE[:-2] + f", tokenizer: '{tmp_path}/{name}'}}}}"
        done = shadow("collect", "-c", configured(tmp_path, more))
        assert done.returncode == 2
        said = one_line(done)
        assert said.startswith(f"shadow: arms.fp8.tokenizer: {tmp_path}/{name}"), said
        assert why in said


def test_a_report_file_is_whole_or_absent(tmp_path):
    """-o into a folder that is not there is a mistake in one line."""
    done = shadow("migrate", "-c", configured(tmp_path))
    assert done.returncode == 0, done.stderr
    done = shadow("report", "-c", configured(tmp_path), "-o", str(tmp_path / "no" / "r.md"))
    assert done.returncode == 2
    assert "no/r.md" in one_line(done)
    (tmp_path / "folder").mkdir()
    done = shadow("report", "-c", configured(tmp_path), "-o", str(tmp_path / "folder"))
    assert done.returncode == 2
    assert "folder" in one_line(done)
    done = shadow("report", "-c", configured(tmp_path), "-o", str(tmp_path / "r.md"))
    assert done.returncode == 0, done.stderr
    assert "hold" in (tmp_path / "r.md").read_text().lower()
    assert [path.name for path in tmp_path.glob(".*")] == []
