"""The paper's method: stochastic gradients of Algorithm 1, steps of Algorithm 2."""
