// Cross-learned models: how each machine moves and pays, all kept near a common one.
//
// The functions of the machines are Gaussian processes of covariance
// s² (c + (1 − c) δ_ij) κ(x, x'), with κ a Gaussian kernel plus v times a linear one. c = 1 is one
// model for all (the radius is 0), c = 0 one for each (it is infinite).
"use strict";

// [centre, spread, low, high] of what is thought before the data, of logarithms and of c's odds.
const BELIEFS = {
  width: [Math.log(1.5), 1.5, Math.log(0.15), Math.log(60)],
  signal: [0, 2, Math.log(0.01), Math.log(1e3)],
  linear: [-1, 2, Math.log(1e-4), Math.log(1e2)],
  alike: [2, 4, -6, 9],
  noise: [Math.log(0.01), 3, Math.log(5e-3), 0],
};
// Of so many points the evidence is asked: a few while it is decided where to climb from.
const FEW_POINTS = 75;
const MANY_POINTS = 120;

// Points of all machines: inputs (n × d), which machine each is of, and targets by output.
class Points {
  constructor(rows) {
    this.n = rows.length;
    this.d = rows[0].x.length;
    this.x = new Float64Array(this.n * this.d);
    rows.forEach(({ x }, k) => this.x.set(x, k * this.d));
    this.task = Int32Array.from(rows, ({ task }) => task);
    this.outputs = rows[0].y.map((_, o) => Float64Array.from(rows, ({ y }) => y[o]));
    this.centre = this.outputs.map(average);
    this.unit = this.outputs.map((y, o) => deviation(y, this.centre[o]) || 1);
    this.targets = this.outputs.map((y, o) => y.map((value) => (value - this.centre[o]) / this.unit[o]));
    this.inputUnit = Array.from({ length: this.d }, (_, j) => {
      const own = Float64Array.from(rows, ({ x }) => x[j]);
      return deviation(own, average(own)) || 1;
    });
  }
}

function average(values) {
  let total = 0;
  for (const value of values) total += value;
  return total / values.length;
}

function deviation(values, centre) {
  let total = 0;
  for (const value of values) total += (value - centre) ** 2;
  return Math.sqrt(total / values.length);
}

// The negative logarithm of one output's evidence, but for a constant, with its gradient.
class Evidence {
  constructor(points, output, chosen, alike) {
    const n = (this.n = chosen.length), { d } = points;
    this.y = Float64Array.from(chosen, (k) => points.targets[output][k]);
    this.same = new Uint8Array(n * n);
    this.products = new Float64Array(n * n);
    this.squares = Array.from({ length: d }, () => new Float64Array(n * n));
    this.alike = alike;
    this.d = d;
    for (let a = 0; a < n; a++) {
      for (let b = 0; b <= a; b++) {
        const [i, j] = [chosen[a], chosen[b]];
        let product = 1;
        for (let k = 0; k < d; k++) {
          const [u, v] = [points.x[i * d + k] / points.inputUnit[k], points.x[j * d + k] / points.inputUnit[k]];
          this.squares[k][a * n + b] = (u - v) ** 2;
          product += u * v;
        }
        this.products[a * n + b] = product;
        this.same[a * n + b] = points.task[i] === points.task[j];
      }
    }
    const { width, signal, linear, noise } = BELIEFS;
    this.beliefs = [...Array(d).fill(width), signal, linear, BELIEFS.alike, noise];
  }

  at(theta) {
    const { n, d, y, same, products, squares } = this, size = n * n;
    const inverseWidths = theta.slice(0, d).map((t) => Math.exp(-2 * t));
    const signal = Math.exp(theta[d]), linear = Math.exp(theta[d + 1]);
    const c = this.alike ?? 1 / (1 + Math.exp(-theta[d + 2])), noise = Math.exp(2 * theta[d + 3]);
    const curved = new Float64Array(size), straight = new Float64Array(size), whole = new Float64Array(size);
    for (let a = 0; a < n; a++) {
      for (let b = 0; b <= a; b++) {
        const k = a * n + b, alike = same[k] ? 1 : c;
        let square = 0;
        for (let j = 0; j < d; j++) square += inverseWidths[j] * squares[j][k];
        curved[k] = signal * alike * Math.exp(-0.5 * square);
        straight[k] = linear * alike * products[k];
        whole[k] = curved[k] + straight[k] + (a === b ? noise : 0);
      }
    }
    if (!factorise(whole, n)) return null;
    const alpha = solve(whole, n, y), back = inverse(whole, n);
    let value = 0;
    for (let a = 0; a < n; a++) value += 0.5 * y[a] * alpha[a] + Math.log(whole[a * n + a]);
    const gradient = new Float64Array(d + 4);
    for (let a = 0; a < n; a++) {
      for (let b = 0; b <= a; b++) {
        const k = a * n + b;
        // ½ tr((C⁻¹ − α αᵀ) dC): pairs off the diagonal count twice.
        const outer = (a === b ? 0.5 : 1) * (back[k] - alpha[a] * alpha[b]);
        const bent = outer * curved[k], flat = outer * straight[k];
        for (let j = 0; j < d; j++) gradient[j] += bent * inverseWidths[j] * squares[j][k];
        gradient[d] += bent;
        gradient[d + 1] += flat;
        if (this.alike == null && !same[k]) gradient[d + 2] += (1 - c) * (bent + flat);
        if (a === b) gradient[d + 3] += 2 * outer * noise;
      }
    }
    this.beliefs.forEach(([centre, spread], j) => {
      const away = (theta[j] - centre) / spread;
      value += 0.5 * away * away;
      gradient[j] += away / spread;
    });
    return { value, gradient };
  }

  // Climbs from a start, each number with a step of its own that grows while its slope keeps its
  // sign (resilient propagation).
  climb(start, rounds) {
    const bounded = (theta) => theta.map((t, j) => Math.min(Math.max(t, this.beliefs[j][2]), this.beliefs[j][3]));
    let theta = bounded(start), best = null;
    const steps = theta.map(() => 0.3);
    let before = theta.map(() => 0);
    for (let round = 0; round < rounds; round++) {
      const found = this.at(theta);
      if (!found) {
        theta = bounded((best || { theta: this.beliefs.map(([centre]) => centre) }).theta);
        steps.forEach((_, j) => { steps[j] *= 0.3; });
        continue;
      }
      if (!best || found.value < best.value) best = { theta, value: found.value };
      const slopes = Array.from(found.gradient);
      theta = bounded(theta.map((t, j) => {
        const turned = slopes[j] * before[j];
        steps[j] = Math.min(Math.max(steps[j] * (turned > 0 ? 1.3 : turned < 0 ? 0.5 : 1), 1e-3), 1);
        if (turned < 0) slopes[j] = 0;
        return t - Math.sign(slopes[j]) * steps[j];
      }));
      before = slopes;
      if (Math.max(...steps) < 4e-3) break;
    }
    return best;
  }
}

// At most so many of the points, evenly over time; those of all machines come in turn.
function some(points, most) {
  const kept = Math.min(most, points.n);
  return Array.from({ length: kept }, (_, k) => Math.floor((k * points.n) / kept));
}

// What the evidence chooses for one output: logarithms of widths, signal, linear part, and noise,
// and the odds of c. The first round climbs from smooth and rough functions, later ones go on.
function mostLikely(points, output, alike, before) {
  const { d } = points, few = new Evidence(points, output, some(points, FEW_POINTS), alike);
  const usual = few.beliefs.map(([centre]) => centre);
  const rough = usual.map((t, j) => (j < d ? Math.log(0.5) : t));
  const noisy = usual.map((t, j) => (j < d ? Math.log(3) : j === d + 3 ? Math.log(0.3) : t));
  const starts = before ? [before, usual] : [usual, rough, noisy];
  const found = starts.map((start) => few.climb(start, 20)).filter(Boolean);
  found.sort((a, b) => a.value - b.value);
  return new Evidence(points, output, some(points, MANY_POINTS), alike).climb(found[0].theta, 20).theta;
}

// The models of all machines for one output: weights by machine on the points, and an affine part.
function fitOutput(points, output, theta, alike, tasks) {
  const { n, d, x, task, inputUnit } = points;
  const widths = inputUnit.map((unit, j) => unit * Math.exp(theta[j]));
  const signal = Math.exp(theta[d]), linear = Math.exp(theta[d + 1]);
  const c = alike ?? 1 / (1 + Math.exp(-theta[d + 2])), noise = Math.exp(2 * theta[d + 3]);
  const matrix = new Float64Array(n * n), kernel = new Float64Array(n * n);
  for (let a = 0; a < n; a++) {
    for (let b = 0; b <= a; b++) {
      let square = 0, product = 1;
      for (let j = 0; j < d; j++) {
        const [u, v] = [x[a * d + j], x[b * d + j]];
        square += ((u - v) / widths[j]) ** 2;
        product += (u / inputUnit[j]) * (v / inputUnit[j]);
      }
      const value = signal * Math.exp(-0.5 * square) + linear * product;
      kernel[a * n + b] = kernel[b * n + a] = value;
      matrix[a * n + b] = (task[a] === task[b] ? 1 : c) * value + (a === b ? noise : 0);
    }
  }
  if (!factorise(matrix, n)) throw new Error("the models could not be fitted");
  const alpha = solve(matrix, n, points.targets[output]), unit = points.unit[output];
  const machines = Array.from({ length: tasks }, (_, i) => {
    const weights = new Float64Array(n), slopes = new Float64Array(d);
    let constant = points.centre[output];
    for (let k = 0; k < n; k++) {
      const share = (task[k] === i ? 1 : c) * alpha[k] * unit;
      weights[k] = signal * share;
      constant += linear * share;
      for (let j = 0; j < d; j++) slopes[j] += (linear * share * x[k * d + j]) / inputUnit[j] ** 2;
    }
    return { weights, slopes, constant };
  });
  return { inverseWidths: widths.map((w) => 1 / w), machines, alike: c };
}

// All outputs. Imagined states stay between the space's bounds and what was seen, with a margin.
function fitModels(rows, alike, tasks, before, bounds) {
  const points = new Points(rows);
  const chosen = points.targets.map((_, o) => mostLikely(points, o, alike, before?.[o]));
  const outputs = chosen.map((theta, o) => fitOutput(points, o, theta, alike, tasks));
  const q = bounds.length, last = points.outputs[q];
  const limits = bounds.map(([low, high], j) => {
    const seen = rows.flatMap(({ x, y }) => [x[j], x[j] + y[j]]);
    const [least, most] = [Math.min(...seen), Math.max(...seen)], margin = 0.1 * (most - least);
    return [Math.max(low, least - margin), Math.min(high, most + margin)];
  });
  limits.push([Math.min(...last), Math.max(...last)]);
  return { points, outputs, chosen, limits };
}

// Fills found[o] with a machine's outputs at x, and slopes[o·d + j] with ∂f_o/∂x_j.
function predict({ points, outputs }, machine, x, found, slopes) {
  const { n, d } = points, rows = points.x;
  for (let o = 0; o < outputs.length; o++) {
    const { inverseWidths: inverse, machines } = outputs[o], { weights, slopes: affine, constant } = machines[machine];
    const [i0, i1, i2, i3] = inverse, [x0, x1, x2, x3] = x;
    let total = 0, g0 = 0, g1 = 0, g2 = 0, g3 = 0;
    for (let k = 0, at = 0; k < n; k++, at += d) {
      const d0 = (rows[at] - x0) * i0, d1 = (rows[at + 1] - x1) * i1;
      const d2 = (rows[at + 2] - x2) * i2, d3 = (rows[at + 3] - x3) * i3;
      const square = d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3;
      if (square > 80) continue;
      const part = weights[k] * Math.exp(-0.5 * square);
      total += part;
      g0 += part * d0;
      g1 += part * d1;
      g2 += part * d2;
      g3 += part * d3;
    }
    const s = o * d;
    slopes[s] = g0 * i0 + affine[0];
    slopes[s + 1] = g1 * i1 + affine[1];
    slopes[s + 2] = g2 * i2 + affine[2];
    slopes[s + 3] = g3 * i3 + affine[3];
    found[o] = total + constant + affine[0] * x0 + affine[1] * x1 + affine[2] * x2 + affine[3] * x3;
  }
}
