"""The tap: a gateway mirrors to it, nobody waits for its answers, production never passes it.

A request is read, answered 202, routed by its body, and then sent to a baseline replica, which is
the arm `primary`, and to the other arms: by the same pool, plan, capture and accounting as inline.
Where no arm may have it, the replica does not get it either. No byte of the
gateway's own travels on: a replica's request is built as an arm's is, so a Host that ends in
`-shadow`, as Envoy makes it, is nobody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from shadow.capture.side import PRIMARY
from shadow.mirror.baseline import Baseline
from shadow.mirror.headers import ArmHeaders
from shadow.relay.framing import FramingError, request_framing

if TYPE_CHECKING:
    from shadow.config.upstream import Primary
    from shadow.mirror.plan import Plan
    from shadow.relay.downstream import Downstream
    from shadow.relay.head import RequestHead
    from shadow.relay.relay import Relay
    from shadow.relay.upstream import Upstream

ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
LAST_ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Tap:
    """The baseline replica: how its requests are made, and those that are open."""

    def __init__(self, settings: Primary, relay: Relay, workers: int = 1) -> None:
        pool = relay.pool
        self.relay = relay
        self.headers = ArmHeaders(PRIMARY, pool.authority, pool.prefix, settings.headers)
        self.open: dict[Baseline, None] = {}
        """In the order in which they came whole; a deadline counts from the head."""
        self.asked = 0
        """Those of them that the replica was asked for; the others' bodies are looked at."""
        self._concurrency = settings.concurrency // workers
        self._deadline_ns = int(settings.deadline * 1e9)

    def tapped(self, client: Downstream, relay: Relay, head: RequestHead, now: int) -> Tapped:
        """A request of the gateway's: what a passage is inline."""
        return Tapped(self, client, relay, head, now)

    @property
    def full(self) -> bool:
        """The replica has all it may have."""
        return self.asked >= self._concurrency

    def start(self, plan: Plan) -> None:
        """Let the plan ask the replica once it has looked at the body."""
        baseline = Baseline(self, plan)
        plan.ask(baseline)
        self.open[baseline] = None

    def expire(self, now: int) -> None:
        """End what is beyond the deadline; called by the proxy's clock."""
        late = now - self._deadline_ns
        for baseline in [one for one in self.open if one.plan.capture.start_ns <= late]:
            baseline.cut("timed_out", "the replica's deadline has passed")

    def shut_down(self) -> None:
        """End what is still open, told as such."""
        for baseline in list(self.open):
            self.relay.totals.cut_by_drain += 1
            baseline.cut("cut_by_drain", "the proxy was shut down")


class Tapped:
    """One request from the gateway until it has its 202."""

    __slots__ = ("_client", "_head", "_plan", "_relay", "_tap", "_upload", "connection", "full")

    def __init__(
        self, tap: Tap, client: Downstream, relay: Relay, head: RequestHead, now: int
    ) -> None:
        relay.totals.requests += 1
        relay.totals.open_streams += 1
        self._tap = tap
        self._client = client
        self._relay = relay
        self._head = head
        mirrored = head.method in relay.mirrored or head.upgrade
        self._plan = cast("Plan | None", relay.plan(head, now)) if mirrored else None
        self._upload = request_framing(head.length, relay.limits.header_bytes)
        self.connection: Upstream | None = None
        self.full = False

    @property
    def takes_bytes(self) -> bool:
        """What comes now belongs to this request."""
        return self._upload is not None

    def begin(self, rest: bytes) -> None:
        """The head has come, with what came behind it."""
        if self._upload is None:
            self._client.hold(rest)
            self._whole()
            return
        if self._head.expect and not rest:
            self._client.transport.write(CONTINUE)
        if rest:
            self.take(rest)

    def take(self, data: bytes) -> None:
        """More of the body: kept while the mirror wants it, within its bounds."""
        upload = self._upload
        assert upload is not None
        pieces: list[bytes] = []
        try:
            end = upload.feed(data, pieces)
        except FramingError as error:
            self._end()
            self._client.refuse(400, str(error))
            return
        if self._plan is not None and pieces:
            self._plan = self._relay.keep(self._plan, pieces)
        if upload.done:
            self._upload = None
        if end < len(data):
            (self._client.hold if upload.done else self._client.later)(data[end:])
        if upload.done:
            self._whole()

    def upload_lasts(self, since: int) -> None:
        """The mirror waits no longer for a body that began before `since`."""
        plan = self._plan
        if plan is not None and plan.capture.start_ns < since:
            self._plan = None
            self._relay.dropped(plan)

    def client_left(self) -> None:
        """The request never came whole."""
        self._relay.totals.client_disconnected += 1
        self._end()

    def client_has_room(self) -> None:
        """There was always room for a 202."""

    def cut(self) -> None:
        """The drain's time is over."""
        self._relay.totals.cut_by_drain += 1
        self._end()
        self._client.reset()

    def _end(self) -> None:
        """Before it was whole."""
        self._client.passage = None
        self._relay.totals.open_streams -= 1
        plan, self._plan = self._plan, None
        if plan is not None:
            self._relay.dropped(plan)

    def _whole(self) -> None:
        """202, at once; what follows is nobody's to wait for."""
        client, relay, plan = self._client, self._relay, self._plan
        keep = self._head.keep and not relay.draining
        client.passage = None
        client.transport.write(ACCEPTED if keep else LAST_ACCEPTED)
        if plan is None or not relay.started(self._tap.start, plan):
            relay.totals.open_streams -= 1
        client.passed(keep=keep)
