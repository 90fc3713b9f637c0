"""What commands share."""

import warnings

from crosslearning import cli
from crosslearning.cli import application


def test_compiling_is_announced_until_something_was_compiled(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(application, "__file__", str(tmp_path / "package" / "cli" / "here.py"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    application.announce_compilation()
    assert "First use" in capsys.readouterr().out
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "slots._insert_knots-30.py311.nbi").touch()
    application.announce_compilation()
    assert capsys.readouterr().out == ""


def test_a_warning_is_one_clear_line(monkeypatch, capsys):
    before = warnings.showwarning
    monkeypatch.setattr(
        application, "app", lambda: warnings.warn("the tank is nearly empty", stacklevel=1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        cli.main()
        assert capsys.readouterr().err == "warning: the tank is nearly empty\n"
    assert warnings.showwarning is before
