// Keeps the page up to date: fetches it every five seconds and replaces its live parts. The server has escaped all
// text, and no HTML is made of strings here. Details that a reader has opened stay open; a part that contains the focus
// or a selection is not replaced.
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
  const opened = new Set(Array.from(part.querySelectorAll("details[open]"), (details) => details.id));
  const focused = part.contains(document.activeElement) ? document.activeElement.parentElement.id : "";
  for (const details of fresh.querySelectorAll("details")) details.open = opened.has(details.id);
  part.replaceChildren(...fresh.childNodes);
  const summary = focused && document.getElementById(focused)?.querySelector("summary");
  if (summary) summary.focus({ preventScroll: true });
}

async function refresh() {
  if (paused || document.hidden) return;
  try {
    const response = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(PAUSE) });
    if (!response.ok) throw new Error(String(response.status));
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    document.title = fresh.title;
    for (const part of document.querySelectorAll("[data-live]")) {
      const replacement = fresh.getElementById(part.id);
      if (!replacement || isInUse(part)) continue;
      replace(part, replacement);
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
