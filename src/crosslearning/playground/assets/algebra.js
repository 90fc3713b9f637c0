// Small dense linear algebra on Float64Array matrices, row after row.
"use strict";

// Replaces a symmetric matrix by its lower factor; tells whether it was positive definite.
function factorise(matrix, n) {
  for (let i = 0; i < n; i++) {
    const row = i * n;
    for (let j = 0; j <= i; j++) {
      const other = j * n;
      let value = matrix[row + j];
      for (let k = 0; k < j; k++) value -= matrix[row + k] * matrix[other + k];
      if (i !== j) matrix[row + j] = value / matrix[other + j];
      else if (value > 0) matrix[row + i] = Math.sqrt(value);
      else return false;
    }
  }
  return true;
}

// Solves L z = b for the lower factor of the first n rows of a matrix with rows of a given length.
function forward(lower, n, length, b, z) {
  for (let i = 0; i < n; i++) {
    let value = b[i];
    for (let k = 0; k < i; k++) value -= lower[i * length + k] * z[k];
    z[i] = value / lower[i * length + i];
  }
  return z;
}

// Solves A x = b from A's factor.
function solve(lower, n, b) {
  const x = forward(lower, n, n, b, new Float64Array(n));
  for (let i = n - 1; i >= 0; i--) {
    x[i] /= lower[i * n + i];
    for (let k = 0; k < i; k++) x[k] -= lower[i * n + k] * x[i];
  }
  return x;
}

// A⁻¹ from A's factor.
function inverse(lower, n) {
  // L⁻¹ by rows, then L⁻ᵀ L⁻¹.
  const half = new Float64Array(n * n), whole = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    const row = i * n, pivot = lower[row + i];
    for (let k = 0; k < i; k++) {
      const factor = lower[row + k], from = k * n;
      for (let j = 0; j <= k; j++) half[row + j] -= factor * half[from + j];
    }
    half[row + i] = 1;
    for (let j = 0; j <= i; j++) half[row + j] /= pivot;
  }
  for (let k = 0; k < n; k++) {
    const row = k * n;
    for (let i = 0; i <= k; i++) {
      const factor = half[row + i], into = i * n;
      for (let j = 0; j <= i; j++) whole[into + j] += factor * half[row + j];
    }
  }
  for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) whole[j * n + i] = whole[i * n + j];
  return whole;
}
