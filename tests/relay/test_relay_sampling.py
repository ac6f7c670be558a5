"""Sampling: one number a request, so that rates nest, repeat and are fair."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from relay.raw import answering, client, in_loop, proxy, upstream
from relay.test_relay_mirror import OK, chat

from shadow.choosing.sampling import Sampler, new_pair_id

PAIRS = [f"{n:032x}" for n in range(20_000)]


def test_rates_nest():
    """What 5 % sees is a part of what 10 % sees; at 1 everything is seen, at 0 nothing."""
    drawn = [Sampler("e").draw(pair) for pair in PAIRS]
    assert {n for n, u in enumerate(drawn) if u < 0.05} < {
        n for n, u in enumerate(drawn) if u < 0.10
    }
    assert all(0 <= u < 1 for u in drawn)


def test_the_same_everywhere():
    """A value that another process, or version, must draw too."""
    assert Sampler("e").draw(PAIRS[1]) == Sampler("e").draw(PAIRS[1]) == EXPECTED


EXPECTED = 0.8721889672876211


def test_it_is_uniform():
    """Within five standard errors of the rate, at several rates."""
    drawn = [Sampler("e").draw(pair) for pair in PAIRS]
    for rate in (0.01, 0.25, 0.5, 0.9):
        share = sum(u < rate for u in drawn) / len(drawn)
        assert abs(share - rate) < 5 * (rate * (1 - rate) / len(drawn)) ** 0.5


def test_experiments_choose_independently():
    """Of what one experiment samples at 50 %, another samples half."""
    one, other = Sampler("one"), Sampler("other")
    chosen = [pair for pair in PAIRS if one.draw(pair) < 0.5]
    assert 0.45 < sum(other.draw(pair) < 0.5 for pair in chosen) / len(chosen) < 0.55


def test_pair_ids():
    """32 hex digits, never twice."""
    ids = {new_pair_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(len(pair) == 32 and int(pair, 16) >= 0 for pair in ids)


SYSTEM, USER = {"role": "system", "content": "s"}, {"role": "user", "content": "hi"}
CONVERSATIONS = {
    ("e", None): ("220331cd81c5c4ed0e9cbc439279af8e", 0.5877925292753725),
    ("e", "acme"): ("44685ce34075510005bd501d4b9e2779", 0.3353901047379211),
    ("f", None): ("b0cebd4813bff73ebe72e25bf27cf5e6", 0.2128163766298966),
    ("f", "acme"): ("c32c3407c098163597901b6742b1c41e", 0.49283121740155955),
}
"""What every worker, restart and version says of that conversation: (experiment, tenant): (hash, the
number drawn for it)."""
SAYS = """
import json, sys
from shadow.body.conversation import beginning_in
from shadow.choosing.conversations import Conversations
from shadow.choosing.sampling import CONVERSATION, Sampler
from shadow.relay.head import parse_request
said = []
for experiment, tenant in json.loads(sys.argv[1]):
    field = "" if tenant is None else f"\\r\\nx-tenant: {tenant}"
    head = parse_request(f"POST /v1/chat/completions HTTP/1.1\\r\\nHost: h{field}".encode())
    of = Conversations(experiment, None if tenant is None else "x-tenant").of
    hashed = of(head, beginning_in({"messages": json.loads(sys.argv[2])}))
    said.append([hashed, Sampler(experiment).draw(f"{CONVERSATION}:{hashed}")])
print(json.dumps(said))
"""


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_a_conversation_is_drawn_for_alike_in_every_process(hash_seed):
    """Two processes of their own say what stands here: nothing random of one's own is in it."""
    given = json.dumps([*CONVERSATIONS]), json.dumps([SYSTEM, USER])
    done = subprocess.run(
        [sys.executable, "-c", SAYS, *given],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert json.loads(done.stdout) == [list(each) for each in CONVERSATIONS.values()]


@pytest.mark.parametrize(("experiment", "tenant"), CONVERSATIONS)
@in_loop
async def test_a_proxy_draws_so(experiment, tenant):
    """At a rate just above the number a conversation is chosen, just below it is not, in any turn,
    small or large.
    """
    drawn = CONVERSATIONS[experiment, tenant][1]
    rates = {"above": drawn + 1e-9, "below": drawn - 1e-9}
    field = b"" if tenant is None else f"x-tenant: {tenant}\r\n".encode()
    more = {} if tenant is None else {"tenants": {"header": "x-tenant", "deny": ["nobody"]}}
    answers = [{"role": "assistant", "content": "x" * 300_000}]
    async with upstream(answering(OK)) as primary, upstream(answering(OK)) as side:
        arms = {
            name: {"url": side.url, "key": "conversation", "sample": rate}
            for name, rate in rates.items()
        }
        async with (
            proxy(primary.url, arms, experiment=experiment, **more) as stage,
            client(stage.port) as user,
        ):
            for n, turns in enumerate(([SYSTEM, USER], [SYSTEM, USER, *answers, USER])):
                await user.write(chat(json.dumps({"messages": turns}).encode(), field))
                assert await user.exactly(len(OK)) == OK
                await stage.publisher.wait_for(2 * n + 2)
            assert stage.ledger.counts["above", "captured", ""] == 2
            assert stage.ledger.counts["below", "skipped", "not_sampled"] == 2
