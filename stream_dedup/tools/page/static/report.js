// Narrows the pairs of a report down by words, reason and source, and folds or unfolds them. Makes no HTML of strings.
"use strict";

function textOf(pair) {
  // What comes from the items stands in <bdi>; the words around it are the same in all pairs.
  return Array.from(pair.querySelectorAll("bdi"), (one) => one.textContent).join(" ").toLowerCase();
}

const pairs = Array.from(document.querySelectorAll("details.one"), (pair) => ({ pair, text: textOf(pair) }));
const [query, reason, source, fold] = ["query", "reason", "source", "fold"].map((id) => document.getElementById(id));

for (const select of [reason, source]) {
  const values = new Set(pairs.map(({ pair }) => pair.dataset[select.id]));
  for (const value of Array.from(values).sort()) if (value) select.add(new Option(value, value));
}

function narrow() {
  const words = query.value.toLowerCase().split(/\s+/);
  for (const { pair, text } of pairs) {
    const isChosen = [reason, source].every((select) => !select.value || pair.dataset[select.id] === select.value);
    pair.hidden = !(isChosen && words.every((word) => text.includes(word)));
  }
  const isNarrow = query.value.trim() || reason.value || source.value;
  for (const note of document.querySelectorAll(".matches")) {
    const found = note.closest("section").querySelectorAll("details.one:not([hidden])").length;
    note.textContent = isNarrow ? `${found} of them match.` : "";
  }
}

for (const field of [query, reason, source]) field.addEventListener("input", narrow);
fold.addEventListener("click", () => {
  const isOpen = fold.textContent === "Unfold all";
  fold.textContent = isOpen ? "Fold all" : "Unfold all";
  for (const { pair } of pairs) pair.open = isOpen;
});
document.getElementById("filter").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("filter").hidden = pairs.length === 0;
