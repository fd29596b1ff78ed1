"use strict";
// Tables sort by their heads, a button changes the colours, the contents show where one is.

const collator = new Intl.Collator("en", { numeric: true });

// Numbers, then texts, then cells with nothing to say, in both directions.
function keyOf(cell) {
  if (cell.dataset.value !== undefined) return [0, Number(cell.dataset.value)];
  return cell.dataset.nothing === undefined ? [1, cell.textContent] : [2, 0];
}

function compare(a, b, sign) {
  if (a[0] !== b[0]) return a[0] - b[0];
  return sign * (a[0] === 1 ? collator.compare(a[1], b[1]) : a[1] - b[1]);
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  if (original.length < 2) return;
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      // Ascending, descending, and back to the order of the report.
      const next = { none: "ascending", ascending: "descending", descending: "none" };
      const order = next[head.getAttribute("aria-sort")];
      heads.forEach((other) => other.setAttribute("aria-sort", other === head ? order : "none"));
      const rows = [...original];
      if (order !== "none") {
        const sign = order === "ascending" ? 1 : -1;
        const keys = new Map(rows.map((row) => [row, keyOf(row.cells[place])]));
        rows.sort((a, b) => compare(keys.get(a), keys.get(b), sign));
      }
      body.append(...rows);
    });
  });
}

// Fades the right edge of what goes on beyond it; the keyboard stops at what can be scrolled.
function showMore(box) {
  const update = () => {
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    const fits = box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight;
    box.tabIndex = fits ? -1 : 0;
  };
  box.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(box);
}

function addThemeButton() {
  const key = "carbon-gym-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "theme";
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => (button.textContent = dark() ? "Light" : "Dark");
  // Storage is refused to pages in some frames; then a choice lasts as long as the page.
  try {
    root.dataset.theme = localStorage.getItem(key) ?? "";
  } catch {}
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.setItem(key, root.dataset.theme);
    } catch {}
    label();
  });
  system.addEventListener("change", label);
  label();
  document.querySelector("header").append(button);
}

function markPlace() {
  const links = new Map(
    [...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]),
  );
  const visible = new Set();
  const sections = [...document.querySelectorAll("main > section")];
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) visible.add(entry.target);
        else visible.delete(entry.target);
      }
      const first = sections.find((section) => visible.has(section));
      for (const [name, link] of links) {
        if (first && name === first.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-10% 0px -60% 0px" },
  );
  sections.forEach((section) => observer.observe(section));
}

// A link into a folded section opens it.
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = target?.closest("details") ?? target?.querySelector(":scope > details");
  if (!details || details.open) return;
  details.open = true;
  target.scrollIntoView();
}

document.querySelectorAll("figure.table table").forEach(makeSortable);
document.querySelectorAll(".scroll").forEach(showMore);
addThemeButton();
markPlace();
unfold();
addEventListener("hashchange", unfold);
