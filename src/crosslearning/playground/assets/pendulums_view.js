// What the views of pendulums share: machines that move in steps, and are shown between two of them.
// A view says how they start (restart), how they move by a step (advance), and what is drawn (draw).
"use strict";

const STEP_RATE = 1 / TIME_STEP;

class PendulumsView {
  constructor(machines, page) {
    this.machines = machines;
    this.page = page;
    this.playing = !page.still;
  }

  // All hang at rest, each at its angle.
  hang(angle) {
    this.states = this.machines.map((_, n) => ({ angle: angle(n), speed: 0, torque: 0 }));
    this.before = this.states;
    this.clock = this.time = 0;
  }

  stepOnce() {
    this.playing = false;
    this.advance();
    this.before = this.states;
    this.clock = 0;
  }

  frame(seconds) {
    if (this.playing) {
      this.clock += seconds * STEP_RATE;
      while (this.clock >= 1) {
        this.clock -= 1;
        this.advance();
      }
    }
    this.draw();
  }

  get longest() {
    return Math.max(...this.machines.map(({ l }) => l));
  }

  drawMachine(context, seat, n, look) {
    const [a, b] = [this.before[n], this.states[n]], share = this.playing ? this.clock : 1;
    const state = { ...b, angle: a.angle + share * (b.angle - a.angle) };
    drawPendulum(context, seat, this.machines[n], state, { ...look, longest: this.longest });
  }
}
