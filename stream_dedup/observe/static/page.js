// Keeps the page up to date: every five seconds it is fetched anew, and its live parts take the place of the old ones.
// The server has escaped all text; nothing is made of strings here. What a reader has opened stays open, and a part
// that has the focus or a selection in it waits.
"use strict";

const PAUSE = 5000;
const button = document.getElementById("pause");
const connection = document.getElementById("connection");
let paused = false;

function isInUse(part) {
  const selection = document.getSelection();
  const selected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  return selected || (part.contains(document.activeElement) && document.activeElement.tagName !== "SUMMARY");
}

function replace(part, fresh) {
  const opened = new Set(Array.from(part.querySelectorAll("details[open]"), (one) => one.id));
  const focused = part.contains(document.activeElement) ? document.activeElement.parentElement.id : "";
  for (const one of fresh.querySelectorAll("details")) one.open = opened.has(one.id);
  part.replaceChildren(...fresh.childNodes);
  const summary = focused && document.getElementById(focused)?.querySelector("summary");
  if (summary) summary.focus({ preventScroll: true });
}

async function refresh() {
  if (paused || document.hidden) return;
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(PAUSE) });
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = fresh.title;
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (!other || isInUse(part)) continue;
      replace(part, other);
    }
    connection.hidden = true;
  } catch {
    connection.hidden = false;
  }
}

button.hidden = false;
button.addEventListener("click", () => {
  paused = !paused;
  button.setAttribute("aria-pressed", String(paused));
  if (!paused) refresh();
});
setInterval(refresh, PAUSE);
