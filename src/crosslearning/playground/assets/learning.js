// What a worker does: rounds of acting on the machines, fitting models and improving the policies.
"use strict";

const SPACE = [[-1, 1], [-1, 1], [-MAX_SPEED, MAX_SPEED]];
const ROUND = { steps: 25, bout: 50, told: 5 };
const HORIZON = 200;

// Plays episodes of every machine by its own policy and returns the means of their returns.
function measure(knots, machines, starts) {
  const slope = new Float64Array(Q);
  return machines.map((machine, i) => {
    let total = 0;
    for (const start of starts) {
      let state = start;
      for (let t = 0; t < HORIZON; t++) {
        state = swing(machine, state, MAX_TORQUE * knots.evaluate(knots.policy[i], pendulumSees(state), slope));
        total += state.reward;
      }
    }
    return total / starts.length;
  });
}

function anyStart(uniform) {
  return { angle: Math.PI * (2 * uniform() - 1), speed: 2 * uniform() - 1 };
}

// Acts on every machine for a round, at random at first, then by the policies with some noise.
function act(knots, machines, uniform, normal) {
  const slope = new Float64Array(Q);
  const starts = machines.map(() => anyStart(uniform)), rows = [];
  let states = starts;
  for (let t = 0; t < ROUND.steps; t++) {
    states = states.map((state, task) => {
      const seen = pendulumSees(state);
      const mean = knots ? knots.evaluate(knots.policy[task], seen, slope) : 0;
      const noisy = mean + (knots ? MODELS.actionStd : 0.8) * normal();
      const action = Math.min(Math.max(noisy, -1), 1);
      const next = swing(machines[task], state, MAX_TORQUE * action), after = pendulumSees(next);
      rows.push({ task, x: [...seen, action], y: [...after.map((value, j) => value - seen[j]), next.reward], angle: state.angle, speed: state.speed });
      return next;
    });
  }
  return rows;
}

// Learns and tells how it goes; the page ends it by ending the worker.
async function learn({ machines, seed, alike, rounds }, tell) {
  const uniform = randomNumbers(seed), normal = normalNumbers(uniform);
  const fair = randomNumbers(12345), starts = Array.from({ length: 20 }, () => anyStart(fair));
  let knots = null, chosen = null;
  const rows = [], past = [];
  for (let round = 0; round < rounds; round++) {
    const seen = act(knots, machines, uniform, normal);
    rows.push(...seen);
    const dots = seen.map(({ task, angle, speed }) => ({ task, angle, speed }));
    tell({ kind: "seen", round, dots, seconds: (round + 1) * ROUND.steps * TIME_STEP });
    const models = fitModels(rows, alike, machines.length, chosen, SPACE);
    chosen = models.chosen;
    tell({ kind: "fitted", round, alike: models.outputs.map((one) => one.alike) });
    if (!knots) knots = new Knots(models.points.inputUnit.slice(0, Q), machines);
    const visited = rows.map(({ x }) => Float64Array.from(x.slice(0, Q)));
    past.length = 0;
    for (let k = 0; k < ROUND.bout; k++) {
      improve(knots, models, visited, past, k / ROUND.bout, uniform, normal);
      if ((k + 1) % ROUND.told && k + 1 < ROUND.bout) continue;
      tell({
        kind: "policies",
        round,
        share: (k + 1) / ROUND.bout,
        returns: measure(knots, machines, starts),
        inverse: knots.inverse,
        points: knots.points.slice(0, knots.size * Q),
        weights: knots.policy.map((own) => own.slice(0, knots.size)),
      });
    }
  }
  tell({ kind: "done" });
}

// In a worker there is no page; there this file waits for what to learn.
if (typeof document === "undefined") {
  onmessage = (event) => {
    learn(event.data, postMessage).catch((problem) => postMessage({ kind: "failed", why: String(problem) }));
  };
}
