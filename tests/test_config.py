"""The configuration: what may stand in it, and that every mistake is one line with its path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from analysis.policy import Policy
from shadow.cli.analysis import read_policy
from shadow.config import Config, ConfigError, config_hash, load, masked
from shadow.config.bounds import ArmLimits, Breaker, Price
from shadow.config.choice import Tenants
from shadow.config.consistency import consistent
from shadow.config.document import check, referring
from shadow.config.ends import ClickHouse, EmbeddedStore, EmbeddedStream, Retention
from shadow.config.kafka import Kafka
from shadow.config.lifecycle import Isolation, StopAt
from shadow.config.measure import Measure
from shadow.config.operations import Admin, Limits
from shadow.config.redaction import Redaction
from shadow.config.subject import Subject
from shadow.config.units import (
    parse_address,
    parse_bytes,
    parse_duration,
    show_bytes,
    show_duration,
)
from shadow.config.upstream import Arm, Primary, Upstream

ROOT = Path(__file__).parent.parent

MINIMAL = """
experiment: e
capture: text
primary: {url: "http://engine:8000"}
arms: {fp8: {role: candidate, url: "http://candidate:8000", sample: 0.25}}
stream: {embedded: ./s}
store: {embedded: ./d}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "shadow.yaml"
    path.write_text(text)
    return path


def changed(line: str) -> str:
    """The minimal file with one top-level key replaced or added."""
    tree = yaml.safe_load(MINIMAL) | yaml.safe_load(line)
    return yaml.safe_dump(tree)


def mistake(tmp_path: Path, text: str, **env: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text), Config, env)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_documented_sample_loads(tmp_path):
    """What docs/configuration.md shows is a configuration."""
    sample = re.search(
        r"```yaml\n(.*?)```", (ROOT / "docs/configuration.md").read_text(), re.DOTALL
    )
    assert sample
    config = load(write(tmp_path, sample[1]), Config, {"FP8_KEY": "k", "SHADOW_TOKEN": "t"})
    assert config.arms["fp8"].deadline == 120
    assert config.limits.answer_tail == 65536
    assert config.control == "control"
    assert config.candidates == ["fp8"]
    assert config.arms["fp8"].models == {"llama-70b": "llama-70b-fp8"}
    assert config.stop_at.pairs == 20_000


def test_the_readme_sample_loads(tmp_path):
    """The file of the README is a configuration."""
    sample = re.search(r"<<'YAML'\n(.*?)YAML", (ROOT / "README.md").read_text(), re.DOTALL)
    assert sample
    assert load(write(tmp_path, sample[1]), Config, {}).candidates == ["fp8"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("primari: 1", "primari: unknown key; did you mean primary?"),
        ("xyzzy: 1", "xyzzy: unknown key"),
        (
            "arms: {fp8: {role: candidate, url: 'http://c', sampel: 1}}",
            "arms.fp8.sampel: unknown key; did you mean sample?",
        ),
        (
            "stream: {embedded: ./s, max_byte: 1GB}",
            "stream.max_byte: unknown key; did you mean max_b",
        ),
        (
            "store: {clickhouse: {url: 'http://h', usr: u}}",
            "store.clickhouse.usr: unknown key; did you",
        ),
        (
            "stop_at: tomorrow",
            "stop_at: not a group of keys and values, such as {pairs: …, hours: …}",
        ),
        ("limits: 5", "limits: not a group of keys and values, such as {"),
        (
            "arms: {fp8: {role: candidate, url: 'http://c', sample: 25%}}",
            "arms.fp8.sample: not a number, such as 0.5",
        ),
        ("arms: [a]", "arms: not a group of keys and values"),
        ("workers: two", "workers: not a whole number, such as 2"),
        ("arms: {fp8: {role: candidate, url: 'http://c'}}", "arms.fp8.sample: missing"),
        ("arms: {fp8: {role: candidate, url: 'http://c', sample: 1.5}}", "arms.fp8.sample: "),
        ("arms: {primary: {role: candidate, url: 'http://c', sample: 1}}", "arms.primary: "),
        (
            "arms: {FP8: {role: candidate, url: 'http://c', sample: 1}}",
            "arms.FP8: 'FP8' is not a name",
        ),
        ("primary: {url: 'ftp://engine'}", "primary.url: 'ftp://engine' is not a URL"),
        ("primary: {url: 'http://u:p@engine'}", "primary.url: "),
        ("primary: {url: 'http://engine/v2'}", "primary.url: "),
        ("drain: 150", "drain: 150 is not a duration"),
        ("limits: {request_bytes: 8 quarts}", "limits.request_bytes: '8 quarts' is not a size"),
        ("stream: {kafka: {}}", "stream.kafka.bootstrap_servers: missing"),
        ("stream: {kafka: {bootstrap_servers: k}}", "stream.kafka.bootstrap_servers: "),
        ("stream: {}", "stream.embedded: missing"),
        ("store: {clickhouse: {url: c}}", "store.clickhouse.url: 'c' is not a URL"),
        (
            "store: {clickhouse: {url: 'http://c', password: p}}",
            "store.clickhouse.password: a secret",
        ),
        ("admin: {control: '0.0.0.0:9090'}", "admin: token: needed"),
        ("store: {embedded: data, listen: '0.0.0.0:8123'}", "store: password: needed"),
        ("store: {embedded: data, listen: '[::]:8123'}", "store: password: needed"),
        ("admin: {health: '127.0.0.1:8080'}", "admin.health: 127.0.0.1:8080 is taken by listen"),
        ("admin: {control: '127.0.0.1:8123'}", "store.listen: 127.0.0.1:8123 is taken by admin.c"),
        ("admin: {collector: 'localhost:9091'}", "admin.collector: localhost:9091 is taken by"),
        ("workers: 3\nadmin: {analysis: '127.0.0.1:9093'}", "admin.analysis: 127.0.0.1:9093 is"),
        (
            "arms: {fp8: {role: candidate, url: 'http://c', sample: 1, concurrency: 2}}\nworkers: 3",
            "arms.fp8.concurrency: 2 is less than one for each of 3 workers",
        ),
        (
            "attach: tap\nprimary: {url: 'http://e', concurrency: 2}\nworkers: 3",
            "primary.concurrency: 2 is less than one for each of 3 workers",
        ),
        ("state: ./d", "store.embedded: d is the folder of state"),
        ("primary: {url: 'http://localhost:8080'}", "primary.url: http://localhost:8080 is where"),
        ("listen: '0.0.0.0:80'\nprimary: {url: 'http://127.0.0.1'}", "primary.url: http://127.0"),
        ("limits: {queue_bytes: 1GiB}", "limits.queue_bytes: 1GiB is more than limits.mirror_b"),
        ("retention: {bodies: 30000d}", "retention.bodies: "),
        (
            "retention: {measures: 2h}\nstop_at: {hours: 3}",
            "retention.measures: 2h is shorter than stop_at.hours, 3: ",
        ),
        ("start_at: tomorrow", "start_at: 'tomorrow' is not a point in time such as 2026-12-01T0"),
        ("start_at: 2026-12-01", "start_at: '2026-12-01' is not a point in time"),
        ("start_at: 2026-12-01T09:00:00", "start_at: '2026-12-01T09:00:00' has no offset: write"),
        (
            "stop_at: {time: '2026-13-01T09:00:00Z'}",
            "stop_at.time: '2026-13-01T09:00:00Z' is not a point in time",
        ),
        (
            "start_at: 2026-12-01T09:00:00Z\nstop_at: {time: '2026-12-01T10:00:00+01:00'}",
            "start_at: 2026-12-01T09:00:00Z is not before stop_at.time, 2026-12-01T10:00:00+01:00",
        ),
        (
            (
                "{retention: {measures: 2h}, start_at: '2026-12-01T09:00:00Z',"
                " stop_at: {time: '2026-12-01T12:00:00Z'}}"
            ),
            "retention.measures: 2h is shorter than from start_at to stop_at.time, 3:00:00: ",
        ),
        ("limits: {bad_records: -1}", "limits.bad_records: "),
        ("listen: 8080", "listen: 8080 is not an address"),
        ("experiment: 'a b'", "experiment: 'a b' is not a name"),
        ("greedy_probe: 0.1", "greedy_probe: compares candidates with a control"),
        *[
            (
                f"arms: {{a: {{role: candidate, url: 'http://c', sample: 1, {asked}}}}}",
                f"arms.a{said}",
            )
            for asked, said in {
                "key: user": ".key: 'user' is none of",
                "amplify: 0": ".amplify: ",
                "models: {'': b}": ".models",
                "params: {set: {model: m}}": ".params.set.model",
                "params: {set: {a.b.c: 1}}": ".params.set.a.b.c",
                "params: {set: {t: .nan}}": ".params.set.t: not a JSON value",
                "params: {set: {t: 2026-01-01}}": ".params.set.t: not a JSON value",
                "params: {set: {t: 1}, remove: [t]}": ": params: t is asked for twice",
                "params: {set: {t: 1}, remove: [t.u]}": ": params: t.u is asked for twice",
                "include_usage: true, params: {remove: [stream_options]}": ": params: stream_options.",
            }.items()
        ],
        (
            "arms: {a: {role: control, url: 'http://c', sample: 1}, b: {role: control, url: 'http://c', sample: 1}}",
            "arms: one control at most",
        ),
        (
            "store: {embedded: ./d, password: hunter2}",
            "store.password: a secret stands written out",
        ),
        (
            "store: {embedded: ./d, password: '${NOPE}'}",
            "store.password: the environment has no NOPE",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_path(tmp_path, line, expected):
    """Every kind of mistake names its key; a secret's value is never repeated."""
    message = mistake(tmp_path, changed(line))
    assert message.startswith(expected)
    assert "hunter2" not in message


def test_a_date_that_is_none_names_its_key(tmp_path):
    """Unquoted, YAML itself would stumble over it, and say no more than the line; so in a variable."""
    said = "start_at: '2026-02-30T09:00:00Z' is not a point in time"
    assert mistake(tmp_path, f"{MINIMAL}start_at: 2026-02-30T09:00:00Z\n").startswith(said)
    moment = {"SHADOW__START_AT": "2026-02-30T09:00:00Z"}
    assert mistake(tmp_path, MINIMAL, **moment).startswith(said)


def test_a_term_is_read_and_shown_as_it_was_written(tmp_path):
    """With its offset; it measures nothing, so the comparison stays the same."""
    text = changed("start_at: 2026-12-01T09:00:00+01:00\nstop_at: {time: '2026-12-02t09:00:00z'}")
    config = load(write(tmp_path, text), Config, {})
    shown = masked(config, {})
    assert shown["start_at"] == "2026-12-01T09:00:00+01:00"
    assert shown["stop_at"]["time"] == "2026-12-02T09:00:00Z"
    assert Config.model_validate(shown) == config
    assert config_hash(config) == config_hash(load(write(tmp_path, MINIMAL), Config, {}))


def test_pods_of_their_own_may_use_the_same_port(tmp_path):
    """With Kafka and a ClickHouse server each process may have a machine of its own; `up` has one."""
    ends = """
stream: {kafka: {bootstrap_servers: "k:9092"}}
store: {clickhouse: {url: "http://c:8123"}}
admin: {health: "0.0.0.0:9091", collector: "0.0.0.0:9091"}
"""
    config = load(write(tmp_path, changed(ends)), Config, {})
    with pytest.raises(
        ValueError, match=r"admin\.collector: 0\.0\.0\.0:9091 is taken by admin\.hea"
    ):
        consistent(config, one_machine=True)


@pytest.mark.parametrize(
    "name",
    [
        "authorization",
        "x-goog-api-key",
        "Proxy-Authorization",
        "cookie",
        "x-passphrase",
        "x-pin",
        "x-session",
        "x-hmac",
    ],
)
def test_a_header_that_is_a_secret_by_its_name_stands_in_the_environment(tmp_path, name):
    """Written out it is refused, and its value is not repeated."""
    arm = f"{{role: candidate, url: 'http://c', sample: 1, headers: {{set: {{{name}: hunter2}}}}}}"
    message = mistake(tmp_path, changed(f"arms: {{a: {arm}}}"))
    assert message.startswith(f"arms.a.headers.set.{name}: a secret stands written out")
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ("api_key: hunter2", "api_key"),
        ("extra_body.hf_token: hunter2", "extra_body.hf_token"),
        ("extra_headers: {x-any: hunter2}", "extra_headers.x-any"),
        ("api_keys: [hunter2]", "api_keys.0"),
        ("tools: [{type: mcp, authorization: hunter2}]", "tools.0.authorization"),
    ],
)
def test_a_parameter_that_is_a_secret_by_its_name_stands_in_the_environment(tmp_path, params, key):
    """What is masked when it is shown is refused when it stands written out: one judge of both."""
    arm = "{{role: candidate, url: 'http://c', sample: 1, params: {{set: {{{}}}}}}}"
    message = mistake(tmp_path, changed(f"arms: {{a: {arm.format(params)}}}"))
    assert message.startswith(f"arms.a.params.set.{key}: a secret stands written out")
    assert "hunter2" not in message
    referred = arm.format(params.replace("hunter2", '"${K}"'))
    resolved = load(write(tmp_path, changed(f"arms: {{a: {referred}}}")), Config, {"K": "hunter2"})
    assert "hunter2" not in str(masked(resolved, {}))


def test_what_a_model_is_told_is_no_secret(tmp_path):
    """Parameters and headers whose names only look alike stand written out, and are shown."""
    arm = (
        "{role: candidate, url: 'http://c', sample: 1, headers: {set: {x-tokenizer: a}},"
        " params: {set: {prompt_cache_key: a, max_tokens: 7,"
        " tools: [{function: {parameters: {properties: {token: {type: string}}}}}]}}}"
    )
    load(write(tmp_path, changed(f"arms: {{a: {arm}}}")), Config, {})


@pytest.mark.parametrize(
    "value",
    ["!!int x", "!!int ''", "!!bool x", "!!timestamp x", "0x_", "9" * 5000, "[" * 3000],
    ids=lambda value: value[:15],
)
def test_what_yamls_constructors_let_through_is_a_mistake_like_any_other(tmp_path, value):
    """In the file and in an override: one line, no traceback."""
    mistake(tmp_path, f"drain: {value}\n")
    with pytest.raises(ConfigError, match=r"^SHADOW__DRAIN: the value is not YAML$"):
        load(write(tmp_path, changed("drain: 1s")), Config, {"SHADOW__DRAIN": value})


@pytest.mark.parametrize("key", ["capture", "experiment", "primary", "stream", "store"])
def test_what_must_be_stated_has_no_default(tmp_path, key):
    """A missing key that has no default is named."""
    tree = yaml.safe_load(MINIMAL)
    del tree[key]
    assert (
        mistake(tmp_path, yaml.safe_dump(tree))
        == f"{key}: missing; it has no default and must be stated"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", "a: the key stands twice (line 2)"),
        ("a: [1\n", "not YAML"),
        ("- 1\n", "the file must hold keys and values"),
        ("", "the file must hold keys and values"),
        ("a: " + "[" * 3000, "nested too deeply"),
        ("? [1, 2]\n: 3\n", "a key must be plain text"),
        ("a: !!python/object:os.system x\n", "not YAML"),
        ("a: &a [*a]\nb: \x07\n", "not YAML"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path, text, expected):
    """Duplicate keys, broken YAML and other documents are one line too."""
    assert expected in mistake(tmp_path, text)


def test_a_file_that_cannot_be_read(tmp_path):
    """A missing file, a folder and bytes that are no text are told apart."""
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "nope.yaml", Config, {})
    with pytest.raises(ConfigError, match="Is a directory"):
        load(tmp_path, Config, {})
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "x.yaml", Config, {})


def test_the_environment_overrides(tmp_path):
    """Two underscores between levels; names without case; values are YAML."""
    env = {
        "SHADOW__LISTEN": "0.0.0.0:80",
        "SHADOW__ARMS__FP8__SAMPLE": "0.5",
        "SHADOW__LIMITS__QUEUE_BYTES": "1MiB",
        "SHADOW_TOKEN": "not an override",
    }
    config = load(write(tmp_path, MINIMAL), Config, env)
    assert str(config.listen) == "0.0.0.0:80"
    assert config.arms["fp8"].sample == 0.5
    assert config.limits.queue_bytes == 2**20


@pytest.mark.parametrize("name", ["SHADOW__NOPE", "SHADOW__LISTEN__X", "SHADOW__ARMS__FP9__SAMPLE"])
def test_an_override_of_nothing_is_a_mistake(tmp_path, name):
    """An override that reaches no key is never ignored."""
    mistake(tmp_path, MINIMAL, **{name: "1"})


def test_secrets_come_from_the_environment_and_are_masked(tmp_path):
    """The resolved value is used, and never printed."""
    text = changed(
        "arms: {fp8: {role: candidate, url: 'http://c', sample: 1,"
        " headers: {set: {authorization: 'Bearer ${KEY}', x-other: 'v ${KEY}'}}}}"
    )
    config = load(write(tmp_path, text), Config, {"KEY": "s3cret"})
    assert config.arms["fp8"].headers.set["authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(masked(config, {}))


@pytest.mark.parametrize(
    ("line", "place", "shown"),
    [
        ("params: {set: {api_key: '${SEC}'}}", ("params", "set", "api_key"), "********"),
        ("params: {set: {user: 'u-${SEC}'}}", ("params", "set", "user"), "u-********"),
        (
            "params: {set: {extra_headers: {a: {b: ['${SEC}', 1]}}}}",
            ("params", "set", "extra_headers"),
            "********",
        ),
        ("params: {set: {a: {b: ['${SEC}', 1]}}}", ("params", "set", "a"), {"b": ["********", 1]}),
        ("params: {set: {api_key: 'a-${SEC}'}}", ("params", "set", "api_key"), "********"),
        (
            "params: {set: {azureAdToken: 'a-${SEC}'}}",
            ("params", "set", "azureAdToken"),
            "********",
        ),
        (
            "params: {set: {extra_body.token: 'a-${SEC}'}}",
            ("params", "set", "extra_body.token"),
            "********",
        ),
        ("params: {set: {prompt_cache_key: k}}", ("params", "set", "prompt_cache_key"), "k"),
        ("build: '${SEC}'", ("build",), "********"),
        ("factors: {why: '${SEC}'}", ("factors", "why"), "********"),
        ("models: {m: '${SEC}'}", ("models", "m"), "********"),
        ("tls: {key: '/run/${SEC}.pem'}", ("tls", "key"), "/run/********.pem"),
        ("headers: {set: {X-Any: 'v ${SEC}'}}", ("headers", "set", "x-any"), "********"),
        ("connect_timeout: 3s", ("connect_timeout",), "3s"),
        ("params: {set: {max_tokens: 7}}", ("params", "set", "max_tokens"), 7),
    ],
)
def test_whatever_came_from_the_environment_is_masked(tmp_path, line, place, shown):
    """Wherever it stands: nobody knows which of it is a secret. The text around it stays."""
    arm = f"arms: {{fp8: {{role: candidate, url: 'http://c:1/${{SEC}}/v1', sample: 1, {line}}}}}"
    path = write(tmp_path, changed(arm))
    env = {"SEC": "s3cret"}
    tree = masked(load(path, Config, env), referring(path, env))
    assert "s3cret" not in str(tree)
    node = tree["arms"]["fp8"]
    assert node["url"] == "http://c:1/********/v1"
    for key in place:
        node = node[key]
    assert node == shown


def test_what_an_override_took_from_the_environment_is_masked(tmp_path):
    """An override may hold a ${NAME} as the file may; servers in one text are masked as one."""
    path = write(tmp_path, changed("stream: {kafka: {bootstrap_servers: 'a:1,${SEC}:2'}}"))
    env = {"SEC": "s3cret", "SHADOW__PRIMARY__BUILD": "b-${SEC}"}
    tree = masked(load(path, Config, env), referring(path, env))
    assert "s3cret" not in str(tree)
    assert tree["primary"]["build"] == "b-********"
    assert tree["stream"]["kafka"]["bootstrap_servers"] == "a:1,********:2"


NUMBERS = [
    "workers",
    "greedy_probe",
    "primary.concurrency",
    "primary.replicas",
    "arms.fp8.sample",
    "arms.fp8.amplify",
    "arms.fp8.concurrency",
    "arms.fp8.breaker.failures",
    "arms.fp8.limits.requests_per_s",
    "arms.fp8.limits.tokens_per_day",
    "isolation.off_share",
    "isolation.pause_lag",
    "stop_at.pairs",
    "stop_at.hours",
    "limits.bad_records",
    "limits.request_bytes",
    "stream.kafka.partitions",
    "retention.bodies",
]


@pytest.mark.parametrize("said", ["true", "no", "on"])
@pytest.mark.parametrize("key", NUMBERS)
def test_a_truth_is_no_number(tmp_path, key, said):
    """`sample: true` is not 1.0: YAML's true, yes and on are refused wherever a number is wanted."""
    text = MINIMAL
    if key.startswith("arms."):
        text = changed("arms: {fp8: {role: candidate, url: 'http://c', sample: 1}}")
    if key.startswith("stream."):
        text = changed("stream: {kafka: {bootstrap_servers: 'a:1'}}")
    if key == "primary.concurrency":
        text += "\nattach: tap\n"
    override = "SHADOW__" + key.replace(".", "__").upper()
    assert mistake(tmp_path, text, **{override: said}).startswith(f"{key}: ")


def test_a_truth_is_no_number_in_a_policy():
    """Nor in the other file that is read so."""
    with pytest.raises(ConfigError, match=r"^blocks\.min_pairs: true is not a number$"):
        check({"blocks": {"min_pairs": True}}, Policy)


def test_a_truth_stays_one_where_it_is_meant(tmp_path):
    """In parameters, in switches, and where a bare off or on stands for a word."""
    arm = (
        "arms: {fp8: {role: candidate, url: 'http://c', sample: 0, allow_external: yes,"
        " breaker: off, params: {set: {logprobs: true, n: 1, stop: [true, 0]}}}}"
    )
    path = write(tmp_path, changed(arm) + "\nisolation: on\nretry_stale: off\n")
    fp8 = load(path, Config, {}).arms["fp8"]
    assert fp8.params.set == {"logprobs": True, "n": 1, "stop": [True, 0]}
    assert fp8.allow_external
    assert fp8.breaker == "off"


@pytest.mark.parametrize(
    "line",
    [
        "arms: {fp8: {role: candidate, url: 'http://u:${KEY}@c', sample: 1}}",
        "arms: {fp8: {role: candidate, url: 'http://c/?key=${KEY}', sample: 1}}",
        "admin: {follow: 'http://u:${KEY}@analysis:9090'}",
        "listen: ${KEY}",
        "redaction: {patterns: [{name: a, regex: '(${KEY}'}]}",
    ],
)
def test_a_mistake_does_not_repeat_a_resolved_secret(tmp_path, line):
    """It is told as the file spells it; such a line is logged at every SIGHUP."""
    message = mistake(tmp_path, changed(line), KEY="hunter2 'x'")
    assert "hunter2" not in message
    assert "${KEY}" in message


def test_a_resolved_configuration_can_be_read_again(tmp_path):
    """`shadow config` prints what loads to the same configuration."""
    config = load(write(tmp_path, MINIMAL), Config, {})
    again = load(write(tmp_path, yaml.safe_dump(masked(config, {}))), Config, {})
    assert again == config


def test_config_hash_covers_what_is_measured_and_nothing_else(tmp_path):
    """A changed rate, limit or folder starts nothing new; a changed build or deadline does."""

    def hashed(line: str) -> str:
        return config_hash(load(write(tmp_path, changed(line)), Config, {"K": "1"}))

    arm = "arms: {{fp8: {{role: candidate, url: 'http://candidate:8000', sample: {}, {}}}}}"
    base = hashed(arm.format(0.25, "deadline: 120s"))
    assert base == hashed(arm.format(0.5, "concurrency: 7"))
    assert base == hashed("limits: {queue_bytes: 1MiB}") == hashed("listen: 127.0.0.1:1")
    for change in (
        "deadline: 60s",
        "build: b",
        "factors: {q: fp8}",
        "key: conversation",
        "models: {a: b}",
        "params: {set: {temperature: 0}}",
        "params: {remove: [temperature]}",
        "include_usage: true",
        "amplify: 2",
        "tokenizer: t.json",
        "headers: {set: {x-a: '${K}'}}",
    ):
        assert base != hashed(arm.format(0.25, change))
    assert base != hashed("capture: full")


@pytest.mark.parametrize(
    ("params", "other", "same"),
    [
        ("temperature: 0.2", "temperature: 0.9", False),
        ("sampling: {top_k: 1}", "sampling: {top_k: 2}", False),
        ("api_key: '${A}'", "api_key: '${B}'", True),
        ("extra_headers: {x-any: '${A}'}", "extra_headers: {x-any: '${B}'}", True),
    ],
)
def test_another_value_of_a_parameter_is_another_measurement_unless_a_secret(
    tmp_path, params, other, same
):
    """Or pairs at two temperatures would be judged as one; a credential's value stands in no hash."""
    arm = "arms: {{a: {{role: candidate, url: 'http://c', sample: 1, params: {{set: {{{}}}}}}}}}"
    one, two = (
        config_hash(
            load(write(tmp_path, changed(arm.format(each))), Config, {"A": "k1", "B": "k2"})
        )
        for each in (params, other)
    )
    assert (one == two) is same


def test_every_key_is_documented():
    """docs/configuration.md names every key that the models know, and no other."""
    documented = set(
        re.findall(
            r"^\| `([a-z_.]+)` \|", (ROOT / "docs/configuration.md").read_text(), re.MULTILINE
        )
    )
    parts = {
        "stream": EmbeddedStream,
        "store": EmbeddedStore,
        "retention": Retention,
        "limits": Limits,
        "admin": Admin,
        "kafka": Kafka,
        "clickhouse": ClickHouse,
        "subject": Subject,
        "tenants": Tenants,
        "arms.limits": ArmLimits,
        "arms.price": Price,
        "arms.breaker": Breaker,
        "stop_at": StopAt,
        "isolation": Isolation,
        "redaction": Redaction,
        "measure": Measure,
    }
    known = set(Config.model_fields) | set(Arm.model_fields)
    known |= {f"primary.{key}" for key in set(Primary.model_fields) - set(Upstream.model_fields)}
    for prefix, part in parts.items():
        known |= {f"{prefix}.{key}" for key in part.model_fields}
    known |= {"stream.kafka", "store.clickhouse"}
    policy_keys = set(Policy.model_fields)
    assert documented - policy_keys == known
    assert documented & policy_keys == policy_keys


def test_a_retention_below_the_least_span_is_one_line(tmp_path):
    """Nothing could ever be promoted: the policy's span is longer than the store remembers."""
    path = write(tmp_path, changed("retention: {measures: 2h}"))
    assert read_policy(load(path, Config)) == Policy()
    (tmp_path / "policy.yaml").write_text("min_span: 3h")
    path = write(tmp_path, changed(f"retention: {{measures: 2h}}\npolicy: {tmp_path}/policy.yaml"))
    with pytest.raises(ConfigError, match=r"^retention.measures: 2h is shorter than the policy's"):
        read_policy(load(path, Config))


def test_the_documented_policy_is_the_default(tmp_path):
    """docs/configuration.md shows what judges without a file."""
    samples = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs/configuration.md").read_text(), re.DOTALL
    )
    assert load(write(tmp_path, samples[1]), Policy, {}, overrides=False) == Policy()


@pytest.mark.parametrize(
    ("text", "value"),
    [("8MiB", 8388608), ("64KiB", 65536), ("1kB", 1000), (5, 5), ("1.5KiB", 1536)],
)
def test_sizes(text, value):
    """Binary and decimal units; a bare number counts bytes."""
    assert parse_bytes(text) == value
    assert parse_bytes(show_bytes(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("2ms", 0.002), ("30s", 30), ("5m", 300), ("24h", 86400), ("7d", 604800), ("0s", 0)],
)
def test_durations(text, value):
    """A duration names its unit, is shown in the shortest exact way, and means the same in the policy,
    whose reader is the analysis' own: it may import nothing of the configuration."""
    assert parse_duration(text) == Policy.model_validate({"min_span": text}).min_span == value
    assert parse_duration(show_duration(value)) == value


@pytest.mark.parametrize("text", ["", "8080", ":80", "h:", "h:-1", "h:70000", "h:٣", None, True])
def test_bad_addresses(text):
    """An address has a host and a port within range."""
    with pytest.raises(ValueError, match="is not an address"):
        parse_address(text)


def test_ipv6_addresses():
    """Brackets around an IPv6 host are understood and shown."""
    assert str(parse_address("[::1]:8080")) == "[::1]:8080"
    assert parse_address("[::1]:8080").host == "::1"
