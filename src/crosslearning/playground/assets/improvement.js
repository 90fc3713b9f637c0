// Policies and what their states are worth, improved in the models: rollouts are imagined, the
// gradient comes back along them, and a regression on the imagined states makes it a natural one.
"use strict";

const Q = 3; // observations of a pendulum: cosine, sine, speed
const MODELS = {
  rollouts: 20, // of every machine in an iteration
  lookAhead: 25,
  discount: 0.985,
  trace: 0.95,
  stepLength: 0.1, // a divergence; it shrinks to nothing by the end of a round
  actionStd: 0.4,
  imaginedStd: 0.5,
  ridge: 1,
  criticRidge: 0.01,
  novelty: 0.02,
  newKnots: 20,
  mostKnots: 90,
  reuse: 3, // iterations whose rollouts the critic learns from
  stride: 13, // neighbours in time are near copies
  radius: 3, // of the policies
};

// Functions of several machines on common knots, with a Gaussian kernel.
class Knots {
  constructor(widths, machines) {
    this.inverse = widths.map((w) => 1 / w);
    this.size = 0;
    this.most = MODELS.mostKnots;
    this.points = new Float64Array(this.most * Q);
    this.policy = machines.map(() => new Float64Array(this.most));
    this.critic = machines.map(() => new Float64Array(this.most));
    this.offsets = machines.map(() => 0);
    // The kernel between knots, and its lower factor.
    this.gram = new Float64Array(this.most * this.most);
    this.lower = new Float64Array(this.most * this.most);
  }

  // Fills out with κ between a state and the knots.
  column(s, out) {
    const [i0, i1, i2] = this.inverse, { points } = this, [s0, s1, s2] = s;
    for (let m = 0, at = 0; m < this.size; m++, at += Q) {
      const a = (points[at] - s0) * i0, b = (points[at + 1] - s1) * i1, c = (points[at + 2] - s2) * i2;
      out[m] = Math.exp(-0.5 * (a * a + b * b + c * c));
    }
    return out;
  }

  // Returns a function's value at a state and fills slope with its gradient.
  evaluate(weights, s, slope) {
    const [i0, i1, i2] = this.inverse, { points } = this, s0 = s[0], s1 = s[1], s2 = s[2];
    let total = 0, g0 = 0, g1 = 0, g2 = 0;
    for (let m = 0, at = 0; m < this.size; m++, at += Q) {
      const a = (points[at] - s0) * i0, b = (points[at + 1] - s1) * i1, c = (points[at + 2] - s2) * i2;
      const part = weights[m] * Math.exp(-0.5 * (a * a + b * b + c * c));
      total += part;
      g0 += part * a;
      g1 += part * b;
      g2 += part * c;
    }
    slope[0] = g0 * i0;
    slope[1] = g1 * i1;
    slope[2] = g2 * i2;
    return total;
  }

  // Takes states in as knots if those so far leave much of their kernel unexplained.
  take(states) {
    const { most, lower, gram } = this, k = new Float64Array(most), z = new Float64Array(most);
    let added = 0;
    for (const s of states) {
      if (this.size === most || added === MODELS.newKnots) return;
      forward(lower, this.size, most, this.column(s, k), z);
      let rest = 1 + 1e-6;
      for (let m = 0; m < this.size; m++) rest -= z[m] * z[m];
      if (rest <= MODELS.novelty) continue;
      const row = this.size * most;
      for (let m = 0; m < this.size; m++) {
        gram[row + m] = gram[m * most + this.size] = k[m];
        lower[row + m] = z[m];
      }
      gram[row + this.size] = 1;
      lower[row + this.size] = Math.sqrt(rest);
      this.points.set(s, this.size * Q);
      this.size += 1;
      added += 1;
    }
  }

  // Keeps Φ, the kernel between a batch's states and the knots, and ΦᵀΦ with the batch, for as long
  // as the knots stay the same.
  features(batch) {
    const m = this.size;
    if (batch.knots === m) return batch;
    const n = batch.returns.length, phi = new Float64Array(n * m), product = new Float64Array(m * m);
    for (let k = 0; k < n; k++) {
      const own = this.column(batch.states.subarray(k * Q, k * Q + Q), phi.subarray(k * m, k * m + m));
      for (let a = 0; a < m; a++) {
        const factor = own[a], row = a * m;
        if (factor < 1e-7) continue;
        for (let b = 0; b <= a; b++) product[row + b] += factor * own[b];
      }
    }
    return Object.assign(batch, { knots: m, phi, product });
  }

  // The weights that fit targets, one array for each batch: (ΦᵀΦ + ρK) α = Φᵀy.
  regression(batches, targets, ridge) {
    const m = this.size, matrix = new Float64Array(m * m), right = new Float64Array(m);
    for (let a = 0; a < m; a++) {
      for (let b = 0; b <= a; b++) matrix[a * m + b] = ridge * (this.gram[a * this.most + b] + (a === b ? 2e-6 : 0));
    }
    batches.forEach((batch, which) => {
      const { phi, product } = this.features(batch), y = targets[which];
      for (let k = 0; k < m * m; k++) matrix[k] += product[k];
      for (let k = 0; k < y.length; k++) for (let a = 0; a < m; a++) right[a] += phi[k * m + a] * y[k];
    });
    if (!factorise(matrix, m)) throw new Error("a regression broke down");
    return solve(matrix, m, right);
  }

  // Pulls the policies together if they are farther from their mean than the radius: the closed
  // form of the relaxed projection.
  project() {
    const N = this.policy.length, m = this.size, mean = new Float64Array(m);
    for (const own of this.policy) for (let a = 0; a < m; a++) mean[a] += own[a] / N;
    let total = 0;
    for (const own of this.policy) {
      for (let a = 0; a < m; a++) {
        for (let b = 0; b < m; b++) total += (own[a] - mean[a]) * this.gram[a * this.most + b] * (own[b] - mean[b]);
      }
    }
    const share = Math.min(1, (Math.sqrt(N) * MODELS.radius) / Math.sqrt(Math.max(total, 1e-300)));
    if (share < 1) for (const own of this.policy) for (let a = 0; a < m; a++) own[a] = mean[a] + share * (own[a] - mean[a]);
  }
}

// Imagines one rollout of a machine in its model, and goes back along it: fills states, ∂Q/∂a and
// λ-returns of every step.
function imagine(knots, models, machine, start, normal, out, at) {
  const { lookAhead: H, discount, trace, imaginedStd } = MODELS, { limits } = models;
  const states = [start], actions = [], slopes = [], policySlopes = [], rewards = [], raw = [];
  const found = new Float64Array(Q + 1);
  for (let t = 0; t < H; t++) {
    const s = states[t], policySlope = new Float64Array(Q), jacobian = new Float64Array((Q + 1) * (Q + 1));
    const action = knots.evaluate(knots.policy[machine], s, policySlope) + imaginedStd * normal();
    const used = action < -1 ? -1 : action > 1 ? 1 : action;
    predict(models, machine, [s[0], s[1], s[2], used], found, jacobian);
    const after = new Float64Array(Q);
    for (let j = 0; j < Q; j++) after[j] = Math.min(Math.max(s[j] + found[j], limits[j][0]), limits[j][1]);
    states.push(after);
    actions.push(action);
    slopes.push(jacobian);
    policySlopes.push(policySlope);
    raw.push(found[Q]);
    rewards.push(Math.min(Math.max(found[Q], limits[Q][0]), limits[Q][1]));
  }
  const slope = new Float64Array(Q), pull = new Float64Array(Q + 1);
  let back = new Float64Array(Q), later = 0;
  for (let t = H - 1; t >= 0; t--) {
    const after = states[t + 1], share = t < H - 1 ? trace : 0;
    let worth = knots.evaluate(knots.critic[machine], after, slope) + knots.offsets[machine];
    worth = (1 - share) * worth + share * later;
    for (let j = 0; j < Q; j++) {
      const inside = after[j] > limits[j][0] && after[j] < limits[j][1];
      pull[j] = inside ? discount * ((1 - share) * slope[j] + share * back[j]) : 0;
    }
    pull[Q] = raw[t] > limits[Q][0] && raw[t] < limits[Q][1] ? 1 : 0;
    const jacobian = slopes[t], both = new Float64Array(Q + 1);
    for (let o = 0; o <= Q; o++) for (let j = 0; j <= Q; j++) both[j] += pull[o] * jacobian[o * (Q + 1) + j];
    const wish = both[Q], action = actions[t], clippedAction = action >= 1 || action <= -1;
    const outward = (action >= 1 && wish > 0) || (action <= -1 && wish < 0);
    const wanted = clippedAction ? 0 : wish;
    back = new Float64Array(Q);
    for (let j = 0; j < Q; j++) back[j] = both[j] + pull[j] + wanted * policySlopes[t][j];
    later = rewards[t] + discount * worth;
    out.states.set(states[t], (at + t) * Q);
    out.wishes[at + t] = outward ? 0 : wish;
    out.returns[at + t] = later;
  }
}

// One iteration: imagine, learn what states are worth, and step along the natural gradient.
function improve(knots, models, visited, past, progress, uniform, normal) {
  const { rollouts, lookAhead, stride, ridge, criticRidge, reuse } = MODELS, n = rollouts * lookAhead;
  const batch = knots.policy.map((_, machine) => {
    const out = { states: new Float64Array(n * Q), wishes: new Float64Array(n), returns: new Float64Array(n) };
    for (let r = 0; r < rollouts; r++) {
      imagine(knots, models, machine, visited[Math.floor(uniform() * visited.length)], normal, out, r * lookAhead);
    }
    return out;
  });
  const looked = [];
  for (const { states } of batch) for (let k = 0; k < n; k += stride) looked.push(states.slice(k * Q, k * Q + Q));
  knots.take(looked);
  past.unshift(batch);
  past.length = Math.min(past.length, reuse);
  batch.forEach(({ wishes }, machine) => {
    const recent = past.map((one) => one[machine]);
    const mean = recent.reduce((sum, { returns }) => sum + average(returns), 0) / recent.length;
    const worth = recent.map(({ returns }) => returns.map((value) => value - mean));
    knots.critic[machine].set(knots.regression(recent, worth, criticRidge));
    knots.offsets[machine] = mean;
    const newest = recent[0], unit = deviation(wishes, average(wishes)) || 1;
    const direction = knots.regression([newest], [wishes.map((v) => v / unit)], ridge);
    let squares = 0;
    for (let k = 0; k < n; k++) {
      let value = 0;
      for (let m = 0; m < knots.size; m++) value += newest.phi[k * knots.size + m] * direction[m];
      squares += (value * value) / n;
    }
    const divergence = (0.5 * squares) / MODELS.actionStd ** 2;
    if (!(divergence > 0)) return;
    const length = Math.sqrt((MODELS.stepLength * (1 - progress) ** 2) / divergence);
    for (let m = 0; m < knots.size; m++) knots.policy[machine][m] += length * direction[m];
  });
  knots.project();
}
