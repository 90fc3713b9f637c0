"""Policies pruned to a budget: it is kept, and no action changes by more than is certified."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from crosslearning import Policy
from crosslearning._base.files import read_document
from crosslearning.cli import app
from crosslearning.errors import InputError
from crosslearning.export import export_policy
from crosslearning.export.budget import prune_to_budget, table_bytes
from crosslearning.export.states import expected_actions, states_for
from crosslearning.rkhs import Gaussian, Polynomial
from tests.export.examples import CONTROLLERS, PLAIN, controller_of, policy_of
from tests.export.test_export import cancelling, schema
from tests.export.test_loop import EVERYTHING

pytestmark = pytest.mark.filterwarnings("ignore:the controller asks for the action")


@settings(max_examples=15, deadline=None)
@given(name=st.sampled_from(sorted(PLAIN)), cap=st.integers(1, 19))
def test_no_action_changes_by_more_than_is_certified(name, cap):
    policy = policy_of(PLAIN[name], spread=0.5)
    pruned, pruning = prune_to_budget(policy, cap, None, "double")
    assert (pruning.knots_before, pruning.knots) == (20, len(pruned.plain.knots))
    assert pruning.knots <= cap
    assert np.all(np.isfinite(pruning.largest_possible))
    states = states_for(policy)
    change = np.abs(expected_actions(pruned, states) - expected_actions(policy, states))
    assert np.all(change.max(axis=0) <= pruning.largest_possible * (1.0 + 1e-9) + 1e-9)
    np.testing.assert_array_equal(pruning.largest_seen, change.max(axis=0))


def test_the_bound_is_not_idle_and_falls_with_the_knots():
    policy = policy_of(Gaussian(std=np.full(3, 2.0)), knots=30)
    policy.actions = type(policy.actions)(
        np.full(2, -np.inf), np.full(2, np.inf), policy.actions.names
    )
    states, bounds = states_for(policy), []
    for cap in (3, 10, 20, 29):
        pruned, pruning = prune_to_budget(policy, cap, None, "double")
        change = np.abs(expected_actions(pruned, states) - expected_actions(policy, states))
        assert np.all(change.max(axis=0) <= pruning.largest_possible)
        assert np.any(change.max(axis=0) > 0.05 * pruning.largest_possible)
        bounds.append(pruning.largest_possible[0])
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("precision", ["double", "float"])
def test_bytes_are_those_of_the_tables(precision):
    policy = policy_of()  # three features and two actions
    one = 5 * (8 if precision == "double" else 4)
    assert table_bytes(policy, precision) == (20 * one, one)
    for room, knots in ((20 * one, 20), (20 * one - 1, 19), (one, 1)):
        pruned, _ = prune_to_budget(policy, None, room, precision)
        assert len(pruned.plain.knots) == knots
    with pytest.raises(InputError, match=f"one knot takes {one} bytes .* give at least {one}"):
        prune_to_budget(policy, None, one - 1, precision)
    # Both budgets hold.
    assert len(prune_to_budget(policy, 5, 7 * one, precision)[0].plain.knots) == 5
    assert len(prune_to_budget(policy, 9, 7 * one, precision)[0].plain.knots) == 7


def test_a_policy_within_the_budget_is_left_as_it_is(tmp_path):
    policy = policy_of()
    assert prune_to_budget(policy, 20, None, "double") == (policy, None)
    made = export_policy(policy, "json", tmp_path / "policy", max_knots=50, max_bytes=10_000)
    assert made.pruning is None
    assert "pruning" not in read_document(made.files[-1], "contract", 1)


@pytest.mark.parametrize("target", ["json", "st"])
def test_the_contract_and_the_export_are_of_the_pruned_policy(target, tmp_path):
    policy = policy_of()
    whole = export_policy(policy, "json", tmp_path / "whole")
    made = export_policy(policy, target, tmp_path / "policy", max_knots=8)
    assert made.agreement.share < 1e-9
    schema("contract").validate(json.loads(made.files[-1].read_text()))
    contract = read_document(made.files[-1], "contract", 1)
    assert contract["knots"] == made.pruning.knots == 8
    before = read_document(whole.files[-1], "contract", 1)["policy_sha256"]
    assert contract["pruning"] == {
        "knots_before": 20,
        "distance": made.pruning.distance,
        "largest_possible": made.pruning.largest_possible.tolist(),
        "largest_seen": made.pruning.largest_seen.tolist(),
        "policy_sha256": before,
    }
    assert contract["policy_sha256"] != before
    if target == "st":
        assert "knots : ARRAY[0..23] OF LREAL" in made.files[0].read_text()
    else:
        assert len(Policy.load(made.files[0]).plain.knots) == 8


def test_a_controller_keeps_its_loop_and_its_bound(tmp_path):
    controller = controller_of(CONTROLLERS["policy"], bound=0.3, **EVERYTHING)
    pruned, pruning = prune_to_budget(controller, 6, None, "double")
    assert pruned.loop.spec is controller.loop.spec
    np.testing.assert_allclose(pruned.change, controller.change, rtol=1e-9)
    assert np.all(pruning.largest_possible < 2.0 * controller.change)
    # The knots of the policy inside count, but stay.
    used, one = table_bytes(controller, "double")
    assert used == 15 * one + 9 * 5 * 8
    assert len(prune_to_budget(controller, None, used - one, "double")[0].policy.plain.knots) == 14
    with pytest.raises(InputError, match="and the controller inside 360; give at least"):
        prune_to_budget(controller, None, 360, "double")
    made = export_policy(controller, "st", tmp_path / "policy", max_knots=6)
    assert (made.pruning.knots, made.agreement.share < 1e-9) == (6, True)


def test_where_floats_are_not_enough_doubles_get_half_the_knots(tmp_path):
    policy = cancelling()
    made = export_policy(policy, "st", tmp_path / "policy", "float", max_bytes=40 * 20 - 1)
    one = 8 if made.arithmetic == "double" else 4
    assert made.pruning.knots * 5 * one <= 40 * 20 - 1


def test_without_an_end_there_is_no_bound(tmp_path):
    policy = policy_of(Polynomial(std=np.ones(3), degree=2, bias=1.0), outputs=1)
    infinite = np.full(3, np.inf)
    names = policy.observations.names
    policy.observations = type(policy.observations)(-infinite, infinite, names)
    made = export_policy(policy, "json", tmp_path / "policy", max_knots=5)
    assert made.pruning.largest_possible.tolist() == [np.inf]
    contract = json.loads(made.files[-1].read_text())
    schema("contract").validate(contract)
    assert contract["pruning"]["largest_possible"] == [None]


@pytest.mark.parametrize("given", [{"max_knots": 0}, {"max_bytes": -3}, {"max_knots": 2.5}])
def test_budgets_that_are_none_are_refused(given, tmp_path):
    with pytest.raises(InputError, match="give a whole number of at least 1"):
        export_policy(policy_of(), "json", tmp_path / "policy", **given)
    assert list(tmp_path.iterdir()) == []


def test_the_command_tells_what_it_costs(tmp_path):
    file, out = tmp_path / "policy.json", tmp_path / "small.st"
    policy_of().save(file)
    names = ["--actions", "push [N], turn", "--max-knots", "8", "--precision", "float"]
    result = CliRunner().invoke(app, ["export", str(file), "--to", "st", "--out", str(out), *names])
    assert result.exit_code == 0, result.output
    assert "The some policy, 8 knots, float precision, as st:" in result.output
    assert "Pruned from 20 knots, by " in result.output
    assert " N, " in result.output.split("no action changes by more than ")[1]
    pruning = read_document(tmp_path / "small.st.contract.json", "contract", 1)["pruning"]
    assert f"by {pruning['distance']:.3g} in the RKHS" in result.output
    assert f"nor by more than {pruning['largest_seen'][0]:.3g} N, " in result.output
    assert "a whole range and tells nothing: evaluate" in result.output  # it is a narrow one
