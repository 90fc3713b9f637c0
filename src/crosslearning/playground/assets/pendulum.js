// The pendulum of Gymnasium, as crosslearning.tasks.families.pendulum moves it.
"use strict";

const TIME_STEP = 0.05;
const MAX_SPEED = 8;
const MAX_TORQUE = 2;
const UPRIGHT = 0.3;

// The angle from the upright, in [−π, π).
function fromUpright(angle) {
  const turn = 2 * Math.PI;
  return angle - turn * Math.floor((angle + Math.PI) / turn);
}

function pendulumSees({ angle, speed }) {
  return [Math.cos(angle), Math.sin(angle), speed];
}

// Returns the state one step on, and what the step paid.
function swing({ g, m, l }, { angle, speed }, torque) {
  const pushed = Math.min(Math.max(torque, -MAX_TORQUE), MAX_TORQUE), away = fromUpright(angle);
  const pull = ((1.5 * g) / l) * Math.sin(angle) + (3 / (m * l ** 2)) * pushed;
  const faster = Math.min(Math.max(speed + pull * TIME_STEP, -MAX_SPEED), MAX_SPEED);
  return {
    angle: angle + faster * TIME_STEP,
    speed: faster,
    torque: pushed,
    reward: -(away ** 2 + 0.1 * speed ** 2 + 0.001 * pushed ** 2),
  };
}
