"""A subject is a person's pseudonym: the same for the same value and salt, and nothing else."""

import hashlib
import hmac

import pytest
from pydantic import ValidationError

from shadow.capture.subject import subject_in, subject_of
from shadow.config.subject import Subject

SALT = "0123456789abcdef"


def test_it_is_hmac_sha256_cut_to_128_bits():
    """So that whoever has the salt can reckon it elsewhere; white space around the value is none of it."""
    whole = hmac.new(SALT.encode(), "jörg".encode(), hashlib.sha256).hexdigest()
    assert subject_of("jörg".encode(), SALT) == whole[:32]
    assert subject_of(b" \tj\xc3\xb6rg ", SALT) == whole[:32]
    assert subject_of(b"j", SALT) != subject_of(b"j", SALT + "x")


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        ([b"Host: x", b"X-User-Id:  u1 "], b"u1"),
        ([b"x-user-id: u1", b"X-USER-ID: u2"], b"u1"),
        ([b"x-user-id:", b"x-user-id: u2"], b"u2"),
        ([b"x-user-idx: u1", b"x-user: x-user-id: u2"], None),
        ([], None),
    ],
)
def test_the_first_field_of_that_name_with_a_value_says_it(lines, value):
    """Whatever its spelling; without one there is no subject."""
    wanted = None if value is None else subject_of(value, SALT)
    assert subject_in(lines, b"x-user-id", SALT) == wanted


def test_the_configuration_is_checked():
    """A header's name, in small letters; a salt that cannot be guessed."""
    assert Subject(header="X-Tenant", salt=SALT).header == "x-tenant"
    for wrong in ({"header": "a b", "salt": SALT}, {"salt": "short"}, {"header": "x"}):
        with pytest.raises(ValidationError):
            Subject.model_validate(wrong)
