// Wide tables and blocks of code scroll: the keyboard must reach them. Material wraps tables after the page has loaded.
document$.subscribe(() =>
  setTimeout(() => {
    for (const region of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
      region.tabIndex = 0;
    }
    // A screen reader would announce an empty head of a column as a heading, and a dialog without a name as nothing.
    for (const head of document.querySelectorAll("th:empty")) {
      head.replaceWith(document.createElement("td"));
    }
    document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
    document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code block ${i + 1}`));
  }),
);
