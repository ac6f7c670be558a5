"""A demo clears what a demo made, and nothing else."""

import pytest

from shadow.demo.failure import DemoFailed
from shadow.demo.folder import own


def make(folder):
    """A run that wrote nothing and has ended."""
    with own(folder) as made:
        return made


def test_a_new_run_clears_its_own_folder(tmp_path):
    """The previous run's files, folders and links go; what a link points to stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    made = make(tmp_path / "deep/demo")
    (made / "report.md").write_text("old")
    (made / "data/store").mkdir(parents=True)
    (made / "link").symlink_to(outside)
    again = make(tmp_path / "deep/demo")
    assert sorted(p.name for p in again.iterdir()) == [".made-by-shadow-demo", "logs"]
    assert (outside / "kept").exists()


def test_anything_else_is_left_alone(tmp_path):
    """A folder that no demo made is refused in one line, and not a file in it is touched."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DemoFailed, match="was not made by a demo"):
        make(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_an_empty_folder_will_do(tmp_path):
    """It need not be new."""
    assert make(tmp_path) == tmp_path


def test_a_file_in_its_place(tmp_path):
    """One line, not a traceback."""
    (tmp_path / "demo").touch()
    with pytest.raises(DemoFailed, match="cannot write"):
        make(tmp_path / "demo")


def test_a_running_demo_keeps_its_folder(tmp_path):
    """A second one beside it is refused, and clears nothing; after the end it may."""
    with own(tmp_path / "demo") as running:
        (running / "report.md").touch()
        with pytest.raises(
            DemoFailed, match="has this demo already; stop it, or use another folder"
        ):
            make(tmp_path / "demo")
        assert (running / "report.md").exists()
    assert not (make(tmp_path / "demo") / "report.md").exists()
