// Draws every figure, in the colours of the scheme that is on, and again when that changes or the page is printed.
(() => {
  "use strict";
  const toDark = PALETTE;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paper = matchMedia("print");
  const config = {
    responsive: true, displaylogo: false, displayModeBar: "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    toImageButtonOptions: { format: "svg" },
  };
  const painted = (value, swap) => {
    if (typeof value === "string") return swap && Object.hasOwn(toDark, value.toLowerCase()) ? toDark[value.toLowerCase()] : value;
    if (Array.isArray(value)) return value.map((one) => painted(one, swap));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, painted(one, swap)]));
  };
  const figures = [...document.querySelectorAll("figure.plot")].map((place) => ({
    area: place.querySelector(".plot-area"),
    source: JSON.parse(place.querySelector("script").textContent),
  }));
  // What a sheet of A4 has between its margins; heights are those of the screen, made smaller.
  const sheet = 688, gap = 18, text = 9.5;
  const draw = (onPaper) => {
    const printed = onPaper || paper.matches;
    for (const { area, source } of figures) {
      const { data, layout } = painted(source, dark.matches && !printed);
      layout.autosize = !onPaper;
      if (onPaper) {
        layout.width = area.closest(".side") ? (sheet - gap) / 2 : sheet;
        layout.height = Math.round(parseFloat(area.style.height) * 16 * parseFloat(area.dataset.paper));
        layout.font = { ...layout.font, size: text };
      }
      Plotly.react(area, data, layout, config);
    }
  };
  draw();
  dark.addEventListener("change", () => draw());
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.dataset.was = one.open, one.open = true; draw(true); });
  addEventListener("afterprint", () => { for (const one of document.querySelectorAll("details")) one.open = one.dataset.was === "true"; draw(); });
})();
