// Pictures of pendulums side by side.
"use strict";

// Where each of so many pendulums stands on a canvas: rows and columns that use the room best.
function seats(count, width, height, foot) {
  let best = null;
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const wide = width / columns, high = height / rows;
    const size = Math.min(wide, high - foot);
    if (!best || size > best.size) best = { columns, rows, wide, high, size };
  }
  const { columns, rows, wide } = best, high = Math.min(best.high, wide + foot);
  const lift = (height - rows * high) / 2;
  return Array.from({ length: count }, (_, n) => {
    const row = Math.floor(n / columns), inRow = row < rows - 1 ? columns : count - columns * (rows - 1);
    const shift = (width - inRow * wide) / 2;
    return {
      x: shift + (n % columns) * wide + wide / 2,
      y: lift + row * high + (high - foot) / 2 + 4,
      top: lift + row * high,
      left: shift + (n % columns) * wide,
      wide,
      high,
      reach: 0.4 * Math.min(wide, high - foot),
    };
  });
}

// What a pendulum is, in a line; on small screens without units.
function numbersOf({ g, m, l }, { wide }) {
  const [gravity, mass, length] = [g.toFixed(1), m.toFixed(2), l.toFixed(2)];
  return wide < 190 ? `g ${gravity} · m ${mass} · l ${length}` : `${gravity} m/s²  ·  ${mass} kg  ·  ${length} m`;
}

// How long a rod is on the canvas: the longest in reach of its seat.
function rodLength(seat, { l }, longest) {
  return (seat.reach * l) / longest;
}

function bobOf(seat, machine, angle, longest) {
  const length = rodLength(seat, machine, longest);
  return [seat.x + length * Math.sin(angle), seat.y - length * Math.cos(angle)];
}

// A pendulum with the torque at its pivot; labels stand below.
function drawPendulum(context, seat, machine, state, { shade, longest, selected, labels }) {
  const [bx, by] = bobOf(seat, machine, state.angle, longest);
  const good = Math.abs(fromUpright(state.angle)) < UPRIGHT;
  if (selected) {
    context.beginPath();
    context.roundRect(seat.left + 6, seat.top + 6, seat.wide - 12, seat.high - 12, 14);
    context.strokeStyle = colour("accent");
    context.lineWidth = 1.5;
    context.stroke();
  }
  context.strokeStyle = colour("grid-strong");
  context.lineWidth = 1;
  context.setLineDash([2, 5]);
  context.beginPath();
  context.arc(seat.x, seat.y, rodLength(seat, machine, longest), 0, 2 * Math.PI);
  context.stroke();
  context.setLineDash([]);
  context.strokeStyle = colour("rod");
  context.lineCap = "round";
  context.lineWidth = Math.max(3, 0.055 * seat.reach);
  context.beginPath();
  context.moveTo(seat.x, seat.y);
  context.lineTo(bx, by);
  context.stroke();
  drawTorque(context, seat, state.torque || 0, shade);
  context.beginPath();
  context.arc(bx, by, Math.max(7, 0.13 * seat.reach * Math.sqrt(machine.m)), 0, 2 * Math.PI);
  context.fillStyle = shade;
  context.fill();
  context.beginPath();
  context.arc(seat.x, seat.y, Math.max(3, 0.04 * seat.reach), 0, 2 * Math.PI);
  context.fillStyle = colour("rod");
  context.fill();
  const size = Math.max(0.8 * rem(), Math.min(1.1 * rem(), 0.075 * seat.wide));
  context.textAlign = "center";
  context.textBaseline = "alphabetic";
  labels.forEach(([text, kind], n) => {
    context.font = `${n ? 400 : 600} ${n ? size - 1 : size}px ${colour("font")}`;
    context.fillStyle = kind === "state" ? colour(good ? "goal" : "quiet") : colour(n ? "quiet" : "ink");
    context.fillText(text, seat.x, seat.top + seat.high - 20 - (labels.length - 1 - n) * 1.35 * size, seat.wide - 16);
  });
}

// An arrow around the pivot, as long as the torque is large.
function drawTorque(context, seat, torque, shade) {
  const share = torque / MAX_TORQUE, radius = 0.24 * seat.reach;
  if (Math.abs(share) < 0.12) return;
  // A positive torque turns towards larger angles: clockwise on the canvas.
  const begin = -Math.PI / 2, end = begin + share * 0.75 * Math.PI;
  context.strokeStyle = shade;
  context.lineWidth = 2.5;
  context.beginPath();
  context.arc(seat.x, seat.y, radius, begin, end, share < 0);
  context.stroke();
  const along = end + (share > 0 ? Math.PI / 2 : -Math.PI / 2);
  const [tx, ty] = [seat.x + radius * Math.cos(end), seat.y + radius * Math.sin(end)];
  context.beginPath();
  for (const side of [-2.5, 2.5]) {
    context.moveTo(tx, ty);
    context.lineTo(tx + 7 * Math.cos(along + side), ty + 7 * Math.sin(along + side));
  }
  context.stroke();
}
