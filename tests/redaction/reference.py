"""Redaction of a body, straightforward: lists of everything, each place found by counting from the
start. What it gives is what `Bodies` has to give, byte for byte.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from shadow.redaction import strings as strings_module
from shadow.redaction.breath import Pace
from shadow.redaction.place import Reader
from shadow.redaction.redactor import _TOKEN_KEYS
from shadow.redaction.rules import TOKENS
from shadow.redaction.sheet import gap, is_events
from shadow.redaction.spelling import _bytes, _spelled, runs
from shadow.redaction.strings import Strings

STRING = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+\\?)"?', re.DOTALL)
LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
FIELD = re.compile(rb"(?:\xef\xbb\xbf)?(data|event|id|retry|): ?")
ODD = re.compile(
    rb"[^\s{}\[\]:,0-9.eE+\-truefalsn]|[0-9]{12}|[0-9]\.[0-9]+\."
    rb"|[0-9][\s+\-]+[0-9]|(?<![eE])\+"
)
JSON_STARTS = (b"{", b"[", b'"')


def changed(raw, changes, *, escaped=True):
    """As `spelling.changed`: every change for every run."""
    out, begin = bytearray(raw), 0
    for text, offset, length in runs(raw, escaped=escaped):
        end = begin + len(text)
        for start, stop, new in changes:
            if start < end and stop > begin:
                low, high = max(start, begin), min(stop, end)
                at, size = offset, length
                if len(text) > 1:
                    at = offset + len(_bytes(text[: low - begin]))
                    size = len(_bytes(text[low - begin : high - begin]))
                said = None if new is None else new[low - start : high - start]
                out[at : at + size] = b" " * size if said is None else _spelled(raw, at, size, said)
        begin = end
    return bytes(out)


def documents(body, begin, end, streamed):
    """[(stretches, is JSON, kind)]."""
    if not streamed:
        return [([(begin, end)], body[begin : begin + 64].lstrip().startswith(JSON_STARTS), "")]
    found, data, rest, at = [], [], [], begin

    def ended():
        start = body[data[0][0] : min(data[0][1], data[0][0] + 64)].lstrip() if data else b"[DONE]"
        if len(data) > 1 or start != b"[DONE]":
            found.append(([*data], start.startswith(JSON_STARTS), "data"))
        data.clear()

    while at < end:
        line = LINE.match(body, at, end)
        (start, stop), at = line.span(1), line.end()
        if start == stop:
            ended()
            continue
        named = FIELD.match(body, start, stop)
        if named is None:
            rest.append((start, stop))
        elif named[1] == b"data":
            data.append((named.end(), stop))
        elif named[1] != b"retry" or not body[named.end() : stop].isdigit():
            found.append(([(named.end(), stop)], False, named[1].decode()))
    ended()
    if rest:
        first = body[rest[0][0] : rest[0][1]].lstrip()
        found.append((rest, first.startswith(JSON_STARTS), "rest"))
    return found


def over(raw, below, above):
    return bytes(b if c == a else c for a, b, c in zip(raw, below, above, strict=True))


def pieces_become(raws, escaped, rule, strings, counts):
    if len(raws) == 1 or (len(raws[0]) > 16 and raws.count(raws[0]) == len(raws)):
        return [strings.become(raws[0], rule, counts, escaped=escaped)] * len(raws)
    mine, at, new = Counter(), 0, []
    whole = strings.become(b"".join(raws), rule, mine, escaped=escaped)
    for raw in raws:
        new.append(whole[at : at + len(raw)])
        at += len(raw)
    if rule is None and strings.any_found(b"\n".join(raws), escaped=escaped):
        alone = Counter()
        each = [strings.become(raw, None, alone, escaped=escaped) for raw in raws]
        new = [over(raw, a, b) for raw, a, b in zip(raws, each, new, strict=True)]
        mine |= alone
    counts.update(mine)
    return new


def between(part, strings, counts):
    new = bytearray(strings.become(part, None, counts, escaped=False))
    for number in re.finditer(rb"-?[0-9]+", part) if new != part else ():
        begin, end = number.span()
        if new[begin:end] != part[begin:end]:
            new[begin:end] = b"9" * (end - begin)
    return bytes(new)


def read(parts, rules, strings, counts):
    """(found strings, place → what a part becomes)."""
    reader = Reader(rules, lambda k: strings.become(k, None, Counter(), escaped=True) == k, Pace())
    changes = {}
    for n in range(0, len(parts), 2):
        new = reader.part(parts[n])
        if ODD.search(parts[n]):
            new = between(new, strings, counts)
        if new != parts[n]:
            changes[n] = new
        if n + 1 < len(parts):
            reader.string(n // 2, parts[n + 1], parts[n + 2].lstrip()[:1] == b":")
    counts.update(reader.counts)
    return [*reader.values.found(), *reader.keys.found()], changes


def write_over(out, body, found, rules, strings, counts):
    texts, changes = {}, defaultdict(dict)
    documents_parts = []
    for number, (stretches, is_json, kind) in enumerate(found):
        raw = b"\n".join(body[begin:end] for begin, end in stretches)
        parts = STRING.split(raw) if is_json else [raw]
        documents_parts.append((raw, parts))
        if not is_json:
            texts.setdefault(("plain", kind), (False, None, []))[2].append((number, 0))
            continue
        values, changes[number] = read(parts, rules, strings, counts)
        for string, channel, rule in values:
            texts.setdefault(channel, (True, rule, []))[2].append((number, 2 * string + 1))
    for escaped, rule, places in texts.values():
        raws = [documents_parts[number][1][at] for number, at in places]
        new = pieces_become(raws, escaped, rule, strings, counts)
        for (number, at), said in zip(places, new, strict=True):
            changes[number][at] = said
    for number, changed_parts in changes.items():
        raw, parts = documents_parts[number]
        new = bytearray(raw)
        for at, said in changed_parts.items():
            begin = sum(map(len, parts[:at])) + at
            new[begin : begin + len(said)] = said
        at = 0
        for begin, end in found[number][0]:
            out[begin:end] = new[at : at + end - begin]
            at += end - begin + 1


def become(body, kind, tail, rules, counts):
    """The body, or None where it cannot be looked through; `counts` as `Redactor.body` has it."""
    mine = Counter()
    try:
        new = _become(body, kind, tail, rules, mine)
        if mine and any(key in new for key in _TOKEN_KEYS):
            new = _become(new, kind, tail, TOKENS, mine)
    except UnicodeError:  # halves of surrogate pairs in strings within strings
        return None
    counts.update(mine)
    return new


def _become(body, kind, tail, rules, counts):
    kept, strings_module.changed = strings_module.changed, changed
    try:
        strings, out = Strings(rules, Pace()), bytearray(body)
        streamed = is_events(kind, body)
        first, last = gap(body, tail, streamed=streamed)
        for begin, end in ((0, first), (last, len(body))):
            if begin < end:
                found = documents(body, begin, end, streamed)
                write_over(out, body, found, rules, strings, counts)
        out[first:last] = b"*" * (last - first)
        return bytes(out)
    finally:
        strings_module.changed = kept
