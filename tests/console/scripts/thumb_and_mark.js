() => {
  const slider = document.querySelector("#at").getBoundingClientRect();
  const { value, min, max } = document.querySelector("#at");
  const place = slider.left + 8 + (slider.width - 16) * (value - min) / (max - min);
  return [place, document.querySelector(".limit.threshold").getBoundingClientRect().left];
}
