// The family of pendulums: each swings by itself, and under the hand.
"use strict";

class SwingView extends PendulumsView {
  constructor(family, page) {
    super(family.machines.map((one) => ({ ...one })), page);
    this.family = family;
    this.by = "own";
    this.noise = 0;
    this.selected = 0;
    this.normal = normalNumbers(randomNumbers(7));
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "application",
      "aria-label": "Pendulums. Number keys choose one, left and right push it.",
    });
    this.panel = this.buildPanel();
    this.listen();
    this.restart();
  }

  restart() {
    // A little off, so that what is different shows.
    this.hang((n) => Math.PI - 0.15 + 0.02 * n);
    this.upFor = this.machines.map(() => 0);
  }

  policyOf(n) {
    const { policies } = this.family;
    return { own: policies[Math.min(n, policies.length - 3) + 2], central: policies[0], average: policies[1] }[this.by];
  }

  // The panel -------------------------------------------------------------------------

  buildPanel() {
    const { ranges } = this.family;
    const named = { g: ["Gravity", "m/s²"], m: ["Mass", "kg"], l: ["Length", "m"] };
    this.sliders = Object.fromEntries(Object.entries(named).map(([name, [label, unit]]) => {
      const [low, high] = ranges[name], room = 0.35 * (high - low);
      return [name, slider({
        id: `machine-${name}`, label, min: rounded(low - room), max: rounded(high + room), step: 0.01, value: low,
        shown: (value) => `${value.toFixed(2)} ${unit}${value < low || value > high ? ", never trained for" : ""}`,
        change: (value) => { this.machines[this.selected][name] = value; this.page.changed(); },
      })];
    }));
    this.chosenTitle = el("p", { class: "chosen" });
    this.byChoice = choice({
      id: "by", label: "who swings", value: this.by,
      options: [["own", "Its own"], ["central", "Central"], ["average", "Average"], ["none", "Nobody"]],
      change: (name) => { this.by = name; this.page.changed(); },
    });
    return [
      section("Which policy acts", this.byChoice,
        el("p", { class: "note" }, "Its own: every pendulum has a policy that learned on it. Central: one for all, near which the others were kept. Average: the mean of the task policies.")),
      section("One pendulum", this.chosenTitle, ...Object.values(this.sliders),
        el("div", { class: "row", style: "margin-top: 0.8rem" },
          el("button", { type: "button", id: "as-trained", onclick: () => this.asTrained() }, "As it was trained"),
          el("button", { type: "button", id: "kick", onclick: () => this.push(4) }, "Push"))),
      section("Shake",
        slider({
          id: "swing-noise", label: "Noise on the torque", min: 0, max: 2, step: 0.05, value: 0,
          shown: (value) => (value ? `± ${value.toFixed(2)} Nm` : "none"),
          change: (value) => { this.noise = value; },
        })),
    ];
  }

  select(n) {
    this.selected = n;
    for (const [name, one] of Object.entries(this.sliders)) one.set(this.machines[n][name]);
  }

  asTrained() {
    this.machines[this.selected] = { ...this.family.machines[this.selected] };
    this.select(this.selected);
    this.page.changed();
  }

  push(speed) {
    const state = this.states[this.selected];
    this.states[this.selected] = { ...state, speed: clipped(state.speed + speed, -MAX_SPEED, MAX_SPEED) };
  }

  // Time ------------------------------------------------------------------------------

  advance() {
    this.before = this.states;
    this.states = this.states.map((state, n) => {
      if (this.held?.n === n) return state;
      const policy = this.policyOf(n);
      const wanted = policy ? policy.action(policy.value(pendulumSees(state)))[0] : 0;
      const next = swing(this.machines[n], state, wanted + (this.noise ? this.noise * this.normal() : 0));
      this.upFor[n] = Math.abs(fromUpright(next.angle)) < UPRIGHT ? this.upFor[n] + TIME_STEP : 0;
      return next;
    });
    this.time += TIME_STEP;
  }

  // Drawing ---------------------------------------------------------------------------

  draw() {
    this.chosenTitle.textContent = `Pendulum ${this.selected + 1}`;
    sharp(this.canvas, (context, width, height) => {
      this.seats = seats(this.machines.length, width, height, 4.8 * rem());
      this.machines.forEach((machine, n) => {
        const doing = this.upFor[n] ? `upright for ${this.upFor[n].toFixed(1)} s` : this.policyOf(n) ? "swinging up" : "let go";
        const labels = [
          [`${n + 1}`, "name"],
          [numbersOf(machine, this.seats[n]), "numbers"],
          [doing, "state"],
        ];
        const shade = policyColour(this.by === "own" ? 2 + n : this.by === "central" ? 0 : 1);
        this.drawMachine(context, this.seats[n], n, { shade, selected: n === this.selected, labels });
      });
    });
  }

  // The hand --------------------------------------------------------------------------

  listen() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const angleTo = (seat, px, py) => Math.atan2(px - seat.x, seat.y - py);
    canvas.addEventListener("pointerdown", (event) => {
      const [px, py] = at(event);
      const n = this.seats.findIndex((s) => px >= s.left && px < s.left + s.wide && py >= s.top && py < s.top + s.high);
      if (n < 0) return;
      this.select(n);
      const seat = this.seats[n];
      const [bx, by] = bobOf(seat, this.machines[n], this.states[n].angle, this.longest);
      const near = Math.hypot(px - bx, py - by) < Math.max(26, 0.35 * seat.reach);
      if (near || Math.hypot(px - seat.x, py - seat.y) < 1.15 * seat.reach) {
        this.held = { n, at: performance.now(), speed: 0 };
        canvas.setPointerCapture(event.pointerId);
        event.preventDefault();
      }
    });
    // A pendulum in the hand follows it; let go, it keeps the hand's speed.
    canvas.addEventListener("pointermove", (event) => {
      if (!this.held) return;
      const { n } = this.held, [px, py] = at(event), now = performance.now();
      const state = this.states[n], turned = fromUpright(angleTo(this.seats[n], px, py) - state.angle);
      const passed = Math.max((now - this.held.at) / 1000, 0.004);
      this.held.speed = 0.6 * this.held.speed + 0.4 * (turned / passed);
      this.held.at = now;
      const angle = state.angle + turned;
      this.states[n] = { angle, speed: clipped(this.held.speed, -MAX_SPEED, MAX_SPEED), torque: 0 };
      this.before = this.before.map((one, i) => (i === n ? this.states[n] : one));
      this.upFor[n] = 0;
    });
    const release = () => {
      if (!this.held) return;
      const { n } = this.held;
      if (performance.now() - this.held.at > 120) this.states[n] = { ...this.states[n], speed: 0 };
      this.held = null;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("touchstart", (event) => {
      if (this.held) event.preventDefault();
    }, { passive: false });
    this.select(0);
  }

  key(event) {
    if (/^[1-9]$/.test(event.key) && event.key <= this.machines.length) this.select(event.key - 1);
    else if (event.key === "ArrowLeft") this.push(-2);
    else if (event.key === "ArrowRight") this.push(2);
    else return false;
    return true;
  }

  // The address -----------------------------------------------------------------------

  address() {
    const machines = this.machines.map(({ g, m, l }) => [g, m, l].map(rounded).join(",")).join(";");
    return { by: this.by, machines };
  }

  read(fields) {
    const by = fields.get("by");
    if (["own", "central", "average", "none"].includes(by)) {
      this.by = by;
      this.byChoice.set(by);
    }
    (fields.get("machines") || "").split(";").forEach((row, n) => {
      const [g, m, l] = row.split(",").map(Number);
      if (n < this.machines.length && g > 0 && m > 0 && l > 0 && g + m + l < Infinity) this.machines[n] = { g, m, l };
    });
    this.select(this.selected);
  }
}
