"""What did not work, as one line for the person at the terminal."""

from __future__ import annotations


class DemoFailed(Exception):
    """The demo cannot go on: one line that says what, and what to do."""
