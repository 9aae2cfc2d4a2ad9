// Shows values on hover and by the arrow keys. Without this script the browser shows the marks' titles.
(() => {
  const tip = document.getElementById("tip");
  let shown = null;
  const hide = () => {
    if (!shown) return;
    shown.classList.remove("at");
    shown.parentNode.classList.remove("on");
    shown = null;
    tip.hidden = true;
  };
  const show = (mark) => {
    if (mark === shown) return;
    hide();
    shown = mark;
    mark.classList.add("at");
    mark.parentNode.classList.add("on");
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const x = Math.min(Math.max(8, (mark.classList.contains("bar") ? at.right : at.left + at.width / 2) - box.width / 2), innerWidth - box.width - 8);
    const y = at.top - box.height - 10;
    tip.style.transform = `translate(${x}px,${y > 8 ? y : at.bottom + 10}px)`;
  };
  for (const chart of document.querySelectorAll("svg.chart")) {
    const marks = [...chart.querySelectorAll(".k")].filter((mark) => mark.querySelector("title"));
    for (const mark of marks) {
      const title = mark.querySelector("title");
      mark.dataset.tip = title.textContent;
      mark.setAttribute("role", "img");
      mark.setAttribute("aria-label", title.textContent.replaceAll("\n", "; "));
      title.remove();
    }
    const near = (x, y) => {
      let best = null, least = 26;
      for (const mark of marks) {
        const at = mark.getBoundingClientRect();
        const dx = Math.max(at.left - x, 0, x - at.right), dy = Math.max(at.top - y, 0, y - at.bottom);
        // <=, because of two marks at the same place the later one is drawn on top.
        const distance = Math.hypot(dx, dy);
        if (distance <= least) [best, least] = [mark, distance];
      }
      return best;
    };
    const point = (event) => {
      const mark = near(event.clientX, event.clientY);
      mark ? show(mark) : hide();
    };
    chart.addEventListener("pointermove", point);
    chart.addEventListener("pointerdown", point);
    chart.addEventListener("pointerleave", hide);
    // The tooltip may already belong to another chart.
    chart.addEventListener("blur", () => { if (chart.contains(shown)) hide(); });
    chart.addEventListener("keydown", (event) => {
      const groups = [...new Set(marks.map((mark) => mark.parentNode))];
      const group = shown && chart.contains(shown) ? shown.parentNode : groups[groups.length - 1];
      if (!group) return;
      const mine = marks.filter((mark) => mark.parentNode === group);
      const index = mine.indexOf(shown), which = groups.indexOf(group);
      const beside = (step) => {
        const other = groups[(which + step + groups.length) % groups.length];
        const theirs = marks.filter((mark) => mark.parentNode === other);
        return theirs[Math.min(Math.max(index, 0), theirs.length - 1)];
      };
      const to = {
        ArrowRight: () => mine[Math.min(index + 1, mine.length - 1)],
        ArrowLeft: () => mine[Math.max(index - 1, 0)],
        ArrowUp: () => beside(-1),
        ArrowDown: () => beside(1),
        Home: () => mine[0],
        End: () => mine[mine.length - 1],
      }[event.key];
      if (event.key === "Escape") hide();
      if (!to) return;
      event.preventDefault();
      show(to());
    });
  }
  addEventListener("scroll", hide, { passive: true });
})();
