"""An independent, slow and simple reader of captures; it imports nothing of ours."""

import json

SUFFIXES = {
    "/chat/completions": "chat",
    "/completions": "text",
    "/responses": "responses",
    "/messages": "messages",
}


def read(capture):
    """Outcome, texts, finish reasons, usage's completion tokens, times of events in ms."""
    request, response = capture["request"], capture["response"]
    kind = next((kind for end, kind in SUFFIXES.items() if request["path"].endswith(end)), None)
    body, marks = response["body"], response["marks_ms_end"]
    if kind is None:
        return {"outcome": "not_a_completion"}
    if response["status"] >= 400:
        return {"outcome": "http_error"}
    if "event-stream" not in {k.lower(): v for k, v in response["headers"]}["content-type"]:
        return {**document(kind, json.loads(body)), "outcome": "complete"}
    got = {
        "texts": {},
        "finish": {},
        "tokens": None,
        "data_ms": [],
        "token_ms": [],
        "outcome": "no_terminal_event",
    }
    place = 0
    for block in body.split("\n\n")[:-1]:
        place += len((block + "\n\n").encode())
        data = "\n".join(line[5:].strip() for line in block.split("\n") if line.startswith("data:"))
        if not data:
            continue
        ms = next(ms for ms, end in marks if end >= place)
        got["data_ms"].append(ms)
        if data == "[DONE]":
            if kind in ("chat", "text") and got["outcome"] != "in_band_error":
                got["outcome"] = "complete"
            continue
        if one(kind, json.loads(data), got):
            got["token_ms"].append(ms)
    if got["outcome"] == "no_terminal_event" and not response["framing_complete"]:
        got["outcome"] = "client_disconnected"
    return got


def one(kind, chunk, got):
    """Take one event; whether it carried text."""
    if chunk.get("error"):
        got["outcome"] = "in_band_error"
    counts = chunk.get("usage") or chunk.get("response", {}).get("usage") or {}
    got["tokens"] = counts.get("completion_tokens", counts.get("output_tokens", got["tokens"]))
    if kind == "responses":
        if chunk["type"] in ("response.completed", "response.incomplete"):
            got["outcome"] = "complete"
        piece = chunk["delta"] if chunk["type"] == "response.output_text.delta" else ""
        got["texts"][0] = got["texts"].get(0, "") + piece
        return bool(piece)
    if kind == "messages":
        if chunk["type"] == "message_stop":
            got["outcome"] = "complete"
        if chunk["type"] == "message_delta":
            got["finish"][0] = chunk["delta"]["stop_reason"]
        piece = chunk.get("delta", {}).get("text", "")
        got["texts"][0] = got["texts"].get(0, "") + piece
        return bool(piece)
    carried = False
    for choice in chunk.get("choices", []):
        piece = (choice["text"] if kind == "text" else choice["delta"].get("content")) or ""
        got["texts"][choice["index"]] = got["texts"].get(choice["index"], "") + piece
        if choice.get("finish_reason"):
            got["finish"][choice["index"]] = choice["finish_reason"]
        carried = carried or bool(piece)
    return carried


def document(kind, answer):
    """A whole answer."""
    usage = answer["usage"]
    if kind == "responses":
        text = "".join(part["text"] for item in answer["output"] for part in item["content"])
        return {
            "texts": {0: text},
            "tokens": usage["output_tokens"],
            "finish": {0: answer["incomplete_details"]["reason"]},
        }
    choices = {choice["index"]: choice for choice in answer["choices"]}
    texts = {
        at: (each["text"] if kind == "text" else each["message"]["content"]) or ""
        for at, each in choices.items()
    }
    return {
        "texts": texts,
        "tokens": usage["completion_tokens"],
        "finish": {at: each["finish_reason"] for at, each in choices.items()},
    }
