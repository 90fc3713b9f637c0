// Navigation under the hand: drag the scene, watch the policies drive in it.
"use strict";

const STEPS_A_GOAL = 60;
const MOST_STEPS = 180;
const MOST_SHOWN = 5; // at first
const HIT = 16; // pixels around a handle that count as on it
const SMALLEST = 0.15;

class DriveView {
  constructor(family, page) {
    this.family = family;
    this.page = page;
    this.shown = new Set([...family.policies.keys()].slice(0, MOST_SHOWN));
    this.followed = 0;
    this.speed = 8;
    this.noise = 0;
    this.seed = 1;
    this.playing = !page.still;
    this.time = 0;
    this.layers = { field: false, sight: true, knots: true };
    this.selected = null;
    this.grabbed = null;
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "application",
      "aria-label": "The map. Tab chooses a thing, arrow keys move it.",
    });
    this.eye = el("canvas", { class: "eye" });
    this.panel = this.buildPanel();
    this.listen();
    this.load(family.scenes[0].scene);
  }

  // The scene -------------------------------------------------------------------------

  load(scene) {
    this.scene = structuredClone(scene);
    this.view = new MapView(boxOf(this.scene));
    this.selected = null;
    this.restart();
  }

  // Something about the scene is different: paths are driven anew before the next frame.
  change() {
    this.stale = true;
    this.page.changed();
  }

  restart() {
    this.time = 0;
    this.over = 0;
    this.seed = (this.seed * 16807) % 2147483647;
    this.change();
  }

  get steps() {
    return Math.min(MOST_STEPS, STEPS_A_GOAL * this.scene.goals.length);
  }

  refresh() {
    const { scene, noise, steps } = this, { crash } = scene.rules;
    // Who has arrived is there, and who is stuck stays: what comes after is not drawn.
    const ends = { arrival: "terminate", crash: crash === "absorbing" ? "terminate" : crash };
    const drawn = { ...scene, rules: { ...scene.rules, ...ends } };
    this.place = world(scene);
    this.paths = this.family.policies.map((policy, p) => {
      if (!this.shown.has(p)) return null;
      const normal = normalNumbers(randomNumbers(this.seed + 7919 * p));
      return drive(drawn, policy, scene.start, steps, noise ? () => noise * normal() : null);
    });
    this.stale = false;
    this.tellOutcomes();
  }

  tellOutcomes() {
    this.rows.forEach((row, p) => {
      const path = this.paths[p], outcome = row.querySelector(".outcome");
      row.classList.toggle("off", !path);
      row.classList.toggle("followed", p === this.followed);
      if (!path) {
        outcome.textContent = "hidden";
        return;
      }
      const end = path[path.length - 1];
      const seconds = (n) => `${(n * this.scene.rules.time_step).toFixed(1)} s`;
      const crash = path.findIndex((state) => state.crashed);
      if (end.crashed && !end.arrived) outcome.textContent = `crashes, ${seconds(crash)}`;
      else if (end.arrived) outcome.textContent = `arrives, ${seconds(end.arrivalStep)}`;
      else outcome.textContent = "does not arrive";
      outcome.className = `outcome ${end.arrived ? "good" : end.crashed ? "bad" : "open"}`;
    });
  }

  add(kind) {
    const [x, y] = this.freePlace();
    if (kind === "goal") {
      this.scene.goals.push({ x, y });
      this.selected = { kind: "goal", index: this.scene.goals.length - 1 };
    } else {
      const one = kind === "circle" ? { a: 0.7, b: 0.7, angle: 0, round: true } : { a: 1.2, b: 0.5, angle: 0.6, round: false };
      this.scene.obstacles.push({ x, y, ...one });
      this.selected = { kind: "obstacle", index: this.scene.obstacles.length - 1 };
    }
    this.restart();
  }

  // A place in the middle of the map that is as free as can be.
  freePlace() {
    const [[left, right], [bottom, top]] = this.scene.rules.start_area;
    let best = [0, 0], most = -Infinity;
    const things = [...this.scene.goals, this.scene.start], solids = this.scene.obstacles.map(solid);
    for (let i = 1; i < 20; i++) {
      for (let j = 1; j < 20; j++) {
        const x = left + (i * (right - left)) / 20, y = bottom + (j * (top - bottom)) / 20;
        const room = Math.min(nearestObstacle(solids, x, y)[1], ...things.map((one) => Math.hypot(one.x - x, one.y - y)));
        const score = Math.min(room, 1.6) - 0.05 * Math.hypot(i - 10, j - 10);
        if (score > most) [best, most] = [[x, y], score];
      }
    }
    return best.map(rounded);
  }

  remove() {
    const { selected, scene } = this;
    if (selected?.kind === "obstacle") scene.obstacles.splice(selected.index, 1);
    else if (selected?.kind === "goal" && scene.goals.length > 1) scene.goals.splice(selected.index, 1);
    else return;
    this.selected = null;
    this.restart();
  }

  // A scene of its own: some obstacles that keep apart from one another, the goal and the start.
  randomScene() {
    const uniform = randomNumbers(Date.now()), scene = structuredClone(this.scene);
    const [[left, right], [bottom, top]] = scene.rules.start_area;
    const place = () => ({ x: rounded(left + (0.08 + 0.84 * uniform()) * (right - left)), y: rounded(bottom + (0.08 + 0.84 * uniform()) * (top - bottom)) });
    scene.start = { ...place(), heading: rounded(2 * Math.PI * uniform() - Math.PI) };
    do scene.goals = [place()];
    while (Math.hypot(scene.goals[0].x - scene.start.x, scene.goals[0].y - scene.start.y) < 5);
    scene.obstacles = [];
    const wanted = 4 + Math.floor(5 * uniform());
    for (let tries = 0; tries < 400 && scene.obstacles.length < wanted; tries++) {
      const round = uniform() < 0.5, a = 0.4 + uniform(), b = round ? a : 0.4 + uniform();
      const one = { ...place(), a: rounded(a), b: rounded(b), angle: round ? 0 : rounded(Math.PI * uniform()), round };
      const others = [...scene.obstacles.map((o) => [o, Math.max(o.a, o.b) + 0.7]), ...scene.goals.map((g) => [g, 1]), [scene.start, 0.8]];
      if (others.every(([o, room]) => Math.hypot(o.x - one.x, o.y - one.y) > room + Math.max(a, b))) scene.obstacles.push(one);
    }
    this.load(scene);
  }

  // The panel -------------------------------------------------------------------------

  buildPanel() {
    const { family } = this;
    this.rows = family.policies.map((policy, p) =>
      el("li", {},
        el("button", { class: "dot", style: `--dot: var(--policy-${p % 6})`, "aria-label": `show or hide ${policy.label}`, title: "show or hide", onclick: () => this.toggle(p) }),
        el("button", { class: "name", title: "follow", onclick: () => this.follow(p) }, policy.label),
        el("span", { class: "outcome" })));
    const scenes = el("select", { "aria-label": "scene", id: "scenes", onchange: () => scenes.value && this.load(family.scenes[scenes.value].scene) },
      ...family.scenes.map(({ name }, n) => el("option", { value: n }, name)));
    this.scenes = scenes;
    this.deleteButton = el("button", { type: "button", id: "delete", onclick: () => this.remove() }, "Delete");
    this.noiseSlider = slider({
      id: "noise", label: "Noise on the actions", min: 0, max: 1.5, step: 0.05, value: 0,
      shown: (value) => (value ? `${Math.round(100 * value)} % of training` : "none"),
      change: (value) => { this.noise = value; this.change(); },
    });
    this.numbers = el("dl", { class: "numbers" });
    this.eyeNote = el("p", { class: "note" });
    return [
      section("Who drives", el("ol", { class: "policies" }, ...this.rows),
        el("p", { class: "note" }, "A dot shows or hides a policy, a name follows it. Task policies were trained on a map each and kept near the central one; the average is their mean.")),
      section("The scene",
        el("div", { class: "row" }, scenes, el("button", { type: "button", id: "random", onclick: () => this.randomScene() }, "Random")),
        el("div", { class: "row tools" },
          ...[["circle", "+ Circle"], ["ellipse", "+ Ellipse"], ["goal", "+ Goal"]].map(([kind, text]) =>
            el("button", { type: "button", id: `add-${kind}`, onclick: () => this.add(kind) }, text)),
          this.deleteButton)),
      section("What robots see", this.eye, this.numbers, this.eyeNote),
      section("Show and shake",
        tick({ id: "layer-field", label: "Field of actions, for robots that face the goal", checked: this.layers.field, change: (on) => { this.layers.field = on; } }),
        tick({ label: "Cone and line of sight", checked: this.layers.sight, change: (on) => { this.layers.sight = on; } }),
        this.noiseSlider),
    ];
  }

  toggle(p) {
    if (!this.shown.delete(p)) this.shown.add(p);
    this.change();
  }

  follow(p) {
    this.followed = p;
    this.shown.add(p);
    this.change();
  }

  // Time ------------------------------------------------------------------------------

  stepOnce() {
    this.playing = false;
    this.time = Math.floor(this.time) + 1;
    if (this.time > this.steps) this.time = 0;
  }

  frame(seconds) {
    if (this.stale) this.refresh();
    // When all have come to their ends, the drive begins again after a short rest.
    const end = Math.max(1, ...this.paths.filter(Boolean).map((path) => path.length - 1));
    if (this.playing && !this.grabbed) {
      this.time += seconds * this.speed;
      if (this.time > end) {
        this.over += seconds;
        this.time = end;
        if (this.over > 1.2) {
          this.time = this.over = 0;
          if (this.noise) this.restart();
        }
      }
    }
    this.draw();
  }

  // Drawing ---------------------------------------------------------------------------

  draw() {
    const { scene, view, family } = this;
    sharp(this.canvas, (context, width, height) => {
      view.fit(width, height);
      drawGrid(context, view);
      const robots = this.paths.map((path) => path && between(path, this.time));
      const goal = robots[this.followed]?.goal ?? 0;
      if (this.layers.field) {
        const policy = family.policies[this.followed];
        if (!this.field?.fits(policy, view)) this.field = new ActionField(policy, view);
        this.field.refresh(this.place, goal);
        this.field.draw(context, view, policyColour(this.followed));
      }
      if (this.layers.sight && robots[this.followed] && !robots[this.followed].crashed) {
        drawSight(context, view, this.place, robots[this.followed]);
      }
      scene.obstacles.forEach((one, index) => drawObstacle(context, view, one, this.isSelected("obstacle", index)));
      scene.goals.forEach((one, index) => drawGoal(context, view, one, scene.rules.arrival_radius, this.isSelected("goal", index)));
      const order = [...family.policies.keys()].sort((a, b) => (a === this.followed) - (b === this.followed));
      for (const p of order) if (this.paths[p]) drawPath(context, view, this.paths[p], this.time, policyColour(p));
      scene.goals.forEach((one, index) => drawGoalName(context, view, one, scene.goals.length > 1 ? `${index + 1}` : ""));
      drawRobot(context, view, { ...scene.start, crashed: false }, colour(this.isSelected("start") ? "accent" : "ink"), { hollow: true });
      for (const p of order) if (robots[p]) drawRobot(context, view, robots[p], policyColour(p), { size: p === this.followed ? 1.15 : 0.95 });
      for (const handle of this.handles()) drawHandle(context, view.to(handle.x, handle.y));
    });
    this.deleteButton.disabled = !(this.selected?.kind === "obstacle" || (this.selected?.kind === "goal" && scene.goals.length > 1));
    this.drawEyes();
  }

  drawEyes() {
    const path = this.paths[this.followed], policy = this.family.policies[this.followed];
    const robot = between(path || [startState(this.scene.start)], this.time);
    const seen = observe(this.place, robot), light = policy.likeness(seen), shade = policyColour(this.followed);
    sharp(this.eye, (context, width, height) => {
      const size = Math.min(width / 2, height - 2), gap = width / 2 - size;
      const parts = [
        { title: "nearest obstacle", distance: seen[0], angle: seen[1], opening: seen[4], knots: policy.knots.map((k) => [k[0], k[1]]) },
        { title: "goal", distance: seen[2], angle: seen[3], knots: policy.knots.map((k) => [k[2], k[3]]) },
      ];
      parts.forEach((part, n) => drawEye(context, n * (width / 2) + gap / 2, 2, size, { ...part, light, shade }));
    });
    const degrees = (angle) => `${told((180 * angle) / Math.PI)}°`;
    const [d_o, phi_o, d_g, phi_g, opening] = seen;
    const [speed, turn] = policy.action(policy.value(seen));
    const { speed_bounds, turn_bounds } = this.scene.rules;
    const pairs = [
      ["d obstacle", d_o < FAR_AWAY ? told(d_o, 2) : "none"],
      ["φ to it", degrees(phi_o)],
      ["φ it covers", degrees(opening)],
      ["speed", clipped(speed, ...speed_bounds).toFixed(2)],
      ["d goal", d_g.toFixed(2)],
      ["φ to it", degrees(phi_g)],
      ["turn", `${degrees(clipped(turn, ...turn_bounds))}/s`],
    ];
    if (this.numbers.children.length !== pairs.length) {
      this.numbers.replaceChildren(...pairs.map(([name]) => el("div", {}, el("dt", {}, name), el("dd", {}))));
    }
    pairs.forEach(([, value], n) => { this.numbers.children[n].lastChild.textContent = value; });
    this.eyeNote.textContent = `Around the robot of “${policy.label}”; ahead is up. Distances d and angles φ are all that it knows. Its action is a weighted sum over ${policy.knots.length} knots, the dots: bright ones are like what it sees now.`;
  }

  // The hand --------------------------------------------------------------------------

  isSelected(kind, index = 0) {
    return this.selected?.kind === kind && this.selected.index === index;
  }

  // Points that resize and turn the selected obstacle, or turn the start.
  handles() {
    const { selected, scene } = this;
    if (selected?.kind === "obstacle") {
      const { x, y, a, b, angle, round } = scene.obstacles[selected.index];
      const first = { x: x + a * Math.cos(angle), y: y + a * Math.sin(angle), part: round ? "radius" : "first" };
      const second = { x: x - b * Math.sin(angle), y: y + b * Math.cos(angle), part: "second" };
      return round ? [first] : [first, second];
    }
    if (selected?.kind === "start") {
      const { x, y, heading } = scene.start;
      return [{ x: x + 0.9 * Math.cos(heading), y: y + 0.9 * Math.sin(heading), part: "heading" }];
    }
    return [];
  }

  // What lies under the pointer: a handle first, then the start, goals, obstacles.
  under(px, py, touch) {
    const reach = touch ? 1.6 * HIT : HIT, { view, scene } = this;
    const near = ({ x, y }, room = 0) => {
      const [hx, hy] = view.to(x, y);
      return Math.hypot(hx - px, hy - py) <= Math.max(reach, room * view.unit);
    };
    const handle = this.handles().find((one) => near(one));
    if (handle) return { ...this.selected, part: handle.part };
    if (near(scene.start)) return { kind: "start", index: 0, part: "body" };
    const goal = scene.goals.findIndex((one) => near(one, scene.rules.arrival_radius));
    if (goal >= 0) return { kind: "goal", index: goal, part: "body" };
    const [x, y] = view.from(px, py);
    const obstacle = scene.obstacles.findLastIndex((one) => {
      const [u, v] = toFrame(solid(one), x, y);
      return surfaceDistance(u, v, one.a, one.b) <= (touch ? 8 : 2) / view.unit;
    });
    return obstacle >= 0 ? { kind: "obstacle", index: obstacle, part: "body" } : null;
  }

  thing({ kind, index }) {
    return kind === "start" ? this.scene.start : kind === "goal" ? this.scene.goals[index] : this.scene.obstacles[index];
  }

  listen() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      const [px, py] = at(event), found = this.under(px, py, event.pointerType === "touch");
      this.selected = found && { kind: found.kind, index: found.index };
      if (found) {
        const [x, y] = this.view.from(px, py), one = this.thing(found);
        this.grabbed = { ...found, dx: one.x - x, dy: one.y - y };
        canvas.setPointerCapture(event.pointerId);
        event.preventDefault();
        canvas.focus({ preventScroll: true });
      }
      this.page.changed();
    });
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      if (!this.grabbed) {
        const found = this.under(px, py, false);
        canvas.style.cursor = found ? (found.part === "body" ? "grab" : "crosshair") : "default";
        return;
      }
      this.drag(...this.view.from(px, py));
      canvas.style.cursor = "grabbing";
    });
    const release = () => { this.grabbed = null; };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    // Fingers that are on nothing scroll the page; those that hold a thing do not.
    canvas.addEventListener("touchstart", (event) => {
      const box = canvas.getBoundingClientRect(), touch = event.changedTouches[0];
      if (this.under(touch.clientX - box.left, touch.clientY - box.top, true)) event.preventDefault();
    }, { passive: false });
  }

  drag(x, y) {
    const { grabbed } = this, one = this.thing(grabbed);
    const length = Math.max(SMALLEST, rounded(Math.hypot(x - one.x, y - one.y)));
    const angle = rounded(Math.atan2(y - one.y, x - one.x));
    if (grabbed.part === "body") [one.x, one.y] = [rounded(x + grabbed.dx), rounded(y + grabbed.dy)];
    else if (grabbed.part === "radius") one.a = one.b = length;
    else if (grabbed.part === "first") [one.a, one.angle] = [length, angle];
    else if (grabbed.part === "second") one.b = length;
    else one.heading = angle;
    this.time = 0;
    this.change();
  }

  // Keys that act on the selected thing; the page's own keys are elsewhere.
  key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const size = event.shiftKey ? 0.5 : 0.1, key = event.key;
    if (key === "Tab" && document.activeElement === this.canvas) return this.selectNext(event.shiftKey ? -1 : 1);
    if (key === "Escape" && this.selected) this.selected = null;
    else if (key === "c") this.add("circle");
    else if (key === "e") this.add("ellipse");
    else if (key === "g") this.add("goal");
    else if (key === "f") document.getElementById("layer-field").click();
    else if (key === "n") this.randomScene();
    else if (/^[1-9]$/.test(key) && key <= this.rows.length) this.toggle(key - 1);
    else if (!this.selected) return false;
    else if (key === "Delete" || key === "Backspace") this.remove();
    else {
      const one = this.thing(this.selected);
      if (moves[key]) {
        one.x = rounded(one.x + size * moves[key][0]);
        one.y = rounded(one.y + size * moves[key][1]);
      } else if (this.selected.kind === "obstacle" && "+-".includes(key)) {
        const grown = (length) => Math.max(SMALLEST, rounded(length + (key === "+" ? 0.1 : -0.1)));
        [one.a, one.b] = [grown(one.a), grown(one.b)];
      } else if ("[]".includes(key) && this.selected.kind !== "goal") {
        const turned = this.selected.kind === "start" ? "heading" : "angle";
        one[turned] = rounded(wrapAngle(one[turned] + (key === "[" ? 0.15 : -0.15)));
      } else return false;
      this.time = 0;
      this.change();
    }
    return true;
  }

  // Tab goes through the things on the map, and leaves it after the last.
  selectNext(direction) {
    const things = [{ kind: "start", index: 0 }, ...this.scene.goals.map((_, index) => ({ kind: "goal", index })), ...this.scene.obstacles.map((_, index) => ({ kind: "obstacle", index }))];
    const now = things.findIndex((one) => this.isSelected(one.kind, one.index));
    const next = now < 0 ? (direction > 0 ? 0 : things.length - 1) : now + direction;
    this.selected = things[next] || null;
    return Boolean(this.selected);
  }

  // The address -----------------------------------------------------------------------

  address() {
    const { start, goals, obstacles } = this.scene;
    const list = (rows) => rows.map((row) => row.map(rounded).join(",")).join(";");
    return {
      start: list([[start.x, start.y, start.heading]]),
      goals: list(goals.map(({ x, y }) => [x, y])),
      obstacles: list(obstacles.map((o) => (o.round ? [o.x, o.y, o.a] : [o.x, o.y, o.a, o.b, o.angle]))),
      ...(this.noise && { noise: rounded(this.noise) }),
    };
  }

  // Takes a scene from the address; what cannot be read is left as it is.
  read(fields) {
    const lists = (text) => (text || "").split(";").filter(Boolean).map((row) => row.split(",").map(Number));
    const sound = (rows, ...lengths) => rows.every((row) => lengths.includes(row.length) && row.every(Number.isFinite));
    const [starts, goals, obstacles] = ["start", "goals", "obstacles"].map((name) => lists(fields.get(name)));
    if (!sound(starts, 3) || !sound(goals, 2) || !sound(obstacles, 3, 5)) return;
    if (obstacles.some((row) => Math.min(...row.slice(2, row.length === 5 ? 4 : 3)) <= 0)) return;
    const scene = structuredClone(this.scene);
    if (starts.length) scene.start = { x: starts[0][0], y: starts[0][1], heading: starts[0][2] };
    if (goals.length) scene.goals = goals.map(([x, y]) => ({ x, y }));
    if (fields.has("obstacles")) {
      scene.obstacles = obstacles.map(([x, y, a, b = a, angle = 0], n) => ({ x, y, a, b, angle, round: obstacles[n].length === 3 }));
    }
    const noise = Number(fields.get("noise"));
    this.noise = Number.isFinite(noise) ? clipped(noise, 0, 1.5) : 0;
    this.noiseSlider.set(this.noise);
    this.load(scene);
  }
}
