"""λ-returns against their definition, and what a cut-off episode is worth."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.learner.critic import fill_lambda_returns, lambda_returns


def by_definition(rewards, values, last, discount, trace):
    """The mean of all l-step returns with weights (1 − λ) λ^(l−1), the longest taking the rest."""
    n = len(rewards)
    after = np.append(values[1:], last)
    result = np.empty(n)
    for t in range(n):
        total = 0.0
        for steps in range(1, n - t + 1):
            paid = sum(discount**k * rewards[t + k] for k in range(steps))
            value = paid + discount**steps * after[t + steps - 1]
            longest = steps == n - t
            share = trace ** (steps - 1) if longest else (1.0 - trace) * trace ** (steps - 1)
            total += share * value
        result[t] = total
    return result


shares = st.floats(0.0, 1.0)


@given(
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    discount=shares,
    trace=shares,
)
def test_lambda_returns_are_those_of_the_definition(seed, lengths, discount, trace):
    draw, n = np.random.default_rng(seed), sum(lengths)
    rewards, values, last = draw.normal(size=n), draw.normal(size=n), draw.normal(size=len(lengths))
    computed = lambda_returns(rewards, values, np.array(lengths), last, discount, np.full(n, trace))
    ends = np.cumsum(lengths)
    for e, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        own = slice(end - length, end)
        expected = by_definition(rewards[own], values[own], last[e], discount, trace)
        np.testing.assert_allclose(computed[own], expected, rtol=1e-10, atol=1e-12)


def test_the_compiled_body_is_its_python():
    draw = np.random.default_rng(0)
    rewards, values, last = draw.normal(size=9), draw.normal(size=9), draw.normal(size=2)
    lengths, traces, out = np.array([4, 5]), draw.uniform(size=9), np.empty(9)
    fill_lambda_returns.py_func(rewards, values, lengths, last, 0.9, traces, out)
    computed = lambda_returns(rewards, values, lengths, last, 0.9, traces)
    np.testing.assert_allclose(computed, out, rtol=1e-14)


def test_a_perfect_critic_makes_every_trace_the_same():
    # A reward of 1 at every step for ever is worth 10 if γ = 0.9: cut off or not, whatever λ.
    ones, ten = np.ones(6), np.full(6, 10.0)
    for trace in (0.0, 0.5, 1.0):
        cut_off = lambda_returns(ones, ten, np.array([6]), np.array([10.0]), 0.9, np.full(6, trace))
        np.testing.assert_allclose(cut_off, 10.0)
    terminated = lambda_returns(ones, ten, np.array([6]), np.array([0.0]), 0.9, ones)
    np.testing.assert_allclose(terminated, [(1 - 0.9**k) / 0.1 for k in range(6, 0, -1)])
