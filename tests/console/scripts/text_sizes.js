() => [...document.querySelectorAll(".plot")].filter((plot) => plot.querySelector("text")).map((plot) => {
  const size = parseFloat(getComputedStyle(plot.querySelector("text")).fontSize);
  return size * plot.getBoundingClientRect().width / plot.viewBox.baseVal.width;
})
