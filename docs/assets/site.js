// Wide tables and blocks of code scroll: the keyboard must reach them. Material wraps tables after the page has loaded.
document$.subscribe(() =>
  setTimeout(() => {
    for (const region of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
      region.tabIndex = 0;
    }
    document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code block ${i + 1}`));
  }),
);
