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

// Words that say nothing here, and others for a word: what people ask, and what upstream calls it.
const IDLE = new Set(["a", "an", "the", "to", "of", "in", "into", "for", "from", "with", "and"]);
const ALSO = { lower: "convert", lowering: "convert", add: "addition", subtract: "subtraction", multiply: "multiplication",
  divide: "division", remove: "eliminate", simplify: "canonicalize", optimise: "optimize", print: "dump" };

function asked(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean), plain = words.filter((word) => !IDLE.has(word));
  // "integers" finds "integer".
  return (plain.length ? plain : words).map((word) => [word, ...(word.length > 3 && word.endsWith("s") ? [word.slice(0, -1)] : []),
    ...(ALSO[word] ? [ALSO[word]] : [])]);
}

// Smaller is better: the whole name, its last part, a beginning, anywhere, in what is said of it; then what is shorter.
function rank([name, , kind, about = ""], words) {
  const low = name.toLowerCase(), text = `${low} ${about.toLowerCase()}`;
  if (!words.every((forms) => forms.some((form) => text.includes(form)))) return Infinity;
  const word = words[words.length - 1][0], last = low.slice(low.lastIndexOf(".") + 1);
  const place = !words.every((forms) => low.includes(forms[0])) ? 5
    : low === word ? 0 : last === word ? 1 : low.startsWith(word) ? 2 : last.startsWith(word) ? 3 : 4;
  return place * 1000 + (place > 3 ? text.length - (kind === "pass" ? 500 : 0) : name.length);
}

function show() {
  const words = asked(field.value);
  list.hidden = !words.length || typeof names === "undefined";
  if (list.hidden) return;
  const found = names.map((row) => [rank(row, words), row]).filter((pair) => pair[0] < Infinity);
  found.sort((a, b) => a[0] - b[0]);
  list.replaceChildren(...found.slice(0, LIMIT).map(([, [name, place, kind, about]]) => {
    const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
    link.href = place;
    small.textContent = about ? `${kind}: ${about}` : kind;
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
const query = new URLSearchParams(location.search).get("q");
if (query) { field.value = query; load(); }
