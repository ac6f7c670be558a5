"""From the bytes of an answer to what it said: `read` never raises, and always says how it ended.

`answer` is what goes in, `model` what comes out. `dialects` chooses by the path; one module a
dialect fills a `reading`; `stream` goes through events, `ending` gives the outcome, `counting`
the tokens. The answer's content type decides whether it is read as a stream or as a document.
"""

from collector.completion.answer import Answer
from collector.completion.model import (
    Choice,
    Completion,
    Fault,
    Timeline,
    TokenLogprob,
    Tokens,
    ToolCall,
    Usage,
)
from collector.completion.read import read

__all__ = [
    "Answer",
    "Choice",
    "Completion",
    "Fault",
    "Timeline",
    "TokenLogprob",
    "Tokens",
    "ToolCall",
    "Usage",
    "read",
]
