// In every chart, points at the first mark, moves to others by the arrow keys, and closes the tooltip by Escape.
(() => {
    const tip = document.getElementById("tip");
    const said = () => (tip.hidden ? "" : tip.textContent);
    const charts = [...document.querySelectorAll("svg.chart")].filter((svg) => svg.getClientRects().length);
    return charts.map((svg) => {
        svg.scrollIntoView();
        const key = (name) => svg.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
        const mark = [...svg.querySelectorAll(".k")].find((mark) => mark.dataset.tip);
        const at = mark.getBoundingClientRect();
        const event = { clientX: at.left + at.width / 2, clientY: at.top + at.height / 2, bubbles: true };
        svg.dispatchEvent(new PointerEvent("pointermove", event));
        const pointed = said();
        svg.focus();
        key("ArrowRight");
        const right = said();
        key("ArrowDown");
        const down = said();
        const box = tip.getBoundingClientRect();
        key("Escape");
        return { id: svg.closest("section").id, pointed, right, down,
                 inside: box.left >= 0 && box.right <= innerWidth, hidden: tip.hidden };
    });
})()
