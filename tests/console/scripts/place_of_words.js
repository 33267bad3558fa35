(words) => {
  const walk = document.createTreeWalker(document.querySelector(".answer"), NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const at = node.data.indexOf(words);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + words.length);
    const { left, right, top, bottom } = range.getBoundingClientRect();
    return [left, right, (top + bottom) / 2];
  }
}
