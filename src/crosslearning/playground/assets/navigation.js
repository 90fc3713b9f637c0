// The navigation task: the same geometry, observation and motion as in Python, number by number.
"use strict";

const FAR_AWAY = 100;

function wrapAngle(angle) {
  const turn = 2 * Math.PI;
  const wrapped = angle - turn * Math.floor((angle + Math.PI) / turn);
  return wrapped >= Math.PI || wrapped < -Math.PI ? -Math.PI : wrapped;
}

const clipped = (value, low, high) => (value < low ? low : value > high ? high : value);

// An obstacle as the geometry takes it: {x, y, a, b, angle} with its cosine and sine.
function solid({ x, y, a, b, angle }) {
  return { x, y, a, b, angle, cosine: Math.cos(angle), sine: Math.sin(angle) };
}

function toFrame(one, x, y) {
  const across = x - one.x, along = y - one.y;
  return [one.cosine * across + one.sine * along, one.cosine * along - one.sine * across];
}

// Distance from (x, y), in the obstacle's frame, to its surface; negative inside. Newton's method
// climbs to the foot of the perpendicular, counted from the pole of the equation.
function surfaceDistance(x, y, a, b) {
  x = Math.abs(x);
  y = Math.abs(y);
  if (a === b) return Math.sqrt(x * x + y * y) - a;
  if (a < b) [x, y, a, b] = [y, x, b, a];
  const ratio = (a / b) * (a / b), excess = ((a - b) * (a + b)) / (b * b);
  const first = ratio * (x / a), second = y / b;
  if (second < 1e-290) {
    if (first >= excess) return x - a;
    const share = first / excess, foot = a * share;
    return -Math.sqrt((foot - x) * (foot - x) + b * b * (1 - share * share));
  }
  let u = Math.max(second, first - excess);
  for (let step = 0; step < 64; step++) {
    const p = first / (u + excess), q = second / u;
    const squared = p * p + q * q, slope = (p * p) / (u + excess) + (q * q) / u;
    const before = u;
    u = Math.max(second, u + ((Math.sqrt(squared) - 1) * squared) / slope);
    if (Math.abs(u - before) <= 4e-16 * u || (step > 0 && u <= before)) break;
  }
  const p = x / (u + excess), q = y / u;
  return (u - 1) * Math.sqrt(p * p + q * q);
}

// The middle direction, in the world's frame, and the opening of the cone that touches an obstacle.
function tangentCone(x, y, { a, b, cosine, sine }) {
  const w = x / a, v = y / b, squared = w * w + v * v;
  const m = Math.sqrt(Math.max(squared - 1, 0));
  const rightX = a * (-m * w - v), rightY = b * (-m * v + w);
  const leftX = a * (-m * w + v), leftY = b * (-m * v - w);
  const opening =
    m > 0
      ? Math.atan2(2 * a * b * m * squared, rightX * leftX + rightY * leftY)
      : Math.PI;
  const right = Math.atan2(sine * rightX + cosine * rightY, cosine * rightX - sine * rightY);
  return [right + 0.5 * opening, opening];
}

// The share of the segment at which it first touches the ellipse, or infinity.
function contact(x, y, toX, toY, a, b) {
  const w = x / a, v = y / b, outside = w * w + v * v - 1;
  if (outside <= 0) return 0;
  const dw = (toX - x) / a, dv = (toY - y) / b, approach = -(w * dw + v * dv);
  if (approach <= 0) return Infinity;
  const cross = w * dv - v * dw, discriminant = dw * dw + dv * dv - cross * cross;
  if (discriminant < 0) return Infinity;
  const share = outside / (approach + Math.sqrt(discriminant));
  return share <= 1 ? share : Infinity;
}

function isInside(one, x, y) {
  const [u, v] = toFrame(one, x, y), w = u / one.a, t = v / one.b;
  return w * w + t * t <= 1;
}

function nearestObstacle(solids, x, y) {
  let nearest = null, least = Infinity;
  for (const one of solids) {
    const [u, v] = toFrame(one, x, y);
    if (Math.sqrt(u * u + v * v) - Math.max(one.a, one.b) >= least) continue;
    const distance = surfaceDistance(u, v, one.a, one.b);
    if (distance < least) [nearest, least] = [one, distance];
  }
  return [nearest, least];
}

function firstContact(solids, x, y, toX, toY) {
  let first = Infinity;
  for (const one of solids) {
    const [u, v] = toFrame(one, x, y), [toU, toV] = toFrame(one, toX, toY);
    first = Math.min(first, contact(u, v, toU, toV, one.a, one.b));
  }
  return first;
}

// A scene is {rules, obstacles, goals}; rules are the parameters of Navigation that do not move.
function world({ rules, obstacles, goals }) {
  return { rules, goals, solids: obstacles.map(solid) };
}

function startState({ x, y, heading }) {
  return {
    x, y, heading: wrapAngle(heading),
    goal: 0, crashed: false, arrived: false, arrivalStep: -1, steps: 0,
  };
}

// (d_o, φ_o, d_g, φ_g, φ_obs).
function observe({ rules, goals, solids }, { x, y, heading, goal }) {
  const seen = [FAR_AWAY, 0, 0, 0, 0];
  const [nearest, distance] = nearestObstacle(solids, x, y);
  if (nearest) {
    const [u, v] = toFrame(nearest, x, y), [middle, opening] = tangentCone(u, v, nearest);
    seen[0] = rules.obstacle_distance === "centre" ? Math.sqrt(u * u + v * v) : distance;
    seen[1] = wrapAngle(middle - heading);
    seen[4] = opening;
  }
  const toX = goals[goal].x - x, toY = goals[goal].y - y;
  seen[2] = Math.sqrt(toX * toX + toY * toY);
  seen[3] = toX === 0 && toY === 0 ? 0 : wrapAngle(Math.atan2(toY, toX) - heading);
  return seen;
}

function isOver({ rules }, state) {
  return (
    (state.crashed && rules.crash === "terminate") ||
    (state.arrived && rules.arrival === "terminate")
  );
}

// Returns the state one step on; the move uses the heading from before the turn.
function step({ rules, goals, solids }, before, action) {
  const state = { ...before, steps: before.steps + 1 };
  if (before.crashed && rules.crash === "absorbing") return state;
  const speed = clipped(action[0], ...rules.speed_bounds);
  const turn = clipped(action[1], ...rules.turn_bounds);
  const { x, y, heading } = before;
  const toX = x + rules.time_step * speed * Math.cos(heading);
  const toY = y + rules.time_step * speed * Math.sin(heading);
  const touch = rules.swept
    ? firstContact(solids, x, y, toX, toY)
    : Math.max(1, firstContact(solids, toX, toY, toX, toY));
  if (touch <= 1) {
    state.crashed = true;
    if (rules.crash !== "continue") {
      state.x = x + touch * (toX - x);
      state.y = y + touch * (toY - y);
      return state;
    }
  }
  state.x = toX;
  state.y = toY;
  state.heading = wrapAngle(heading + rules.time_step * turn);
  const goal = goals[before.goal], offX = goal.x - toX, offY = goal.y - toY;
  if (Math.sqrt(offX * offX + offY * offY) <= rules.arrival_radius) {
    if (before.goal < goals.length - 1) state.goal += 1;
    else if (!before.arrived) {
      state.arrived = true;
      state.arrivalStep = state.steps;
    }
  }
  return state;
}

// Drives from the start for so many steps, with a normal number for each action of each step where
// there is noise; returns all states.
function drive(scene, policy, start, steps, noise = null) {
  const place = world(scene), states = [startState(start)];
  for (let n = 0; n < steps; n++) {
    const now = states[n];
    if (isOver(place, now)) break;
    const value = policy.value(observe(place, now));
    const moved = noise ? value.map((one, j) => one + policy.noise[j] * noise(n, j)) : value;
    states.push(step(place, now, policy.action(moved)));
  }
  return states;
}
