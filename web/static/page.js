// The script of the admin page. It does four things, each without which the page still works:
// it applies updates, counts ages on, answers keys, and opens dialogs. Updates are text and
// numbers: nothing here ever makes HTML.
const root = document.documentElement, body = document.body;
const $ = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
root.classList.add("js");

// Ages: by the server's clock, counted on by ours.
let told = Number(body.dataset.now), heard = performance.now();
const now = () => told + performance.now() - heard;
function age(ms) {
  const s = Math.floor(Math.max(0, ms) / 1000), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return s + " s";
  if (s < 600) return Math.floor(s / 60) + "m" + two(s % 60) + "s";
  if (s < 3600) return Math.floor(s / 60) + "m";
  if (s < 86400) return Math.floor(s / 3600) + "h " + (Math.floor(s / 60) % 60) + "m";
  return Math.floor(s / 86400) + "d " + (Math.floor(s / 3600) % 24) + "h";
}
function write(node, text) { if (node.textContent !== text) node.textContent = text; }
function tick(time) {
  const { since, until } = time.dataset;
  if (since) write(time, age(now() - since));
  if (until) write(time, until > now() ? "in " + age(until - now()) : "now");
}

// One cell: its element is there already, as the kind of its column has it.
const safe = (href) => /^(\/(?!\/)|https?:\/\/)/.test(href);
function fill(cell, value) {
  cell.className = value.l || "";
  const kind = cell.dataset.kind, text = value.t || "";
  if (kind === "since" || kind === "until") {
    const time = $("time", cell);
    delete time.dataset[kind];
    time.removeAttribute("datetime");
    time.title = "";
    if (!value.a) return write(time, text);
    time.dataset[kind] = value.a;
    time.dateTime = time.title = new Date(value.a).toISOString();
    return tick(time);
  }
  if (kind === "meter") {
    const meter = $("meter", cell);
    meter.hidden = !value.m;
    meter.max = value.m || 1;
    meter.value = value.v || 0;
    return write($("span", cell), text);
  }
  if (kind === "link") {
    const link = $("a", cell);
    if (value.h && safe(value.h)) link.setAttribute("href", value.h);
    else link.removeAttribute("href");
    return write(link, text);
  }
  if (kind === "act") {
    const link = $("a", cell);
    if (safe(value.h || "")) link.setAttribute("href", value.h);
    link.dataset.about = value.r || "";
    link.setAttribute("aria-label", text + " " + link.dataset.about);
    return write(link, text);
  }
  if (kind === "pick") {
    const box = $("input", cell);
    box.value = value.r || "";
    return box.setAttribute("aria-label", text);
  }
  if (kind === "spark") write(cell.lastElementChild, value.r || "");
  write(cell.firstElementChild, text);
}

function patchTable(name, patch) {
  const table = $(`[data-table="${name}"]`), form = $(`[data-row="${name}"]`);
  if (!table) return;
  const tbody = table.tBodies[0], rows = new Map([...tbody.rows].map((row) => [row.dataset.key, row]));
  const stays = patch.whole && new Set((patch.rows || []).map((row) => row.k));
  for (const key of patch.whole ? [...rows.keys()].filter((k) => !stays.has(k)) : patch.gone || []) {
    rows.get(key)?.remove();
    rows.delete(key);
  }
  for (const { k, l, c, p } of patch.rows || []) {
    let row = rows.get(k);
    if (!row) {
      row = form.content.firstElementChild.cloneNode(true);
      row.dataset.key = k;
      rows.set(k, row);
      if (!patch.whole) row.classList.add("fresh");
    }
    const fresh = row.classList.contains("fresh");
    row.className = l || "";
    row.classList.toggle("fresh", fresh);
    c.forEach((value, i) => fill(row.cells[i], value));
    const before = p ? rows.get(p)?.nextElementSibling : tbody.firstElementChild;
    if (before !== row && row.previousElementSibling !== (p ? rows.get(p) : null) || !row.isConnected) tbody.insertBefore(row, before ?? null);
  }
  table.hidden = !patch.size;
  const empty = $(`[data-empty="${name}"]`);
  if (empty) empty.hidden = patch.size > 0;
}

// Updates. The stream says something at least every 15 s; silence for longer is a loss.
const stale = $("#stale"), button = $("#live"), silence = 25000;
let stream, last = performance.now(), lost = 0, over = false;
function apply(patch) {
  told = patch.now;
  heard = performance.now();
  for (const [name, value] of Object.entries(patch.fields || {})) {
    const field = $(`[data-field="${name}"]`);
    if (!field) continue;
    const cell = field.matches("dd, p") ? field : $("dd", field);
    fill(cell, value);
    field.className = value.l || "";
  }
  for (const [name, table] of Object.entries(patch.tables || {})) patchTable(name, table);
}
function alive() { last = performance.now(); lost = 0; stale.hidden = true; }
function listen() {
  stream = new EventSource(body.dataset.live);
  stream.onopen = alive;
  stream.onmessage = (event) => { alive(); apply(JSON.parse(event.data)); };
  stream.addEventListener("alive", (event) => { alive(); told = Number(event.data); heard = last; });
  stream.addEventListener("over", (event) => { over = true; stream.close(); stale.hidden = false; write(stale, event.data); });
  stream.onerror = () => {
    lost ||= last;
    if (stream.readyState === EventSource.CLOSED && !over) again();
  };
}
let waiting;
function again() {
  stream.close();
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (button.getAttribute("aria-pressed") === "true") listen(); }, 2000);
}
function pause() {
  if (!button) return;
  const on = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(on));
  write($("#live-text"), on ? "live" : "paused");
  stale.hidden = true;
  lost = 0;
  clearTimeout(waiting);
  if (on) { last = performance.now(); listen(); } else stream.close();
}
function seen() { // six connections to a server are all that a browser has: a page that nobody sees keeps none
  if (over || button.getAttribute("aria-pressed") !== "true") return;
  clearTimeout(waiting);
  stream.close();
  last = performance.now();
  if (!document.hidden) listen();
}
if (button) {
  button.addEventListener("click", pause);
  addEventListener("visibilitychange", seen);
  listen();
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}
setInterval(() => {
  all("time[data-since], time[data-until]").forEach(tick);
  if (!button || over || button.getAttribute("aria-pressed") !== "true") return;
  if (document.hidden) return;
  const quiet = performance.now() - last;
  if (!lost && quiet > silence) { lost = last; again(); }
  if (lost) {
    stale.hidden = false;
    write(stale, `updates paused ${age(performance.now() - lost)} ago, retrying`);
  }
}, 1000);

// Dialogs: what opens one is a link to the same form as a page of its own.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]"), closer = event.target.closest("[data-closes]");
  if (opener) {
    const dialog = document.getElementById(opener.dataset.opens);
    if (dialog?.showModal) {
      event.preventDefault();
      if (opener.dataset.about) { // the same form for each row: it is sent to where the row's link leads
        $("form", dialog).action = opener.href;
        write($("[data-about]", dialog), opener.dataset.about);
      }
      dialog.showModal();
    }
  } else if (closer?.closest("dialog")) {
    event.preventDefault();
    closer.closest("dialog").close();
  } else if (event.target.dataset.copy) {
    navigator.clipboard?.writeText(document.getElementById(event.target.dataset.copy).textContent).then(() => write(event.target, "Copied"));
  } else if (!event.target.closest("a, button, input, label, select, summary, [contenteditable]") && String(getSelection()) === "") {
    $("a.main[href]", event.target.closest("tr") || document.createElement("i"))?.click();
  }
});

// Keys, as in a list of mail. Nothing is taken from somebody who types or chose a modifier.
let going = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]") || event.target.matches("input, select, textarea")) return;
  const { key } = event;
  const links = () => all("tr a.main[href]"), at = () => links().indexOf(document.activeElement?.closest?.("tr")?.querySelector("a.main"));
  if (going && performance.now() - going < 1500) {
    going = 0;
    const section = $(`nav a[data-key="${CSS.escape(key)}"]`);
    if (section) { event.preventDefault(); section.click(); }
    return;
  }
  const act = {
    g: () => { going = performance.now(); },
    j: () => links()[Math.min(at() + 1, links().length - 1)]?.focus(),
    k: () => links()[Math.max(at() - 1, 0)]?.focus(),
    "/": () => $("#q")?.focus(),
    p: pause,
    "?": () => $("#keys")?.showModal(),
  }[key];
  if (act) { event.preventDefault(); act(); }
});
