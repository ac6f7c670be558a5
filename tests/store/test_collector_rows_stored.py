"""An answer is never a dead letter: of every well-formed exchange, whatever its answer holds, there
are rows, and the store takes all of them.
"""

import os
import random
import re
from contextlib import closing

import pytest
from collecting.answers import DONE, JSON, SSE
from collecting.records import exchange
from collecting.test_collector_fuzz import mutated

from collector.decode import rows_of
from collector.migrate import Retention, migrate
from collector.writer import Writer
from shadow.exchange import encode

RECORDS = int(600 + 50 * float(os.environ.get("SHADOW_FUZZ_SECONDS", "0")))
LEAVES = [
    "NaN", "Infinity", "-Infinity", "1e999", "-0", "-1", "1.5", "9" * 26, "-" + "9" * 20, str(2**64), str(2**63), str(2**32),
    "null", "true", '""', '"a"', '"stop"', '"\\ud800"', '"\\u0000"', '"\\udfff\\ud800"', "[]", "{}", "[[]]", '{"a":1}',
    "[1," + "9" * 23 + "]", '[1,"a",null,-3]', '{"\\ud800":1}', '"' + "x" * 300 + '"',
    '[{"token":"\\ud800","logprob":NaN,"top_logprobs":[{"token":1,"logprob":"x"},{"token":"\\udc00","logprob":-1}]}]',
]  # fmt: skip
USAGE = (
    '"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}'
)
SHAPES = {
    "/v1/chat/completions": [
        '{"id":"x","model":"m","system_fingerprint":"f","choices":[{"index":0,"KIND":{"role":"assistant","content":"a","reasoning":"r",'
        '"refusal":"z","tool_calls":[{"index":0,"id":"i","function":{"name":"n","arguments":"{}"}}]},"logprobs":{"content":[{"token":"a",'
        '"logprob":-1,"top_logprobs":[{"token":"b","logprob":-2}]}]},"token_ids":[1,2],"finish_reason":"stop","stop_reason":5}],'
        + USAGE + ',"timings":{"prompt_ms":1},"nvext":{"timing":{"ttft_ms":1}}}'
    ],
    "/v1/completions": [
        '{"model":"m","choices":[{"index":0,"text":"a","logprobs":{"tokens":["a"],"token_logprobs":[-1],"top_logprobs":[{"a":-1}]},'
        '"token_ids":[3],"finish_reason":"stop"}],' + USAGE + "}"
    ],
    "/v1/responses": [
        '{"type":"response.output_text.delta","output_index":0,"item_id":"i","delta":"a"}',
        '{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}',
        ('{"type":"response.completed","object":"response","status":"completed","output":[{"type":"function_call","name":"n",'
        '"arguments":"{}"}],"response":{"model":"m","status":"completed","output":[{"type":"message","content":[{"text":"a"}]}],'
        '"usage":{"input_tokens":1,"output_tokens":2}},"usage":{"input_tokens":1}}'),
    ],
    "/v1/messages": [
        '{"type":"message_start","message":{"model":"c","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3,"cache_read_input_tokens":1}}',
        '{"type":"message_stop","content":[{"type":"text","text":"a"},{"type":"tool_use","name":"n","input":{"a":1}}],"model":"m"}',
    ],
    "/v1/embeddings": ['{"object":"list","data":[{"embedding":[0.1],"index":0}],"model":"m",' + USAGE + "}"],
}  # fmt: skip
_PLACE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|\[\]|\{\}|null')


def hostile(rng):
    """A dialect's own words with anything in the places of one, two or three values or keys."""
    path = rng.choice(list(SHAPES))
    streamed = rng.random() < 0.5
    texts = []
    for shape in SHAPES[path] if streamed else [SHAPES[path][-1]]:
        said = shape.replace("KIND", "delta" if streamed else "message")
        for _ in range(rng.randint(0, 3)):
            place = rng.choice(list(_PLACE.finditer(said)))
            leaf = rng.choice(LEAVES)
            if said[place.end() : place.end() + 1] == ":" and (
                not leaf.startswith('"') or rng.random() < 0.7
            ):
                continue
            said = said[: place.start()] + leaf + said[place.end() :]
        texts.append(said.encode())
    body = b"".join(b"data: " + text + b"\n\n" for text in texts) + DONE if streamed else texts[0]
    headers, status = SSE if streamed else JSON, rng.choice([200, 200, 200, 400, 500])
    return {"path": path, "headers": list(headers), "body": body, "status": status}


def damaged(rng):
    """A real engine's answer with a few things wrong."""
    answer = mutated(rng)
    return {
        "path": answer.path, "status": answer.status, "headers": list(answer.headers), "body": answer.body,
        "marks": [(abs(ns), max(0, end)) for ns, end in answer.marks], "transport": answer.transport,
        "truncated_bytes": answer.gap_bytes, "tail_bytes": answer.tail_bytes,
    }  # fmt: skip


@pytest.fixture(scope="module")
def writer(store):
    with closing(store.client()) as client:
        migrate(client, "shadow", Retention(10**9, 10**9))
        yield Writer(client)


@pytest.mark.parametrize("make", [hostile, damaged])
def test_rows_of_any_answer_are_stored(writer, make):
    """Seeded: rows_of never raises, its rows are of one shape, and the engine refuses none."""
    rng = random.Random(41)
    tables = {}
    for number in range(RECORDS):
        record = exchange(pair_id=f"{make.__name__}{number}", sequence=number + 1, **make(rng))
        for table, rows in rows_of(encode(record), "full").items():
            tables.setdefault(table, []).extend(rows)
    assert {table: len(rows) for table, rows in tables.items()} == {
        "exchanges": RECORDS,
        "bodies": RECORDS,
    }
    for table, rows in tables.items():
        values = [tuple(row.values()) for row in rows]
        assert writer.insert(table, list(rows[0]), values, f"{table}{make.__name__}") == []
