// Small helpers: elements, sliders, colours, canvases.
"use strict";

// el("button", {class: "primary", onclick: f}, "Learn"): an element with attributes and children.
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), ...children);
}

// A labelled slider; shown(value) is what stands beside the label.
function slider({ label, min, max, step, value, shown, change, id }) {
  const output = el("output", {}, shown(value));
  const input = el("input", { type: "range", min, max, step, value, id, "aria-label": label });
  input.addEventListener("input", () => {
    output.textContent = shown(+input.value);
    change(+input.value);
  });
  const row = el("label", { class: "slider" }, el("span", {}, label), output, input);
  row.set = (number, text = shown(number)) => {
    input.value = number;
    output.textContent = text;
  };
  return row;
}

function tick({ label, checked, change, id }) {
  const input = el("input", { type: "checkbox", checked, id });
  input.addEventListener("change", () => change(input.checked));
  return el("label", { class: "tick" }, input, label);
}

function choice({ label, options, value, change, id }) {
  const buttons = options.map(([name, text]) =>
    el("button", { type: "button", "data-value": name, onclick: () => select(name) }, text));
  const group = el("div", { class: "choice", role: "group", "aria-label": label, id }, ...buttons);
  function select(name, tell = true) {
    for (const one of buttons) one.setAttribute("aria-pressed", one.dataset.value === name);
    if (tell) change(name);
  }
  select(value, false);
  group.set = (name) => select(name, false);
  return group;
}

// Colours live in the style sheet, for light and dark; canvases read them from there, once for each
// of the two modes and sizes of the window.
const COLOURS = new Map();

function colour(name) {
  if (!COLOURS.has(name)) {
    COLOURS.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  }
  return COLOURS.get(name);
}

// The size of the page's own text, in pixels.
function rem() {
  if (!COLOURS.has("rem")) COLOURS.set("rem", parseFloat(getComputedStyle(document.documentElement).fontSize));
  return COLOURS.get("rem");
}

// Text on a canvas, as large as that of the page: sizes are in its rem.
function font(size, weight = 400) {
  return `${weight} ${size * rem()}px ${colour("font")}`;
}

function policyColour(index) {
  return colour(`policy-${index % 6}`);
}

// A number as people write it: with a minus sign, not a hyphen.
const told = (value, digits = 0) => value.toFixed(digits).replace("-", "−");

const rounded = (value) => +value.toFixed(3);

// A canvas that is as sharp as its screen. draw(context, width, height) works in CSS pixels.
function sharp(canvas, draw) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  if (width && height) draw(context, width, height);
}
