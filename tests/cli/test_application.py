"""What commands share."""

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
