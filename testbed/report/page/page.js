"use strict";
// Sorts a table by the column whose heading was chosen, filters rows of all tables, and shows a picture large.
// The page says all it has to say without it.
const plain = (cell) => {
  const text = cell.textContent.trim();
  const n = parseFloat(text.replace(/[^0-9.eE+-]/g, ""));
  return /^[-+]?[0-9]/.test(text) && !Number.isNaN(n) ? n : text;
};
const order = (a, b) => typeof a === typeof b ? (a > b) - (b > a) : typeof a === "number" ? -1 : 1;
for (const head of document.querySelectorAll("th")) {
  head.tabIndex = 0;
  const sort = () => {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].sort((a, b) => order(plain(a.cells[column]), plain(b.cells[column])));
    body.append(...(down ? rows.reverse() : rows));
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sort(); } });
}
const filter = document.getElementById("filter");
if (filter) {
  filter.hidden = false;
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const table of document.querySelectorAll("#table table")) {
      const title = table.closest(".panel").querySelector("h3").textContent.toLowerCase();
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        const text = title + " " + row.textContent.toLowerCase();
        row.hidden = !words.every((w) => text.includes(w));
        shown += row.hidden ? 0 : 1;
      }
      table.closest(".panel").hidden = shown === 0;
    }
  });
}
const dialog = document.getElementById("large");
for (const picture of document.querySelectorAll(".panel svg[role=img]")) {
  picture.classList.add("zooms");
  picture.addEventListener("click", () => {
    const frame = dialog.querySelector("div");
    frame.replaceChildren(picture.cloneNode(true));
    dialog.showModal();
  });
}
for (const button of dialog.querySelectorAll("button")) {
  button.addEventListener("click", () => {
    if (!button.value) return dialog.close();
    const picture = dialog.querySelector("svg");
    picture.style.width = Math.max(100, (parseFloat(picture.style.width) || 100) * parseFloat(button.value)) + "%";
  });
}
