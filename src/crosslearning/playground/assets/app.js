// The page: its views, the clock, keys, and the address.
"use strict";

const HINTS = {
  drive: "Drag the obstacles, the goal or the robot. All policies drive anew while you do.",
  swing: "Grab a pendulum and throw it. Choose one to change its gravity, mass and length.",
  learn: "Press Learn: three pendulums that nobody knows yet are swung up from seconds of data.",
};

class App {
  constructor(data) {
    this.still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.makers = {
      drive: () => new DriveView(readFamily(data.drive[this.chosen.drive]), this),
      swing: () => new SwingView(readFamily(data.swing[this.chosen.swing]), this),
      learn: () => new LearnView(data.learn, this),
    };
    this.data = data;
    this.chosen = { drive: 0, swing: 0 };
    this.views = {};
    this.stage = document.getElementById("stage");
    this.panel = document.getElementById("panel");
    this.hint = document.getElementById("hint");
    this.frames = [];
    this.tabs = [...document.querySelectorAll("[data-view]")];
    for (const tab of this.tabs) tab.addEventListener("click", () => this.open(tab.dataset.view));
    this.playButton = document.getElementById("play");
    this.playButton.addEventListener("click", () => this.toggle());
    document.getElementById("step").addEventListener("click", () => this.view.stepOnce());
    document.getElementById("restart").addEventListener("click", () => this.view.restart());
    this.speed = slider({
      id: "speed", label: "Speed", min: -2, max: 2, step: 0.5, value: 0,
      shown: (value) => `${2 ** value}×`,
      change: (value) => { this.pace = 2 ** value; },
    });
    this.pace = 1;
    document.getElementById("speed-here").replaceWith(this.speed);
    document.getElementById("share").addEventListener("click", () => this.share());
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => this.read());
    window.addEventListener("resize", () => COLOURS.clear());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => COLOURS.clear());
    this.read();
    requestAnimationFrame((now) => this.frame(now, now));
  }

  // Views -----------------------------------------------------------------------------

  open(name, fresh = false) {
    if (fresh || !this.views[name]) this.views[name] = this.makers[name]();
    if (this.view && this.view !== this.views[name]) this.view.leave?.();
    this.name = name;
    this.view = this.views[name];
    for (const tab of this.tabs) tab.setAttribute("aria-selected", tab.dataset.view === name);
    this.stage.replaceChildren(this.view.canvas);
    this.panel.replaceChildren(...this.familyChoice(), ...this.view.panel);
    this.hint.textContent = HINTS[name];
    document.body.dataset.open = name;
    this.changed();
  }

  // Where the page was written for several runs, which of them is on show.
  familyChoice() {
    const families = this.data[this.name];
    if (!Array.isArray(families) || families.length < 2) return [];
    const select = el("select", { id: "family", "aria-label": "run", onchange: () => {
      this.chosen[this.name] = +select.value;
      this.open(this.name, true);
    } }, ...families.map(({ title }, n) => el("option", { value: n, selected: n === this.chosen[this.name] }, title)));
    return [section("Run", select)];
  }

  // The clock -------------------------------------------------------------------------

  toggle() {
    this.view.playing = !this.view.playing;
  }

  frame(now, before) {
    this.frames.push(now);
    if (this.frames.length > 120) this.frames.shift();
    const seconds = Math.min((now - before) / 1000, 0.1);
    this.view.frame(seconds * this.pace);
    const label = this.view.playing ? "Pause" : "Play";
    if (this.playButton.getAttribute("aria-label") !== label) {
      this.playButton.setAttribute("aria-label", label);
      this.playButton.classList.toggle("playing", this.view.playing);
    }
    requestAnimationFrame((next) => this.frame(next, now));
  }

  // Keys ------------------------------------------------------------------------------

  key(event) {
    const typing = event.target.closest?.("select, input");
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape")) return;
    const pressed = event.target.closest?.("button");
    const own = {
      " ": () => this.toggle(),
      ".": () => this.view.stepOnce(),
      r: () => this.view.restart(),
      "?": () => document.getElementById("keys").toggleAttribute("open"),
    }[event.key];
    if (own && !(pressed && event.key === " ")) own();
    else if (!this.view.key(event)) return;
    event.preventDefault();
  }

  // The address -----------------------------------------------------------------------

  changed() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.write(), 250);
  }

  get address() {
    const fields = Object.entries(this.view.address()).map(([name, value]) => `${name}=${value}`);
    return `#${[this.name, ...fields].join("&")}`;
  }

  write() {
    this.written = this.address;
    try {
      history.replaceState(null, "", this.written);
    } catch {
      // A page inside another one may not be allowed to change its address.
    }
  }

  read() {
    const hash = decodeURIComponent(location.hash.slice(1));
    if (this.view && `#${hash}` === this.written) return;
    const [name, ...fields] = hash.split("&");
    this.open(name in this.makers ? name : "drive");
    if (fields.length) this.view.read(new URLSearchParams(fields.join("&")));
  }

  async share() {
    this.write();
    const button = document.getElementById("share"), link = location.href.split("#")[0] + this.written;
    try {
      await navigator.clipboard.writeText(link);
      button.textContent = "Link copied";
    } catch {
      button.textContent = "It is in the address bar";
    }
    setTimeout(() => { button.textContent = "Copy link"; }, 1800);
  }
}

window.addEventListener("DOMContentLoaded", () => {
  window.playground = new App(JSON.parse(document.getElementById("data").textContent));
});
