"""A setting that cannot be is refused by name; every setting explains itself."""

import dataclasses

import pytest

from shadow.engine_sim.settings import Settings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("differ", 1.5),
        ("fault_reset", -0.1),
        ("ttft_ms", float("nan")),
        ("itl_ms", -1),
        ("tokens", 0),
        ("port", 70000),
        ("slowdown", 0),
        ("dialect", "tgi"),
    ],
)
def test_out_of_range(field, value):
    """One line that begins with the name."""
    with pytest.raises(ValueError, match=f"^{field}: ") as refused:
        Settings(**{field: value})
    assert "\n" not in str(refused.value)


def test_faults_add_up_to_one_at_most():
    """An answer has one fault, so the rates share one unit."""
    assert Settings(fault_reset=0.5, fault_hang=0.5)
    with pytest.raises(ValueError, match="fault_"):
        Settings(fault_reset=0.6, fault_hang=0.5)


def test_every_field_has_a_line_of_help_and_a_place_in_the_readme():
    """The command line and the README are made from the same fields."""
    from pathlib import Path

    readme = (Path(__file__).parents[2] / "shadow/engine_sim/README.md").read_text()
    for field in dataclasses.fields(Settings):
        assert field.metadata["help"].endswith(".")
        assert f"`{field.name}`" in readme
