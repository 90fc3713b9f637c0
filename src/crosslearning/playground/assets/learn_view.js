// Learning in the page: three machines, a worker that learns, and how well it goes.
"use strict";

// What the worker needs of this page's scripts.
const WORKER_SCRIPTS = ["random.js", "pendulum.js", "algebra.js", "models.js", "improvement.js", "learning.js"];
const ROUNDS = 4;
const WORST = -1500;

class LearnView extends PendulumsView {
  constructor({ machines }, page) {
    super(machines, page);
    this.auto = true;
    this.radius = 0.5;
    this.seed = 1;
    this.attempts = [];
    this.canvas = el("canvas", { tabindex: 0, "aria-label": "Three pendulums that learn, and their mean return over time" });
    this.panel = this.buildPanel();
    this.forget();
    this.restart();
    this.showRadius();
    this.tell();
  }

  forget() {
    this.dots = [];
    this.returns = null;
    this.policies = null;
  }

  restart() {
    this.hang(() => Math.PI - 0.1);
  }

  // How alike the models are, from the slider's place: its ends are pooled and separate.
  get alike() {
    if (this.auto) return null;
    if (this.radius <= 0) return 1;
    if (this.radius >= 1) return 0;
    return 1 / (1 + Math.exp(-(9 - 15 * this.radius)));
  }

  get title() {
    if (this.auto) return "radius from the data";
    return { 1: "pooled", 0: "separate" }[this.alike] || `radius at ${Math.round(100 * this.radius)} %`;
  }

  // The panel -------------------------------------------------------------------------

  buildPanel() {
    this.button = el("button", { type: "button", class: "primary wide", id: "start", onclick: () => this.toggleLearning() }, "Learn");
    this.status = el("p", { class: "note", id: "status", role: "status" });
    this.radiusSlider = slider({
      id: "radius", label: "Radius", min: 0, max: 1, step: 0.05, value: this.radius,
      shown: (value) => (value <= 0 ? "0: one model for all" : value >= 1 ? "∞: one for each" : `${Math.round(100 * value)} %`),
      change: (value) => {
        this.radius = value;
        this.auto = false;
        this.autoTick.firstChild.checked = false;
        this.radiusSlider.classList.remove("found");
        this.page.changed();
      },
    });
    this.autoTick = tick({
      id: "auto", label: "Let the data choose it", checked: true,
      change: (on) => { this.auto = on; this.showRadius(); this.page.changed(); },
    });
    this.found = el("p", { class: "note", id: "found" });
    this.list = el("ol", { class: "attempts" });
    return [
      section("Learn from seconds", this.button, this.status,
        el("p", { class: "note" }, "Dots around a machine are what was seen of it: at its angle, the farther out the faster.")),
      section("How near the models are kept", this.radiusSlider,
        el("div", { class: "ends" }, el("span", {}, "pooled"), el("span", {}, "separate")), this.autoTick, this.found,
        el("p", { class: "note" }, "Each machine gets a model of how it moves and pays, kept within a radius of a common one. What the machines share is learned from the data of all, what is different about each from its own.")),
      section("Attempts", this.list,
        el("p", { class: "note" }, "Mean return of the three, from 20 starts each. About −150 is as good as it gets; hanging still is −1500.")),
    ];
  }

  // The slider tells the radius that the hand chose, or the one that the data did.
  showRadius(alike = null) {
    this.radiusSlider.classList.toggle("found", this.auto);
    if (!this.auto) return this.radiusSlider.set(this.radius);
    if (alike === null) return this.radiusSlider.set(0.5, "as the data say");
    const place = clipped((9 - Math.log(alike / (1 - alike))) / 15, 0, 1);
    this.radiusSlider.set(place, `${Math.round(100 * place)} %, from the data`);
  }

  tell(text = "") {
    this.status.textContent = text || `${ROUNDS} rounds: each machine runs for 1.25 s, models are fitted to all that was seen, and policies are improved in the models. Nothing is known before.`;
    this.button.textContent = this.worker ? "Stop" : this.attempts.length ? "Learn again, from nothing" : "Learn";
    const rows = this.attempts.map(({ title, shade, curve, seconds }) => {
      const last = curve[curve.length - 1];
      return el("li", { style: `--dot: var(--policy-${shade})` }, el("span", { class: "mark" }), el("span", {}, title),
        el("span", { class: "outcome" }, last ? `${told(last.value)} after ${told(seconds)} s` : "…"));
    });
    this.list.replaceChildren(...(rows.length ? rows : [el("li", { class: "none" }, "none yet")]));
  }

  // Learning --------------------------------------------------------------------------

  toggleLearning() {
    if (this.worker) return this.stop();
    this.forget();
    this.restart();
    this.playing = true;
    const code = WORKER_SCRIPTS.map((name) => document.getElementById(name).textContent).join("\n");
    const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    this.worker = new Worker(address);
    URL.revokeObjectURL(address);
    this.attempt = { title: this.title, shade: [0, 3, 2, 4, 5, 1][this.attempts.length % 6], curve: [], began: performance.now(), seconds: 0, chosen: !this.auto };
    this.attempts.push(this.attempt);
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = (event) => this.hear({ kind: "failed", why: event.message });
    this.worker.postMessage({ machines: this.machines, seed: this.seed, alike: this.alike, rounds: ROUNDS });
    this.tell("Acting at random for 1.25 s on each machine …");
  }

  stop(text = "Stopped.") {
    this.worker?.terminate();
    this.worker = null;
    this.tell(text);
  }

  hear(news) {
    const round = `Round ${(news.round ?? 0) + 1} of ${ROUNDS}`;
    this.attempt.seconds = (performance.now() - this.attempt.began) / 1000;
    if (news.kind === "seen") {
      this.dots.push(...news.dots);
      this.seen = news.seconds;
      this.tell(`${round}: ${news.seconds.toFixed(2)} s of each machine seen; fitting the models …`);
    } else if (news.kind === "fitted") {
      const percent = (share) => `${(100 * share).toFixed(1)} %`, [, , turning, reward] = news.alike;
      this.found.textContent = this.attempt.chosen ? "" : `The data say: the machines are ${percent(turning)} alike in how they speed up, ${percent(reward)} in what pays.`;
      if (this.auto && !this.attempt.chosen) this.showRadius(turning);
    } else if (news.kind === "policies") {
      this.returns = news.returns;
      this.policies = news;
      const value = news.returns.reduce((a, b) => a + b, 0) / news.returns.length;
      this.attempt.curve.push({ at: news.round + news.share, value, seconds: this.attempt.seconds });
      this.tell(`${round}: ${this.seen.toFixed(2)} s of each machine seen; improving the policies in the models …`);
    } else if (news.kind === "done") {
      this.stop(`Learned from ${this.seen.toFixed(2)} s of each machine, in ${this.attempt.seconds.toFixed(0)} s. Try another radius: pooled cannot tell the machines apart, separate shares nothing.`);
    } else if (news.kind === "failed") {
      this.stop(`This attempt broke down (${news.why}). Try again, or another radius.`);
    }
  }

  // Time ------------------------------------------------------------------------------

  torque(n, { angle, speed }) {
    if (!this.policies) return 0;
    const { inverse, points, weights } = this.policies, seen = pendulumSees({ angle, speed });
    let total = 0;
    for (let m = 0; m < weights[n].length; m++) {
      let square = 0;
      for (let j = 0; j < 3; j++) square += ((points[3 * m + j] - seen[j]) * inverse[j]) ** 2;
      total += weights[n][m] * Math.exp(-0.5 * square);
    }
    return MAX_TORQUE * total;
  }

  advance() {
    this.before = this.states;
    this.states = this.states.map((state, n) => swing(this.machines[n], state, this.torque(n, state)));
    this.time += TIME_STEP;
    if (this.time > 8) this.restart();
  }

  // Drawing ---------------------------------------------------------------------------

  draw() {
    sharp(this.canvas, (context, width, height) => {
      const high = Math.round(0.6 * height), places = seats(3, width, high, 3.7 * rem());
      this.machines.forEach((machine, n) => {
        this.drawDots(context, places[n], machine, n);
        const labels = [
          [this.returns ? `return ${told(this.returns[n])}` : "knows nothing yet", "name"],
          [numbersOf(machine, places[n]), "numbers"],
        ];
        this.drawMachine(context, places[n], n, { shade: policyColour(2 + n), selected: false, labels });
      });
      this.drawCurves(context, 0, high, width, height - high);
    });
  }

  // Where the machine has been: the angle around the pivot, the farther out the faster.
  drawDots(context, seat, machine, n) {
    const length = rodLength(seat, machine, this.longest);
    context.fillStyle = policyColour(2 + n);
    context.globalAlpha = 0.4;
    for (const { task, angle, speed } of this.dots) {
      if (task !== n) continue;
      const far = length * (0.25 + (0.75 * Math.abs(speed)) / MAX_SPEED);
      context.beginPath();
      context.arc(seat.x + far * Math.sin(angle), seat.y - far * Math.cos(angle), 2.2, 0, 2 * Math.PI);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  drawCurves(context, left, top, width, height) {
    const box = { left: left + 4.2 * rem(), right: left + width - 24, top: top + 26, bottom: top + height - 34 };
    const x = (at) => box.left + (at / ROUNDS) * (box.right - box.left);
    const y = (value) => box.top + (Math.max(value, WORST) / WORST) * (box.bottom - box.top);
    context.font = font(0.8);
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.lineWidth = 1;
    for (const value of [0, -500, -1000, -1500]) {
      context.strokeStyle = colour("grid-strong");
      context.beginPath();
      context.moveTo(box.left, y(value));
      context.lineTo(box.right, y(value));
      context.stroke();
      context.fillStyle = colour("quiet");
      context.fillText(told(value), box.left - 8, y(value));
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    for (let round = 1; round <= ROUNDS; round++) context.fillText(`${(1.25 * round).toFixed(2)} s`, x(round - 0.5), box.bottom + 8);
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.fillText("mean return, by seconds of data", box.left, box.top - 8);
    for (const { curve, shade } of this.attempts) {
      const current = curve === this.attempt.curve;
      context.strokeStyle = policyColour(shade);
      context.globalAlpha = current ? 1 : 0.55;
      context.lineWidth = current ? 2.5 : 1.75;
      context.lineJoin = "round";
      context.beginPath();
      curve.forEach(({ at, value }, n) => context[n ? "lineTo" : "moveTo"](x(at), y(value)));
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  // Keys and the address --------------------------------------------------------------

  key(event) {
    if (event.key !== "l") return false;
    this.toggleLearning();
    return true;
  }

  address() {
    return { radius: this.auto ? "data" : rounded(this.radius), seed: this.seed };
  }

  read(fields) {
    const radius = fields.get("radius"), seed = Number(fields.get("seed"));
    this.auto = !(radius !== null && radius !== "data" && Number.isFinite(Number(radius)));
    if (!this.auto) this.radius = clipped(Number(radius), 0, 1);
    if (Number.isInteger(seed) && seed > 0) this.seed = seed;
    this.autoTick.firstChild.checked = this.auto;
    this.showRadius();
  }
}
