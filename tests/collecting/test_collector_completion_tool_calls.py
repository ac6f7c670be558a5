"""Tool calls come together whatever an engine does with index, id, name and arguments."""

import time

import pytest
from collecting.answers import DONE, delta, finish, streamed

from collector.completion.model import ToolCall
from collector.completion.tool_calls import ToolCalls


def joined(*deltas):
    calls = ToolCalls()
    for each in deltas:
        calls.add(each)
    return calls.freeze()


def call(arguments=None, name=None, index=None, id=None):  # noqa: A002 - the wire's word
    function = {
        key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None
    }
    head = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**head, "function": function}


PARIS, ROME = '{"city": "Paris"}', '{"city": "Rome"}'
BOTH = (ToolCall("a", "weather", PARIS), ToolCall("b", "weather", ROME))


@pytest.mark.parametrize("at", range(len(PARIS) + 1))
def test_arguments_cut_anywhere(at):
    """F8: one call's arguments in two pieces."""
    first = call(PARIS[:at], "weather", 0, "a")
    assert joined(first, call(PARIS[at:], index=0)) == BOTH[:1]


def test_byte_by_byte_and_interleaved():
    """F8: two parallel calls whose arguments come a character at a time, in turns."""
    pieces = [call("", "weather", 0, "a"), call("", "weather", 1, "b")]
    for n in range(max(len(PARIS), len(ROME))):
        pieces += [call(PARIS[n : n + 1], index=0), call(ROME[n : n + 1], index=1)]
    assert joined(*pieces) == BOTH


@pytest.mark.parametrize(
    "deltas",
    [
        # index 0 for both, ids apart
        [call(PARIS, "weather", 0, "a"), call("", "weather", 0, "b"), call(ROME, index=0)],
        # no index: the id says which
        [call(PARIS, "weather", id="a"), call(ROME[:5], "weather", id="b"), call(ROME[5:], id="b")],
        # no index, and continued without an id
        [call(PARIS, "weather", id="a"), call(None, "weather", id="b"), call(ROME)],
        # id and name on every delta
        [call(PARIS[:4], "weather", 0, "a"), call(PARIS[4:], "weather", 0, "a"), call(ROME, "weather", 1, "b")],
        # an empty id on continuations
        [call(PARIS[:4], "weather", 0, "a"), call(PARIS[4:], None, 0, ""), call(ROME, "weather", 1, "b")],
    ],
)  # fmt: skip
def test_two_calls(deltas):
    """F8, lmdeploy#3412: index missing or always 0, ids repeated or left out."""
    assert joined(*deltas) == BOTH


def test_two_calls_without_id_or_useful_index():
    """A name said again after complete arguments begins another call; before that it is repeated."""
    got = joined(
        call(PARIS[:6], "weather", 0), call(PARIS[6:], "weather", 0), call(ROME, "weather", 0)
    )
    assert [(each.name, each.arguments) for each in got] == [("weather", PARIS), ("weather", ROME)]


def test_the_same_id_at_two_indices_is_two_calls():
    """Ids repeated: the index decides."""
    got = joined(call(PARIS, "weather", 0, "x"), call(ROME, "weather", 1, "x"))
    assert [each.arguments for each in got] == [PARIS, ROME]


def test_null_and_structured_arguments():
    """Arguments null, absent, or an object in place of its text."""
    assert joined(call(None, "now", 0, "a")) == (ToolCall("a", "now", ""),)
    assert (
        joined({"index": 0, "id": "a", "function": {"name": "f", "arguments": None}})[0].arguments
        == ""
    )
    assert (
        joined({"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": "é"}}})[
            0
        ].arguments
        == '{"x":"é"}'
    )


def test_a_name_in_pieces():
    """Pieces of a name are joined while the call has no arguments."""
    assert joined(call(None, "get_", 0, "a"), call(None, "weather", 0))[0].name == "get_weather"


@pytest.mark.parametrize(
    "odd", [None, 5, "x", [], {"function": []}, {"index": [], "id": {}, "function": {"name": 1}}]
)
def test_deltas_of_any_shape(odd):
    """Whatever stands in the list, nothing raises."""
    joined(odd, call(PARIS, "weather", 0, "a"), odd)


def test_a_flood_of_braces_takes_linear_time():
    """A call without ids that names itself on each of 20,000 deltas is not parsed 20,000 times."""
    begin = time.process_time()
    joined(*(call('{"a":1}', "f", 0) if n == 0 else call("[}", "f", 0) for n in range(20_000)))
    assert time.process_time() - begin < 5.0


def test_a_call_is_a_token_event():
    """A name or arguments are text; an empty delta is none."""
    done = streamed(
        delta(role="assistant", content=None), delta(tool_calls=[call("", "f", 0, "a")]), delta(tool_calls=[call("", index=0)]),
        delta(tool_calls=[call("{}", index=0)]), finish("tool_calls"), DONE,
    )  # fmt: skip
    assert done.timeline.token_ns == (20_000_000, 40_000_000)
    assert done.timeline.answer_ns == 20_000_000
