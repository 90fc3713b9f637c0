// The field of actions: what a robot would do at every place if it faced the goal there.
"use strict";

// A grid of places on a map view, each with an arrow. While things are dragged, only those places
// are evaluated anew whose observation has changed: most have another obstacle nearest.
class ActionField {
  constructor(policy, view) {
    Object.assign(this, { policy, view: { ...view }, spacing: Math.max(0.5, 34 / view.unit) });
    const { spacing } = this, places = [];
    const [left, top] = view.from(0, 0), [right, bottom] = view.from(view.width, view.height);
    for (let x = Math.ceil(left / spacing) * spacing; x < right; x += spacing) {
      for (let y = Math.ceil(bottom / spacing) * spacing; y < top; y += spacing) places.push([x, y]);
    }
    this.arrows = places.map(([x, y]) => ({ x, y, free: true, seen: [], towards: 0, length: 0 }));
  }

  fits(policy, view) {
    const same = (name) => this.view[name] === view[name];
    return this.policy === policy && ["unit", "x0", "y0", "width", "height"].every(same);
  }

  refresh(place, goal) {
    if (this.place === place && this.goal === goal) return;
    Object.assign(this, { place, goal });
    const { speed_bounds, turn_bounds, time_step } = place.rules, target = place.goals[goal];
    for (const arrow of this.arrows) {
      const { x, y } = arrow;
      arrow.free = !place.solids.some((one) => isInside(one, x, y));
      if (!arrow.free) continue;
      const heading = Math.atan2(target.y - y, target.x - x);
      const seen = observe(place, { x, y, heading, goal });
      // The turn counts from the heading, so that it has to be the same as well.
      if (arrow.heading === heading && seen.every((value, d) => value === arrow.seen[d])) continue;
      const [speed, turn] = this.policy.action(this.policy.value(seen));
      const share = clipped(speed, ...speed_bounds) / speed_bounds[1];
      Object.assign(arrow, {
        seen, heading,
        towards: heading + time_step * clipped(turn, ...turn_bounds),
        length: (0.25 + 0.6 * share) * this.spacing,
      });
    }
  }

  draw(context, view, shade) {
    context.strokeStyle = context.fillStyle = shade;
    context.globalAlpha = 0.55;
    context.lineWidth = 1.25;
    context.lineCap = "round";
    const lines = new Path2D(), tips = new Path2D();
    for (const { x, y, free, towards, length } of this.arrows) {
      if (!free) continue;
      const half = 0.5 * length * view.unit, [px, py] = view.to(x, y);
      const ux = Math.cos(towards), uy = -Math.sin(towards);
      const [toX, toY] = [px + half * ux, py + half * uy];
      lines.moveTo(px - half * ux, py - half * uy);
      lines.lineTo(toX - 3 * ux, toY - 3 * uy);
      tips.moveTo(toX + ux, toY + uy);
      tips.lineTo(toX - 6 * ux - 2.6 * uy, toY - 6 * uy + 2.6 * ux);
      tips.lineTo(toX - 6 * ux + 2.6 * uy, toY - 6 * uy - 2.6 * ux);
      tips.closePath();
    }
    context.stroke(lines);
    context.fill(tips);
    context.globalAlpha = 1;
  }
}
