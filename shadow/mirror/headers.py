"""An arm's request: built from the client's, never relayed.

The end-to-end fields stay in their order and spelling, without those that must not travel: the
client's credentials (those in the query too), what steers one engine's scheduler, what belongs to
the client's trace or connection, and digests, which speak of a body that an arm's configuration may
change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from shadow.credentials import MOST, UNLISTED, credential
from shadow.target import path_of, without_secrets

if TYPE_CHECKING:
    from shadow.config.upstream import HeaderChanges
    from shadow.relay.head import RequestHead

CREDENTIALS: Final = frozenset(
    {
        "authorization",
        "cookie",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "dpop",
        "openai-organization",
        "openai-project",
    }
)
"""The last two name an account, which the arm's own key does not belong to."""
_SECRET: Final = re.compile(
    r"auth|token|secret|cookie|jwt|oidc|saml|bearer|passw|signature|client-?cert|principal"
    r"|csrf|xsrf|(?:^|-)(?:key|sig|hmac|pat|pwd|sid|creds?)(?:-|$)"
)
"""What more is one in a head than `shadow.credentials` says: no model's parameter stands there, so
a word counts anywhere in a name."""
STEERING: Final = frozenset(
    {
        "x-request-id",
        "x-worker-instance-id",
        "x-prefill-instance-id",
        "x-decode-instance-id",
        "x-dp-rank",
        "x-data-parallel-rank",
        "x-session-id",
        "x-session-affinity",
        "session-id",
        "mcp-session-id",
        "x-gateway-destination-endpoint",
        "x-gateway-destination-endpoint-subset",
        "x-gateway-inference-fairness-id",
        "x-gateway-inference-objective",
        "x-gateway-model-name-rewrite",
        "x-prefiller-host-port",
        "x-prefiller-url",
        "x-kv-cache-source-host-port",
        "x-smg-target-worker",
        "x-smg-routing-key",
        "x-dynamo-routing-mode",
        "x-dynamo-token-data",
        "x-envoy-original-dst-host",
    }
)
"""An engine or its router takes them as ids, routes, ranks or sessions: of another deployment they
are wrong. Of vLLM, Dynamo, SGLang's gateway, llm-d and Gateway API's inference extension, Envoy."""
ADDRESSES: Final = frozenset(
    {
        "referer",
        "x-envoy-original-path",
        "x-forwarded-uri",
        "x-forwarded-url",
        "x-original-uri",
        "x-original-url",
        "x-rewrite-url",
    }
)
"""They repeat an address as it was before a gateway changed it, with the keys in its query."""
_STEERS: Final = re.compile(
    r"^x-(?:gateway-(?:destination|inference|model)|smg|dynamo|prefill(?:er)?|decoder?|encoder?"
    r"|worker|kv|dp|data-parallel)-"
)
"""Whatever else steers by its name; `x-dynamo-meta-*` goes to an engine's own context."""
_TRACES: Final = re.compile(
    r"trace|^(?:b3|baggage|newrelic|sw8)$|^(?:x-b3|x-datadog|x-ot|uberctx)-"
)
"""What belongs to a trace: with the client's, a candidate's spans and failures would stand among
production's, and `baggage` tells of persons. W3C, B3, Jaeger, clouds, Datadog, Sentry, others."""
TRACES: Final = frozenset(
    {
        "traceparent",
        "tracestate",
        "baggage",
        "b3",
        "x-b3-traceid",
        "x-b3-spanid",
        "x-b3-parentspanid",
        "x-b3-sampled",
        "x-b3-flags",
        "uber-trace-id",
        "x-amzn-trace-id",
        "x-cloud-trace-context",
        "x-datadog-trace-id",
        "x-datadog-parent-id",
        "x-datadog-sampling-priority",
        "x-ot-span-context",
        "grpc-trace-bin",
        "sentry-trace",
        "newrelic",
        "sw8",
    }
)
"""Those that a record tells by their names."""
DIGESTS: Final = frozenset(
    {"content-digest", "repr-digest", "digest", "content-md5", "x-amz-content-sha256"}
)
_REBUILT: Final = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "expect",
        "te",
        "trailer",
        "x-shadow",
        "x-shadow-arm",
    }
)
_NEVER: Final = CREDENTIALS | STEERING | TRACES | DIGESTS | ADDRESSES
MARK: Final = "x-shadow-arm"
_KNOWN_NAMES: Final = 4096
_KNOWN_HEADS: Final = 512
_KNOWN_BYTES: Final = 2048


class ArmHeaders:
    """How the heads of one arm's requests are made."""

    def __init__(self, arm: str, authority: bytes, prefix: bytes, changes: HeaderChanges) -> None:
        added = {MARK: arm, **changes.set}
        self._removed = _NEVER | set(changes.remove) | set(changes.set)
        self._left_out = self._removed | _REBUILT
        self._set = sorted(changes.set)
        self._prefix = prefix
        host = changes.set.get("host", "").encode("latin-1", "replace") or authority
        self._first = b"Host: " + host
        self._tail = b"".join(
            f"{name}: {value}\r\n".encode("latin-1", "replace")
            for name, value in added.items()
            if name not in {"host", "content-length"}
        )
        self._kept: dict[bytes, bool] = {}
        self._told: dict[tuple[bytes, ...], tuple[str, ...]] = {}

    def build(self, head: RequestHead, length: int) -> bytes:
        """The head of the arm's request with a body of `length` bytes."""
        kept = self._kept
        target = head.target
        if target[:1] != b"/":
            target = _origin_form(target)
        if b"?" in target:
            target = without_secrets(target)[0]
        lines = [b"%b %b%b HTTP/1.1" % (head.method, self._prefix, target), self._first]
        for line in head.lines[1:]:
            name = line.partition(b":")[0]
            keep = kept.get(name)
            if keep is None:
                keep = self._judge(name)
            if keep:
                lines.append(line)
        return b"%b\r\nContent-Length: %d\r\n%b\r\n" % (b"\r\n".join(lines), length, self._tail)

    def changes(self, head: RequestHead) -> tuple[str, ...]:
        """What differs from the client's request beyond framing, host and mark, for the record:
        names of the configuration's or of our lists, any other as `UNLISTED`.
        """
        names = tuple([line.partition(b":")[0] for line in head.lines[1:]])
        said = self._told.get(names)
        if said is None:
            said = self._tell(names)
        if b"?" in head.target:
            secrets = dict.fromkeys(without_secrets(head.target)[1])
            return (*said, *(f"query:{name}" for name in secrets))
        return said

    def _tell(self, names: tuple[bytes, ...]) -> tuple[str, ...]:
        left = [name.decode("latin-1") for name in names if not self._kept.get(name)]
        told = {low if (low := name.lower()) in self._removed else _stays(name) for name in left}
        said = tuple(f"header:{name}" for name in sorted(told.union(self._set) - {""}))
        if sum(map(len, names)) <= _KNOWN_BYTES and len(self._told) < _KNOWN_HEADS:
            self._told[names] = said  # clients send the same few, in the same order
        return said

    def _judge(self, name: bytes) -> bool:
        text = name.decode("latin-1")
        keep = text.lower() not in self._left_out and not _stays(text)
        if len(name) <= MOST and len(self._kept) < _KNOWN_NAMES:
            self._kept[name] = keep
        return keep


def _stays(spelled: str) -> str:
    """What a field that stays by its name is told as; '' where it travels."""
    if len(spelled) > MOST:  # nobody's
        return UNLISTED
    name = spelled.lower().replace("_", "-")  # many servers read both as one
    if name in _NEVER:
        return name
    if said := credential(spelled):
        return said
    return UNLISTED if any(odd.search(name) for odd in (_SECRET, _STEERS, _TRACES)) else ""


def _origin_form(target: bytes) -> bytes:
    """Without the scheme, the user's password and the host of an absolute form: the last would
    stand above the arm's own Host (RFC 9112 §3.2.2).
    """
    _, mark, query = target.partition(b"?")
    return path_of(target) + mark + query
