// Finds what is in names.js: rows of a name, its place and its kind. It is loaded at the first use of the field.
const form = document.querySelector(".search"), field = form.querySelector("input"), list = form.querySelector("ol");
const LIMIT = 30;

function load() {
  if (typeof names !== "undefined" || form.dataset.loading) return;
  form.dataset.loading = "1";
  const script = document.createElement("script");
  script.src = "names.js"; // a script and not a request: those do not work for pages opened as files
  script.onload = show;
  document.head.append(script);
}

// Smaller is better: the whole name, its last part, a beginning, anywhere; then the shorter name.
function rank(name, words) {
  const low = name.toLowerCase();
  if (!words.every((word) => low.includes(word))) return Infinity;
  const word = words[words.length - 1], last = low.slice(low.lastIndexOf(".") + 1);
  const place = low === word ? 0 : last === word ? 1 : low.startsWith(word) ? 2 : last.startsWith(word) ? 3 : 4;
  return place * 1000 + name.length;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  list.hidden = !words.length || typeof names === "undefined";
  if (list.hidden) return;
  const found = names.map((row) => [rank(row[0], words) , row]).filter((pair) => pair[0] < Infinity);
  found.sort((a, b) => a[0] - b[0]);
  list.replaceChildren(...found.slice(0, LIMIT).map(([, [name, place, kind]]) => {
    const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
    link.href = place;
    small.textContent = kind;
    link.append(name, small);
    item.append(link);
    return item;
  }));
  if (!found.length) list.replaceChildren(Object.assign(document.createElement("li"), { textContent: "Nothing found" }));
}

field.addEventListener("focus", load);
field.addEventListener("input", () => { load(); show(); });
form.addEventListener("submit", (event) => { event.preventDefault(); list.querySelector("a")?.click(); });
list.addEventListener("click", () => { list.hidden = true; });
// The arrow keys move between the field and what was found.
form.addEventListener("keydown", (event) => {
  const places = [field, ...list.querySelectorAll("a")], step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || list.hidden) return;
  event.preventDefault();
  const place = places.indexOf(document.activeElement) + step;
  places[Math.max(0, Math.min(place, places.length - 1))].focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !list.hidden) {
    if (list.contains(document.activeElement)) field.focus();
    list.hidden = true;
  }
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
});
const asked = new URLSearchParams(location.search).get("q");
if (asked) { field.value = asked; load(); }
