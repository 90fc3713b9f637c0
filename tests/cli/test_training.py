"""What the commands that make runs say, and what ``info`` shows of them."""

import pytest
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning.cli.output import kernel_in_words
from crosslearning.rkhs import (
    Gaussian,
    Laplacian,
    Linear,
    Matern32,
    PairKernel,
    Polynomial,
    Product,
)

runner = CliRunner()
TASKS = ["--tasks", "linear-quadratic", "--max-knots", "20"]


def invoke(*arguments):
    """Run a command, and return what it printed, as one line."""
    result = runner.invoke(cli.app, [str(one) for one in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Gaussian(std=[1.0, 2.5]), "gaussian; widths (standard deviations) 1, 2.5"),
        (
            Gaussian(covariance=[[4.0, 0.5], [0.5, 2.0]]),
            "gaussian; widths (standard deviations) 2, 1.414; correlated",
        ),
        (
            Matern32(std=[1.0, 2.0], periodic=[0], logarithmic={1: 0.1}),
            "matern32; widths (standard deviations) 1, 2; coordinate 0 periodic, period 6.283; "
            "coordinate 1 logarithmic, size 0.1",
        ),
        (Polynomial([1.0, 2.0], 2), "polynomial; widths (standard deviations) 1, 2; degree 2; "),
        (
            Product((Laplacian(std=[1.0]), [0]), (Linear([2.0]), [1])),
            "laplacian; widths (standard deviations) 1 of coordinates [0] times linear; ",
        ),
        (PairKernel(lambda x, y: x[0] * y[0], 1, "mine"), "pair; label mine; dimension 1"),
    ],
)
def test_kernels_are_shown_by_their_widths(kernel, words):
    assert kernel_in_words(kernel.to_dict()).startswith(words)


def test_info_shows_widths(tmp_path):
    invoke("train", "--out", tmp_path / "run", *TASKS, "--iterations", 2)
    shown = invoke("info", tmp_path / "run")
    assert "widths (standard" in shown
    assert "covariance" not in shown
