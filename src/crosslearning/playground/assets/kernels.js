// Kernels and the functions that are sums of them, as crosslearning.rkhs computes them.
"use strict";

// Returns a function (state, out) that fills out[m] with κ(state, knot m). A kernel is described
// as Kernel.to_dict() describes it; knots are arrays of numbers.
function kernelColumn(description, knots) {
  const make = KERNELS[description.kernel];
  if (!make) throw new Error(`this page knows no kernel '${description.kernel}'`);
  return make(description, knots);
}

// Profiles turn squared distances, in place, into values of the kernel.
const KERNELS = {
  gaussian: (kernel, knots) =>
    stationary(kernel, knots, (values) => {
      for (let m = 0; m < values.length; m++) values[m] = Math.exp(-0.5 * values[m]);
    }),
  matern32: (kernel, knots) =>
    stationary(kernel, knots, (values) => {
      for (let m = 0; m < values.length; m++) {
        const r = Math.sqrt(3 * values[m]);
        values[m] = (1 + r) * Math.exp(-r);
      }
    }),
  matern52: (kernel, knots) =>
    stationary(kernel, knots, (values) => {
      for (let m = 0; m < values.length; m++) {
        const r = Math.sqrt(5 * values[m]);
        values[m] = (1 + r + (r * r) / 3) * Math.exp(-r);
      }
    }),
  laplacian: ({ std }, knots) => (state, out) => {
    for (let m = 0; m < knots.length; m++) {
      let total = 0;
      for (let d = 0; d < std.length; d++) total += Math.abs(knots[m][d] - state[d]) / std[d];
      out[m] = Math.exp(-total);
    }
  },
  polynomial: ({ std, degree, bias }, knots) => (state, out) => {
    for (let m = 0; m < knots.length; m++) {
      let base = bias;
      for (let d = 0; d < std.length; d++) base += (knots[m][d] / std[d]) * (state[d] / std[d]);
      out[m] = base ** degree;
    }
  },
  linear: (kernel, knots) => KERNELS.polynomial({ ...kernel, degree: 1 }, knots),
  product: ({ parts }, knots) => composed(parts, knots, 1, (total, value) => total * value),
  sum: ({ parts, scales }, knots) =>
    composed(parts, knots, 0, (total, value, part) => total + scales[part] * value),
};

// A function of the squared distance between embedded points: coordinates over their widths, an
// angle as a point on a circle, a logarithmic coordinate by its asinh.
function stationary({ covariance, periodic = [], logarithmic = [] }, knots, profile) {
  const periods = new Map(periodic), sizes = new Map(logarithmic);
  const plain = covariance.map((_, d) => d).filter((d) => !periods.has(d));
  const whitening = inverseCholesky(plain.map((d) => plain.map((e) => covariance[d][e])));
  const turns = [...periods].map(([d, period]) => {
    const frequency = (2 * Math.PI) / period;
    return { d, frequency, scale: 1 / (frequency * Math.sqrt(covariance[d][d])) };
  });
  const features = plain.length + 2 * turns.length;
  const shown = new Float64Array(plain.length);

  function embed(state, out) {
    plain.forEach((d, i) => {
      const size = sizes.get(d);
      shown[i] = size === undefined ? state[d] : size * Math.asinh(state[d] / size);
    });
    for (let i = 0; i < plain.length; i++) {
      out[i] = 0;
      for (let j = 0; j <= i; j++) out[i] += whitening[i][j] * shown[j];
    }
    let next = plain.length;
    for (const { d, frequency, scale } of turns) {
      out[next++] = scale * Math.cos(frequency * state[d]);
      out[next++] = scale * Math.sin(frequency * state[d]);
    }
  }

  const embedded = new Float64Array(knots.length * features);
  knots.forEach((knot, m) => embed(knot, embedded.subarray(m * features, (m + 1) * features)));
  const point = new Float64Array(features);
  return (state, out) => {
    embed(state, point);
    squaredDistances(embedded, point, out);
    profile(out);
  };
}

// Apart from what surrounds it, so that the engine compiles it once and tightly: here the page
// spends most of its time.
function squaredDistances(embedded, point, out) {
  const features = point.length, knots = out.length;
  for (let m = 0, at = 0; m < knots; m++) {
    let square = 0;
    for (let f = 0; f < features; f++, at++) {
      const difference = embedded[at] - point[f];
      square += difference * difference;
    }
    out[m] = square;
  }
}

function composed(parts, knots, neutral, join) {
  const columns = parts.map(([kernel, dimensions]) => ({
    dimensions,
    column: kernelColumn(kernel, knots.map((knot) => dimensions.map((d) => knot[d]))),
  }));
  const own = new Float64Array(knots.length);
  return (state, out) => {
    out.fill(neutral);
    columns.forEach(({ dimensions, column }, part) => {
      column(dimensions.map((d) => state[d]), own);
      for (let m = 0; m < knots.length; m++) out[m] = join(out[m], own[m], part);
    });
  };
}

// The inverse of the lower triangular factor of a small positive definite matrix.
function inverseCholesky(matrix) {
  const n = matrix.length, lower = matrix.map(() => new Float64Array(n));
  const inverse = matrix.map(() => new Float64Array(n));
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let value = matrix[i][j];
      for (let k = 0; k < j; k++) value -= lower[i][k] * lower[j][k];
      lower[i][j] = i === j ? Math.sqrt(value) : value / lower[j][j];
    }
  }
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let value = i === j ? 1 : 0;
      for (let k = j; k < i; k++) value -= lower[i][k] * inverse[k][j];
      inverse[i][j] = value / lower[i][i];
    }
  }
  return inverse;
}
