"""The configuration's words: mistakes are named, and without them nothing of redaction is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from shadow.config.redaction import Redaction
from shadow.redaction import veil_of


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"action": "hash"}, "salt: hash needs one of 16 characters"),
        ({"paths": [{"path": "a", "action": "hash"}], "salt": "short"}, "salt: hash needs"),
        ({"paths": [{"path": "a[x]"}]}, "no path such as"),
        ({"paths": [{"path": ""}]}, "no path such as"),
        ({"patterns": [{"name": "a", "regex": "("}]}, "no regular expression"),
        ({"patterns": [{"name": "a", "regex": "(" * 3000 + ")" * 3000}]}, "nested too deeply"),
        ({"patterns": [{"name": "email", "regex": "a"}]}, "a name of its own"),
        ({"patterns": [{"name": "a", "regex": "a"}, {"name": "a", "regex": "b"}]}, "a name of its own"),
        ({"phone_regions": ["XX"]}, "'XX' is no region"),
        ({"detectors": ["names"]}, "email"),
        ({"unknown": 1}, "Extra inputs"),
    ],
)  # fmt: skip
def test_mistakes(said, why):
    with pytest.raises(ValidationError, match=why):
        Redaction(**said)


def test_without_configuration_nothing_is_loaded():
    """A proxy that redacts nothing has none of the libraries."""
    assert veil_of(None, lambda: False) is None
    code = (
        "import sys, shadow.proxy, shadow.config;"
        "print([m for m in ('regex', 'phonenumbers', 'stdnum', 'shadow.redaction.redactor', 'collector') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
