"""The list of wrong changes: each can still be made, and names tests that are there."""

import pytest
from benchmarks.mutants import ROOT, Mutant, mutants


@pytest.mark.parametrize("mutant", mutants(), ids=lambda one: one.name)
def test_every_change_can_be_made(mutant):
    text = mutant.place(ROOT / "src").read_text(encoding="utf-8")
    assert mutant.old != mutant.new
    assert mutant.old in text
    assert mutant.why
    assert mutant.tests
    for test in mutant.tests:
        assert (ROOT / test).exists()


def test_a_text_that_does_not_stand_once_is_told(tmp_path):
    (tmp_path / "one.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match="stands 2 times"):
        Mutant("twice", "x = 1", "x = 2", "", []).place(tmp_path)
    with pytest.raises(ValueError, match="stands 0 times"):
        Mutant("never", "y = 1", "y = 2", "", []).place(tmp_path)
