"""When sharing pays: a map over how different machines are, and how many data each has.

``python -m benchmarks.sharing measure [part ...]``, then ``python -m benchmarks.sharing report``;
``--write`` puts the tables and figures into the documentation. Parts: identified (models of carts,
in closed form), carts and pendulums (policies, by the trust region), errors (models of pendulums,
what they tell) and models (policies that were learned in them).

At every point of the map, radii between 0 and ∞ are held against one function for all (0) and one
for each machine (∞), on the same machines, starts and noise: differences are paired by the seed,
which draws the machines, too. Every seed is kept in a file, and the same question is not measured
twice.
"""
