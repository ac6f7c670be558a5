"""Logging in, and what is said when it fails: one line with the reason, within ten seconds."""

from __future__ import annotations

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from shadow.stream import Message, StreamUnavailable
from shadow.stream.kafka import KafkaConsumerStream, KafkaProducerStream, Sasl, Tls
from shadow.stream.kafka.connect import explained

USER, PASSWORD = "shadow", "s3cret"


def doors(cluster, name: str) -> dict:
    """The settings for one way in."""
    sasl = {
        "plain": Sasl("PLAIN", USER, PASSWORD),
        "scram": Sasl("SCRAM-SHA-256", USER, PASSWORD),
        "tls+plain": Sasl("PLAIN", USER, PASSWORD),
        "tls+scram": Sasl("SCRAM-SHA-256", USER, PASSWORD),
    }[name]
    if name.startswith("tls"):
        return {"bootstrap_servers": cluster.tls, "sasl": sasl, "tls": Tls(cluster.ca)}
    return {"bootstrap_servers": cluster.sasl, "sasl": sasl}


@pytest.mark.kafka
@pytest.mark.parametrize("name", ["plain", "scram", "tls+plain", "tls+scram"])
def test_both_ends_log_in(cluster, settings, opened, read_all, name):
    """SASL PLAIN and SCRAM, over plain connections and TLS: a record goes there and back."""
    there = replace(settings, **doors(cluster, name))
    opened(KafkaProducerStream(there)).append([Message(b"k", b"v")])
    found = read_all(opened(KafkaConsumerStream(there)), 1)
    assert [(record.key, record.value) for record in found] == [(b"k", b"v")]


def failure(settings, end) -> tuple[str, float]:
    """What the first use of an end says, and after how many seconds."""
    one = end(settings)
    began = time.monotonic()
    try:
        with pytest.raises(StreamUnavailable) as refused:
            one.append([Message(b"", b"")]) if end is KafkaProducerStream else one.poll(1, 0.1)
    finally:
        one.close()
    return str(refused.value), time.monotonic() - began


@pytest.mark.kafka
def test_a_refused_login_is_one_clear_line_within_ten_seconds(cluster, settings):
    """Wrong passwords, an unknown authority, no login where one is wanted, nobody there: each names
    the servers and the reason, and says that it is about connecting or logging in."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    wrong = Sasl("PLAIN", USER, "wrong")
    mechanism = replace(wrong, mechanism="SCRAM-SHA-512")  # the broker knows none
    # kafka-python loses the broker's answer when its hanging up comes in the same read
    refusal = "(?i)are sasl_user, sasl_password and sasl_mechanism right|hung up during the login; are user, password and"
    cases = {
        "PLAIN": ({"bootstrap_servers": cluster.sasl, "sasl": wrong}, refusal),
        "SCRAM": (
            {"bootstrap_servers": cluster.sasl, "sasl": replace(wrong, mechanism="SCRAM-SHA-256")},
            refusal,
        ),
        "TLS": (
            {"bootstrap_servers": cluster.tls, "sasl": wrong, "tls": Tls(cluster.ca)},
            refusal,
        ),
        "CA": (doors(cluster, "tls+plain") | {"tls": Tls()}, "VERIFY_FAILED.*does tls.ca hold"),
        "no login": ({"bootstrap_servers": cluster.sasl}, "does that port want TLS or a login"),
        "nobody": ({"bootstrap_servers": (nobody,)}, "ECONNREFUSED.*: nobody listens there"),
        "no such name": (
            {"bootstrap_servers": ("kafka.invalid:9092",)},
            "DNS.*: are the names in bootstrap_servers right",
        ),
        "mechanism": ({"bootstrap_servers": cluster.sasl, "sasl": mechanism}, "mechanism"),
    }
    with ThreadPoolExecutor(len(cases)) as together:
        heard = {
            name: together.submit(
                failure,
                replace(settings, client_id=name, **there),
                KafkaConsumerStream if name == "SCRAM" else KafkaProducerStream,
            )
            for name, (there, _) in cases.items()
        }
        for name, (there, reason) in cases.items():
            line, seconds = heard[name].result()
            assert seconds < (10.0 if there.get("sasl") not in (wrong, mechanism) else 7.0), name
            assert "\n" not in line
            assert there["bootstrap_servers"][0] in line
            assert "could not connect or log in: " in line
            assert re.search(reason, line), (name, line)
            assert "wrong" not in line


@pytest.mark.kafka
def test_the_right_password_works_after_the_wrong_one(cluster, settings, opened):
    """A failed attempt leaves nothing behind that would spoil the next."""
    there = replace(settings, **doors(cluster, "plain"))
    with pytest.raises(StreamUnavailable):
        opened(
            KafkaProducerStream(
                replace(there, connect_timeout=1.0, sasl=Sasl("PLAIN", USER, "wrong"))
            )
        ).append([Message(b"", b"")])
    opened(KafkaProducerStream(there)).append([Message(b"", b"")])


def test_a_tls_file_that_cannot_be_used_is_named(tmp_path):
    """No broker is asked; the line names the file."""
    from shadow.stream.kafka import KafkaSettings

    (tmp_path / "odd.pem").write_text("no certificate")
    for tls, name in ((Tls(tmp_path / "none.pem"), "none.pem"), (Tls(tmp_path / "odd.pem"), "odd")):
        producer = KafkaProducerStream(KafkaSettings(("127.0.0.1:1",), tls=tls))
        with pytest.raises(StreamUnavailable, match=name):
            producer.append([Message(b"", b"")])
        producer.close()


def test_an_error_is_explained_without_its_number_and_its_name_twice():
    """kafka-python says a name up to three times."""
    from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError

    assert explained(KafkaConnectionError("socket\n disconnected")) == (
        "socket disconnected (KafkaConnectionError)"
    )
    assert explained(SaslAuthenticationFailedError("wrong")) == (
        "wrong (SaslAuthenticationFailedError)"
    )
    assert explained(KafkaConnectionError()) == "KafkaConnectionError"
