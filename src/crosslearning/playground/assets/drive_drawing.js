// Pictures of the navigation task. Everything is drawn in the world's coordinates by a Map view.
"use strict";

const SMALLEST_VIEW = 8; // a map shows at least so much of the world, each way

// From the world to the canvas and back: y points up in the world.
class MapView {
  constructor(box) {
    this.box = box;
  }

  fit(width, height) {
    const { left, right, bottom, top } = this.box;
    this.unit = Math.min(width / (right - left), height / (top - bottom));
    this.x0 = width / 2 - (this.unit * (left + right)) / 2;
    this.y0 = height / 2 + (this.unit * (bottom + top)) / 2;
    [this.width, this.height] = [width, height];
  }

  to(x, y) {
    return [this.x0 + this.unit * x, this.y0 - this.unit * y];
  }

  from(px, py) {
    return [(px - this.x0) / this.unit, (this.y0 - py) / this.unit];
  }
}

// The box around all that is in a scene, with room to drag things about.
function boxOf({ obstacles, goals, start }) {
  const things = [...obstacles, ...[...goals, start].map(({ x, y }) => ({ x, y, a: 0.5, b: 0.5 }))];
  const reach = ({ a, b }) => Math.max(a, b) + 0.7;
  const along = (axis) => {
    const low = Math.min(...things.map((one) => one[axis] - reach(one)));
    const high = Math.max(...things.map((one) => one[axis] + reach(one)));
    const room = Math.max(0, SMALLEST_VIEW - (high - low)) / 2;
    return [low - room, high + room];
  };
  const [left, right] = along("x"), [bottom, top] = along("y");
  return { left, right, bottom, top };
}

function drawGrid(context, view) {
  const [left, top] = view.from(0, 0), [right, bottom] = view.from(view.width, view.height);
  context.strokeStyle = colour("grid");
  context.lineWidth = 1;
  context.beginPath();
  for (let x = Math.ceil(left); x <= right; x++) {
    const px = Math.round(view.to(x, 0)[0]) + 0.5;
    context.moveTo(px, 0);
    context.lineTo(px, view.height);
  }
  for (let y = Math.ceil(bottom); y <= top; y++) {
    const py = Math.round(view.to(0, y)[1]) + 0.5;
    context.moveTo(0, py);
    context.lineTo(view.width, py);
  }
  context.stroke();
}

function drawObstacle(context, view, one, selected) {
  const [px, py] = view.to(one.x, one.y);
  context.beginPath();
  context.ellipse(px, py, one.a * view.unit, one.b * view.unit, -one.angle, 0, 2 * Math.PI);
  context.fillStyle = colour("obstacle");
  context.fill();
  context.strokeStyle = colour(selected ? "accent" : "obstacle-line");
  context.lineWidth = selected ? 2 : 1.25;
  context.stroke();
}

function drawHandle(context, [px, py]) {
  context.beginPath();
  context.arc(px, py, 6, 0, 2 * Math.PI);
  context.fillStyle = colour("paper");
  context.fill();
  context.strokeStyle = colour("accent");
  context.lineWidth = 2;
  context.stroke();
}

function drawGoal(context, view, goal, radius, selected) {
  const [px, py] = view.to(goal.x, goal.y);
  context.beginPath();
  context.arc(px, py, radius * view.unit, 0, 2 * Math.PI);
  context.fillStyle = colour("goal-fill");
  context.fill();
  context.strokeStyle = colour(selected ? "accent" : "goal");
  context.lineWidth = selected ? 2.5 : 1.75;
  context.stroke();
}

// Where a goal is, or which of several: above the paths, which would cover it.
function drawGoalName(context, view, goal, number) {
  const [px, py] = view.to(goal.x, goal.y);
  context.fillStyle = colour("goal");
  if (number) {
    context.font = `600 ${Math.max(11, 0.42 * view.unit)}px ${colour("font")}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.strokeStyle = colour("paper");
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeText(number, px, py + 1);
    context.fillText(number, px, py + 1);
  } else {
    context.beginPath();
    context.arc(px, py, 3.5, 0, 2 * Math.PI);
    context.fill();
  }
}

function drawPath(context, view, states, now, shade) {
  const last = Math.min(now, states.length - 1), whole = Math.floor(last);
  const trace = (points, alpha, width) => {
    context.globalAlpha = alpha;
    context.lineWidth = width;
    context.beginPath();
    points.forEach(({ x, y }, n) => context[n ? "lineTo" : "moveTo"](...view.to(x, y)));
    context.stroke();
  };
  context.strokeStyle = shade;
  context.lineJoin = context.lineCap = "round";
  trace(states, 0.3, 1.5);
  trace([...states.slice(0, whole + 1), between(states, last)], 1, 2.5);
  context.globalAlpha = 1;
}

// Where a robot is at a time between two steps; it turns the shorter way round.
function between(states, time) {
  const first = Math.min(Math.floor(time), states.length - 1);
  const now = states[first], next = states[Math.min(first + 1, states.length - 1)];
  const share = Math.min(Math.max(time - first, 0), 1);
  return {
    ...now,
    x: now.x + share * (next.x - now.x),
    y: now.y + share * (next.y - now.y),
    heading: now.heading + share * wrapAngle(next.heading - now.heading),
  };
}

function drawRobot(context, view, { x, y, heading, crashed }, shade, { size = 1, hollow = false } = {}) {
  const [px, py] = view.to(x, y);
  const unit = Math.max(7, Math.min(0.27 * view.unit, 15)) * size;
  context.save();
  context.translate(px, py);
  context.rotate(-heading);
  context.beginPath();
  context.moveTo(1.25 * unit, 0);
  context.lineTo(-0.85 * unit, 0.8 * unit);
  context.lineTo(-0.45 * unit, 0);
  context.lineTo(-0.85 * unit, -0.8 * unit);
  context.closePath();
  context.lineJoin = "round";
  context.fillStyle = hollow ? colour("paper") : shade;
  context.strokeStyle = hollow ? shade : colour("paper");
  context.lineWidth = hollow ? 2 : 1.5;
  context.fill();
  context.stroke();
  context.restore();
  if (crashed) drawCross(context, px, py, unit);
}

function drawCross(context, px, py, unit) {
  context.strokeStyle = colour("crash");
  context.lineWidth = 3;
  context.lineCap = "round";
  context.beginPath();
  for (const side of [-1, 1]) {
    context.moveTo(px - 0.7 * unit, py - side * 0.7 * unit);
    context.lineTo(px + 0.7 * unit, py + side * 0.7 * unit);
  }
  context.stroke();
}

// The cone around the nearest obstacle, and the line to the goal.
function drawSight(context, view, place, robot) {
  const [d_o, phi_o, d_g, phi_g, opening] = observe(place, robot);
  const [px, py] = view.to(robot.x, robot.y);
  const ray = (angle, length) => view.to(robot.x + length * Math.cos(angle), robot.y + length * Math.sin(angle));
  if (d_o < FAR_AWAY) {
    const [nearest] = nearestObstacle(place.solids, robot.x, robot.y);
    const length = Math.max(Math.hypot(nearest.x - robot.x, nearest.y - robot.y), 0.3);
    const middle = robot.heading + phi_o;
    context.beginPath();
    context.moveTo(px, py);
    context.arc(px, py, length * view.unit, -middle - opening / 2, -middle + opening / 2);
    context.closePath();
    context.fillStyle = colour("sight");
    context.fill();
    context.setLineDash([]);
  }
  context.setLineDash([2, 5]);
  context.strokeStyle = colour("goal");
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(px, py);
  context.lineTo(...ray(robot.heading + phi_g, d_g));
  context.stroke();
  context.setLineDash([]);
}

// The knots as the robot would see them: around it, ahead is up. Those alike to the present are lit.
function drawEye(context, left, top, size, { title, distance, angle, opening, knots, light, shade }) {
  const radius = size / 2 - 14, cx = left + size / 2, cy = top + size / 2 + 4;
  const reach = (d) => (radius * Math.asinh(Math.max(d, 0))) / Math.asinh(12);
  const at = (d, phi) => {
    const length = Math.min(reach(d), radius);
    return [cx - length * Math.sin(phi), cy - length * Math.cos(phi)];
  };
  context.strokeStyle = colour("grid-strong");
  context.lineWidth = 1;
  for (const ring of [1, 4, 12]) {
    context.beginPath();
    context.arc(cx, cy, reach(ring), 0, 2 * Math.PI);
    context.stroke();
  }
  if (opening) {
    const middle = -Math.PI / 2 - angle;
    context.beginPath();
    context.moveTo(cx, cy);
    context.arc(cx, cy, radius, middle - opening / 2, middle + opening / 2);
    context.closePath();
    context.fillStyle = colour("sight");
    context.fill();
  }
  context.fillStyle = shade;
  // Most knots are dark, and drawn at one go.
  const dark = new Path2D();
  knots.forEach(([d, phi], m) => {
    const [px, py] = at(d, phi);
    if (light[m] < 0.03) {
      dark.rect(px - 1.2, py - 1.2, 2.4, 2.4);
      return;
    }
    context.globalAlpha = 0.2 + 0.8 * light[m];
    context.beginPath();
    context.arc(px, py, 1.5 + 2.5 * light[m], 0, 2 * Math.PI);
    context.fill();
  });
  context.globalAlpha = 0.18;
  context.fill(dark);
  context.globalAlpha = 1;
  if (distance < FAR_AWAY) {
    const [px, py] = at(distance, angle);
    context.beginPath();
    context.arc(px, py, 5, 0, 2 * Math.PI);
    context.strokeStyle = colour("ink");
    context.lineWidth = 2;
    context.stroke();
  }
  context.beginPath();
  context.moveTo(cx, cy - 6);
  context.lineTo(cx - 4, cy + 5);
  context.lineTo(cx + 4, cy + 5);
  context.fillStyle = colour("ink");
  context.fill();
  context.fillStyle = colour("quiet");
  context.font = font(0.8);
  context.textAlign = "center";
  context.textBaseline = "top";
  context.fillText(title, cx, top - 2);
}
