"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en");
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children); // strings become text, never markup
  return node;
}
const numbers = new Map(D.words.map((word, i) => [word, i]));
let map = null;

function showWord(i) {
  if (!(i > 0)) return;
  const row = D.near[i - 1];
  const card = at("word");
  card.replaceChildren(make("h3", {}, D.words[i]));
  const about = `${number(D.counts[i])} times, the ${number(i)}${ending(i)} most frequent word`;
  card.append(make("p", { class: "about" }, about, ...(D.codes ? ["; class ", make("code", {}, D.codes[i])] : [])));
  const list = make("ul", { class: "bars" });
  row.forEach((j, k) => {
    const cosine = D.cosines[i - 1][k];
    const bar = make("i", { style: `width:${Math.max(1, cosine)}%` });
    const button = make("button", { type: "button" }, make("span", {}, D.words[j]),
      make("span", {}, (cosine / 100).toFixed(2)), bar);
    button.onclick = () => showWord(j);
    list.append(make("li", {}, button));
  });
  card.append(list);
  at("query").value = D.words[i];
  const mapped = i <= (D.mapped || 0);
  at("answer").textContent = mapped ? "" : "not on the map, which shows the most frequent words only";
  if (map) map.mark(mapped ? i : 0);
}
function ending(n) {
  const tens = n % 100, ones = n % 10;
  return tens > 10 && tens < 14 ? "th" : ["th", "st", "nd", "rd"][ones < 4 ? ones : 0];
}
function search(text) {
  const wanted = text.trim().toLowerCase().normalize("NFC");
  if (!wanted) return;
  if (numbers.has(wanted)) return showWord(numbers.get(wanted));
  const begins = D.words.findIndex((word, i) => i > 0 && word.startsWith(wanted));
  if (begins > 0) return showWord(begins);
  at("answer").textContent = `“${text.trim()}” is not among the ${number(D.words.length - 1)} most frequent words`;
  if (map) map.mark(0);
}
if (at("query")) {
  at("query").addEventListener("change", (event) => search(event.target.value));
  at("search").addEventListener("submit", (event) => { event.preventDefault(); search(at("query").value); });
  at("known").append(...D.words.slice(1).map((word) => make("option", { value: word })));
  document.addEventListener("click", (event) => {
    const chip = event.target.closest("[data-word]");
    if (!chip) return;
    showWord(Number(chip.dataset.word));
    at("map").scrollIntoView();
  });
}

function quote(row, note) {
  const [source, text] = D.documents[row];
  const where = [source, `document ${number(Number(row) + 1)}`, note].filter(Boolean).join(" · ");
  const parts = [text || "(empty)", make("cite", {}, where)];
  if (!(row in D.nearest)) return make("div", { class: "quote" }, ...parts);
  const button = make("button", { class: "quote", type: "button" }, ...parts);
  button.onclick = () => showDocument(row);
  return button;
}
function showDocument(row) {
  const [source, text] = D.documents[row];
  const here = make("div", { class: "quote here" }, text,
    make("cite", {}, [source, `document ${number(Number(row) + 1)}`].filter(Boolean).join(" · ")));
  const near = D.nearest[row].map(([other, score]) => quote(other, `score ${score.toFixed(2)}`));
  at("document").replaceChildren(here, make("h3", {}, near.length ? "Nearest documents" : "No other document is near"), ...near);
}
if (at("document")) {
  const rows = D.sample.length ? D.sample : Object.keys(D.nearest);
  let next = 0;
  at("another").onclick = () => showDocument(rows[(next += 1) % rows.length]);
  if (rows.length) showDocument(rows[0]);
}

// Labels use the text color of the page; narrow screens show fewer of them.
function styleLabels(labels, target) {
  const all = labels.data_source.data;
  const paint = () => {
    labels.glyph.text_color = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  };
  const thin = () => {
    const room = [...(at(target).clientWidth < 600 ? all.narrow : all.wide)];
    const kept = (key) => [...all[key]].filter((_, i) => room[i]);
    labels.data_source.data = { x: kept("x"), y: kept("y"), word: kept("word") };
  };
  paint();
  thin();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  addEventListener("resize", thin);
}

for (const [name, item] of Object.entries(D.plots)) {
  item.target_id = `plot-${name}`;
  Bokeh.embed.embed_item(item).then((views) => {
    if (name === "zipf") return;
    const root = [...views][0].model, doc = root.document;
    if (matchMedia("(pointer: coarse)").matches) root.toolbar.active_drag = null; // so that a finger can scroll the page
    const labels = doc.get_model_by_name(name === "map" ? "labels" : "document-labels");
    if (labels) styleLabels(labels, item.target_id);
    if (name !== "map") return;
    const words = doc.get_model_by_name("words"), ring = doc.get_model_by_name("marker");
    map = { mark(i) {
      const column = (key) => (i ? [words.data[key][i - 1]] : []);
      ring.data = { x: column("x"), y: column("y"), word: column("word") };
    } };
    words.selected.properties.indices.change.connect(() => {
      const [i] = words.selected.indices;
      if (i !== undefined) showWord(i + 1);
    });
    if (first) map.mark(first <= D.mapped ? first : 0);
  });
}
const first = Number(at("word")?.dataset.first || 0);
if (first) showWord(first);
