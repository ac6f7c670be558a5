"""An independent, slow and simple reader of captures; it imports nothing of ours."""

import json

KINDS = ("/chat/completions", "/completions", "/responses", "/messages")
ENDS = ("[DONE]", "response.completed", "response.incomplete", "message_stop")


def read(capture):
    """Outcome, texts, finish reasons, the tokens that usage counts, times of events in ms."""
    response, path = capture["response"], capture["request"]["path"]
    if not path.endswith(KINDS):
        return {"outcome": "not_a_completion"}
    if response["status"] >= 400:
        return {"outcome": "http_error"}
    got = {
        "texts": {},
        "finish": {},
        "tokens": None,
        "data_ms": [],
        "token_ms": [],
        "outcome": None,
    }
    fields = {name.lower(): value for name, value in response["headers"]}
    if "event-stream" not in fields["content-type"]:
        take(json.loads(response["body"]), got)
        return {**got, "outcome": got["outcome"] or "complete"}
    place = 0
    for block in response["body"].split("\n\n")[:-1]:
        place += len((block + "\n\n").encode())
        data = "\n".join(line[5:].strip() for line in block.split("\n") if line.startswith("data:"))
        if not data:
            continue
        got["data_ms"].append(next(ms for ms, end in response["marks_ms_end"] if end >= place))
        word = data if data == "[DONE]" else json.loads(data).get("type")
        if word != data and take(json.loads(data), got):
            got["token_ms"].append(got["data_ms"][-1])
        ends = word in ENDS and (word != data or path.endswith("/completions"))
        got["outcome"] = got["outcome"] or ("complete" if ends else None)
    cut = "no_terminal_event" if response["framing_complete"] else "client_disconnected"
    return {**got, "outcome": got["outcome"] or cut}


def take(chunk, got):
    """Take one event or document; whether it carried text."""
    if chunk.get("error"):
        got["outcome"] = "in_band_error"
    inner = chunk.get("response") or chunk.get("message") or chunk
    usage = chunk.get("usage") or inner.get("usage") or {}
    got["tokens"] = usage.get("completion_tokens", usage.get("output_tokens", got["tokens"]))
    pieces = list(map(of_choice, chunk.get("choices", [])))
    if chunk.get("type") in ("response.output_text.delta", "content_block_delta"):
        delta = chunk["delta"]
        pieces.append((0, delta if isinstance(delta, str) else delta.get("text"), None))
    if chunk.get("type") == "message_delta":
        pieces.append((0, "", chunk["delta"]["stop_reason"]))
    for part in chunk.get("content") or [
        p for o in chunk.get("output") or [] for p in o["content"]
    ]:
        why = chunk.get("stop_reason") or (chunk.get("incomplete_details") or {}).get("reason")
        pieces.append((0, part["text"], why))
    for index, text, finish in pieces:
        got["texts"][index] = got["texts"].get(index, "") + (text or "")
        got["finish"] |= {index: finish} if finish else {}
    return any(text for _, text, _ in pieces)


def of_choice(choice):
    """Index, text and finish reason of a choice of any OpenAI kind."""
    said = choice.get("delta") or choice.get("message") or {}
    return choice["index"], choice.get("text") or said.get("content"), choice.get("finish_reason")
