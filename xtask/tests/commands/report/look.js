// Opens all tables and returns the layout of the page: its charts and tables, and texts that are cut off or crossed.
(() => {
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
    const seen = (element) => element.getClientRects().length > 0;
    const box = (element) => element.getBoundingClientRect();
    const cross = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    // Where each value has its own label, the head of the table is clipped, and only for screen readers.
    const hidden = (cell) => cell.closest("thead") !== null && getComputedStyle(cell.closest("thead")).clipPath !== "none";
    const charts = [...document.querySelectorAll("[data-chart]")].map((section) => {
        const shown = [...section.querySelectorAll("svg.chart")].filter(seen);
        const of = (svg, what) => [...svg.querySelectorAll(what)];
        const texts = shown.flatMap((svg) => of(svg, "text").map((text) => ({ svg, text })));
        const outside = texts.filter(({ svg, text }) => {
            const [all, at] = [box(svg), box(text)];
            return at.left < all.left - 1 || at.right > all.right + 1 || at.top < all.top - 1 || at.bottom > all.bottom + 1;
        });
        // Firefox's client rectangles include the stroke, so the rectangle without it is computed from getBBox.
        const bare = (element) => {
            const [own, to] = [element.getBBox(), element.getScreenCTM()];
            const [left, top] = [own.x * to.a + to.e, own.y * to.d + to.f];
            return { left, top, right: left + own.width * to.a, bottom: top + own.height * to.d };
        };
        const crossed = texts.filter(({ svg, text }) => of(svg, ".rule").some((rule) => cross(bare(rule), bare(text))));
        const tables = [...section.querySelectorAll("table")].map((table) => {
            const frame = table.parentElement;
            const cut = [...table.querySelectorAll("th,td")].filter((cell) =>
                !hidden(cell) && (cell.scrollWidth > cell.clientWidth + 1 || box(cell).right > box(frame).right + 1 || box(cell).left < box(frame).left - 1));
            return {
                name: frame.getAttribute("aria-label"),
                hidden: frame.scrollWidth - frame.clientWidth,
                cut: cut.slice(0, 3).map((cell) => cell.textContent),
            };
        });
        return {
            id: section.dataset.chart,
            pictures: shown.length,
            series: shown.flatMap((svg) => of(svg, "g[data-series]").map((g) => g.dataset.series)),
            outside: outside.map(({ text }) => text.textContent),
            crossed: crossed.map(({ text }) => text.textContent),
            smallest: Math.min(...texts.map(({ text }) => box(text).height), 99),
            tables,
        };
    });
    const page = document.scrollingElement;
    return { charts, across: page.scrollWidth, inner: innerWidth, height: page.scrollHeight,
             ground: getComputedStyle(document.body).backgroundColor };
})()
