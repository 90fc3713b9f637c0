"""Trust regions: whole episodes, a kernel critic, natural gradients, steps of a given length."""
