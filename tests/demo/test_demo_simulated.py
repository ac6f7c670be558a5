"""The demo's engines differ in what the demo says and in nothing else; its requests are fixed."""

import asyncio
from pathlib import Path
from statistics import median

import aiohttp
import orjson
import pytest

from shadow.demo import simulated
from shadow.demo.children import children
from shadow.demo.folder import own

README = (Path(__file__).parents[2] / "README.md").read_text()


def texts(urls, prompts):
    """Each engine's answers to the same prompts."""

    async def run():
        async with aiohttp.ClientSession() as session:

            async def ask(url, prompt):
                messages = [{"role": "user", "content": prompt}]
                body = {"model": simulated.MODEL, "messages": messages}
                async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                    return (await answer.json())["choices"][0]["message"]["content"]

            return [await asyncio.gather(*(ask(url, p) for p in prompts)) for url in urls]

    return asyncio.run(run())


@pytest.mark.parametrize(("candidate", "name"), [("slow", "fp8"), ("same", "same")])
def test_engines(tmp_path, candidate, name):
    """Three processes: the control agrees with the primary; fp8 differs now and then, same never."""
    with children(tmp_path) as processes:
        engines = simulated.start_engines(processes, candidate)
        assert [engine.arm for engine in engines] == ["primary", name, "control"]
        primary, other, control = texts(
            [e.url for e in engines], [f"prompt {n}" for n in range(60)]
        )
    assert primary == control
    differing = sum(a != b for a, b in zip(primary, other, strict=True))
    assert (1 <= differing <= 15) if candidate == "slow" else differing == 0


def test_each_candidate_has_a_folder_of_its_own(tmp_path, monkeypatch):
    """One run after the other, as README invites: the second leaves the first one's report alone."""
    monkeypatch.chdir(tmp_path)

    def writes(candidate, place, *_):
        with own(place) as out:
            (out / "report.md").write_text(candidate)

    monkeypatch.setattr(simulated, "_demo", writes)
    assert simulated.run("slow") == simulated.run("same") == 0
    left = {path.read_text(): str(path.parent) for path in Path("out").rglob("report.md")}
    assert left == {"slow": "out/demo", "same": "out/demo-same"}
    assert all(f"`{place}/`" in README for place in left.values())


def test_requests():
    """As many as asked for, all different, nine in ten streamed with usage, always the same."""
    made = simulated.requests(1400, "sim")
    bodies = [orjson.loads(body) for body in made]
    assert made == simulated.requests(1400, "sim")
    assert len(set(made)) == 1400
    assert sum(body.get("stream", False) for body in bodies) == 1260
    assert all(body["stream_options"]["include_usage"] for body in bodies if body.get("stream"))
    assert 300 < median(map(len, made)) < 1500
