// Policies as Policy.to_dict() describes them: a weighted sum of kernels on knots.
"use strict";

class Policy {
  constructor({ name, kernel, knots, weights, noise_std, scale, actions }) {
    Object.assign(this, { label: name, knots, noise: noise_std, scale, ends: actions });
    this.weights = Float64Array.from(weights.flat());
    this.column = kernelColumn(kernel, knots);
    this.light = new Float64Array(knots.length);
  }

  // κ between a state and every knot.
  likeness(state) {
    this.column(state, this.light);
    return this.light;
  }

  // h(s), in the policy's own units.
  value(state) {
    const { weights } = this, light = this.likeness(state), found = this.noise.map(() => 0);
    for (let m = 0, at = 0; m < light.length; m++) {
      for (let j = 0; j < found.length; j++, at++) found[j] += light[m] * weights[at];
    }
    return found;
  }

  // The action: in the units of the task, between its ends.
  action(value) {
    const { centre, half } = this.scale, { low, high } = this.ends;
    return value.map((one, j) => {
      const scaled = centre[j] + half[j] * one;
      return Math.min(Math.max(scaled, low[j] ?? -Infinity), high[j] ?? Infinity);
    });
  }
}

// The policies of a family: the central one, the mean of the task policies, then these. Only the
// first tells of kernel and knots, which all share.
function readFamily({ policies, ...rest }) {
  const [central, ...tasks] = policies;
  const mean = central.weights.map((row, m) =>
    row.map((_, j) => tasks.reduce((sum, { weights }) => sum + weights[m][j], 0) / tasks.length));
  const all = [central, { name: "average", weights: mean }, ...tasks];
  return { ...rest, policies: all.map((one) => new Policy({ ...central, ...one })) };
}
