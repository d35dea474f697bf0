"use strict";
// The page says everything without this; here is what needs a hand: search, filters, order, copy.
const byId = (id) => document.getElementById(id);
const table = document.querySelector("table.queries");
const bodies = [...table.tBodies];
// What a search looks at: the id, and the text of the query.
const texts = new Map(bodies.map((body) => {
  const text = body.querySelector("summary") || (body.rows[1] && body.rows[1].cells[0]);
  return [body, `${body.rows[0].cells[0].textContent} ${text ? text.textContent : ""}`
    .normalize("NFC").toLowerCase()];
}));
const controls = byId("controls");
const boxes = [...controls.querySelectorAll("input[type=checkbox]")];

function filter() {
  const wanted = byId("search").value.normalize("NFC").toLowerCase().split(/\s+/);
  const marks = boxes.filter((box) => box.checked).map((box) => box.value);
  if (byId("kind").value) marks.push(byId("kind").value);
  const slice = byId("slice") ? byId("slice").value : "";
  let shown = 0;
  for (const body of bodies) {
    const own = body.dataset.is.split(" ");
    const isShown = marks.every((mark) => own.includes(mark)) &&
      wanted.every((word) => texts.get(body).includes(word)) &&
      (!slice || (body.dataset.in || "").split(" ").includes(slice));
    body.hidden = !isShown;
    shown += isShown;
  }
  byId("count").textContent = `${shown} of ${bodies.length} queries`;
}

// A cell sorts by its first number, else by its text; what has none goes last.
function valueOf(body, column) {
  const text = body.rows[0].cells[column].textContent;
  if (column === 0) return text;
  const number = /[−+]?\d[\d.,]*/.exec(text);
  if (number) return parseFloat(number[0].replace("−", "-").replaceAll(",", ""));
  return text.startsWith("=") ? 0 : null;
}

function sort(header, column) {
  const isUp = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const sorted = bodies.map((body) => [valueOf(body, column), body]);
  sorted.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
    return isUp ? order : -order;
  });
  table.append(...sorted.map(([, body]) => body));
}

// A link to a query, from a plot or from outside, finds it whatever is filtered, and opens it.
function reveal() {
  const body = byId(location.hash.slice(1));
  if (!bodies.includes(body)) return;
  if (body.hidden) {
    byId("search").value = byId("kind").value = "";
    if (byId("slice")) byId("slice").value = "";
    for (const box of boxes) box.checked = false;
    filter();
  }
  const details = body.querySelector("details");
  if (details) details.open = true;
  body.scrollIntoView();
  const target = details ? details.firstElementChild : body;
  if (!details) body.tabIndex = -1;
  target.focus({ preventScroll: true });
}

async function copy(button) {
  const source = byId(button.dataset.copy);
  const status = button.parentElement.querySelector("output");
  try {
    await navigator.clipboard.writeText(source.innerText.trim());
    status.textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(source);
    status.textContent = "Selected: press Ctrl+C or ⌘C.";
  }
}

for (const [column, header] of [...table.tHead.rows[0].cells].entries()) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = header.textContent;
  header.replaceChildren(button);
  button.addEventListener("click", () => sort(header, column));
}
for (const control of controls.querySelectorAll("input, select")) {
  control.addEventListener("input", filter);
}
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}
for (const link of document.querySelectorAll("svg a")) {
  // The same link twice changes no address.
  link.addEventListener("click", () => setTimeout(reveal));
}
addEventListener("hashchange", reveal);
controls.hidden = false;
filter();
reveal();
