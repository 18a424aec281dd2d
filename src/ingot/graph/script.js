"use strict";
const graph = JSON.parse(document.getElementById("graph-data").textContent);
const rows = document.getElementById("rows");
const count = (value) => {
  for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (value >= size) return (value / size).toPrecision(3) + " " + unit;
  return String(Math.round(value));
};
const typed = (tensor) => `${tensor.dtype}[${tensor.shape.join(",")}]`;
const flopsOf = (module) => module.flops_forward + module.flops_backward;
const total = flopsOf(graph.model) || 1;

// The rows as a tree: a module has its ops and the modules inside, in the order in which they ran.
function ofModule(module) {
  const repeats = module.repeats || 1;
  const first = (node) => Math.min(Infinity, ...node.ops.map((op) => op.number), ...node.modules.map(first));
  const inside = [
    ...module.ops.map((op) => [op.number, ofOp(op)]),
    ...module.modules.map((each) => [first(each), ofModule(each)]),
  ].sort((a, b) => a[0] - b[0]).map((pair) => pair[1]);
  return {
    kind: "module",
    name: module.name || graph.title,
    full: module.module,
    last: module.last,
    repeats,
    what: module.parameters.map((each) => `${each.name} ${typed(each)}`).join("  "),
    parameters: module.parameter_count,
    flops: flopsOf(module),
    bytes: module.bytes,
    inside,
  };
}
function ofOp(op) {
  return {
    kind: op.backward ? "op backward" : "op",
    name: op.op + (op.backward ? " backward" : ""),
    what: op.result,
    flops: op.flops,
    bytes: op.bytes,
    inside: op.kernels.map((kernel) => ({
      kind: "kernel",
      name: `${kernel.kernel} (${kernel.implementation})`,
      what: kernel.operands.map((each) => `${each.name} ${typed(each)}`).join("  "),
      flops: kernel.flops,
      bytes: kernel.bytes,
      inside: [],
    })),
  };
}

function cell(row, kind, text) {
  const made = document.createElement("td");
  made.className = kind;
  made.textContent = text;
  row.append(made);
  return made;
}
// A name, which may break behind a dot or an underscore.
const breakable = (text) => text.split(/(?<=[._])/).flatMap((part, i) => (i > 0 ? [document.createElement("wbr"), part] : [part]));
// `times`: how often the modules around it repeat.
function show(node, depth, parent, times) {
  times *= node.repeats || 1;
  node.parent = parent;
  node.row = document.createElement("tr");
  node.row.className = node.kind;
  const name = cell(node.row, "name", "");
  name.style.setProperty("--depth", depth);
  if (node.inside.length > 0) {
    node.button = document.createElement("button");
    node.button.type = "button";
    node.button.setAttribute("aria-label", `unfold ${node.name}`);
    node.button.addEventListener("click", () => unfold(node, !node.open));
    name.append(node.button);
  }
  name.append(...breakable(node.last === undefined ? node.name : `${node.name} to ${node.last}`));
  if (node.full) name.title = node.full;
  if (node.repeats > 1) {
    const times = document.createElement("span");
    times.className = "repeats";
    times.textContent = `× ${node.repeats}`;
    name.append(times);
  }
  cell(node.row, "what", node.what);
  cell(node.row, "n", node.parameters ? count(node.parameters) : "");
  const flops = cell(node.row, "n flops", node.flops ? count(node.flops) : "");
  flops.style.setProperty("--share", `${(100 * node.flops * times) / total}%`);
  cell(node.row, "n", node.bytes ? `${count(node.bytes)}B` : "");
  rows.append(node.row);
  for (const each of node.inside) show(each, depth + 1, node, times);
}
function refresh(node, visible) {
  node.row.hidden = !visible;
  if (node.button) node.button.setAttribute("aria-expanded", String(Boolean(node.open)));
  for (const each of node.inside) refresh(each, visible && Boolean(node.open));
}
function unfold(node, open) {
  node.open = open;
  refresh(root, true);
}
function walk(node, visit, depth = 0) {
  visit(node, depth);
  for (const each of node.inside) walk(each, visit, depth + 1);
}

const root = ofModule(graph.model);
show(root, 0, null, 1);
// Open as deep as the modules of one layer, so that the whole is seen first.
walk(root, (node, depth) => { node.open = node.kind === "module" && depth < 4; });
refresh(root, true);

document.getElementById("open").addEventListener("click", () => {
  walk(root, (node) => { node.open = node.kind !== "kernel"; });
  refresh(root, true);
});
document.getElementById("close").addEventListener("click", () => {
  walk(root, (node, depth) => { node.open = depth === 0; });
  refresh(root, true);
});
document.getElementById("search").addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  walk(root, (node) => {
    const found = wanted !== "" && node.kind !== "kernel" && `${node.full || ""} ${node.name}`.toLowerCase().includes(wanted);
    node.row.classList.toggle("found", found);
    for (let around = node.parent; found && around; around = around.parent) around.open = true;
  });
  refresh(root, true);
  const first = rows.querySelector(".found:not([hidden])");
  if (first) first.scrollIntoView({block: "center"});
});

document.title = `${graph.title}: model graph`;
document.getElementById("title").textContent = graph.title;
document.getElementById("subtitle").textContent =
  `${graph.input}, ${graph.backward ? "forward and backward" : "forward"}`;
const figures = [
  ["Parameters", count(graph.model.parameter_count)],
  ["FLOPs forward", count(graph.model.flops_forward)],
  ...(graph.backward ? [["FLOPs backward", count(graph.model.flops_backward)]] : []),
  ["Memory traffic", `${count(graph.model.bytes)}B`],
  ["Activations at most", `${count(graph.activation_bytes)}B`],
];
for (const [label, value] of figures) {
  const figure = document.createElement("div");
  figure.className = "figure";
  figure.append(Object.assign(document.createElement("span"), {textContent: label}),
    Object.assign(document.createElement("strong"), {textContent: value}));
  document.getElementById("figures").append(figure);
}

const theme = (name) => { document.documentElement.dataset.theme = name; };
theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.getElementById("theme").addEventListener("click", () => {
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
});
