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
  const draw = (width) => {
    const printed = width !== undefined || paper.matches;
    for (const { area, source } of figures) {
      const { data, layout } = painted(source, dark.matches && !printed);
      if (width !== undefined) { layout.width = width; layout.autosize = false; } else { layout.autosize = true; }
      Plotly.react(area, data, layout, config);
    }
  };
  draw();
  dark.addEventListener("change", () => draw());
  // The width of a sheet of A4 between its margins.
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.dataset.was = one.open, one.open = true; draw(680); });
  addEventListener("afterprint", () => { for (const one of document.querySelectorAll("details")) one.open = one.dataset.was === "true"; draw(); });
})();
