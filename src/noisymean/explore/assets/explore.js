// The controls, the address, the colours; and no old answer is shown. Nothing is computed here.
(() => {
  "use strict";
  const same = () => window.dash_clientside.no_update;
  const page = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  let serial = 0;
  let shown = null;

  // 60000, 60_000, 6e4, 0.005 and 1/200, as the command line reads them; NaN for the rest
  const decimal = (text) => (/^\s*\+?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$/.test(text) ? Number(text.replaceAll("_", "")) : NaN);
  const value = (text) => {
    const parts = String(text).split("/").map(decimal);
    return parts.length === 2 ? parts[0] / parts[1] : parts.length === 1 ? parts[0] : NaN;
  };
  // what a slider says: three digits, and whole where only whole numbers make sense
  const written = (power, whole) => {
    const number = Number((10 ** power).toPrecision(3));
    if (whole) return String(Math.round(number));
    return number >= 1e-3 ? String(number) : number.toExponential().replace("e+", "e");
  };
  const position = (text, [low, high]) => {
    const power = Math.log10(value(text));
    return Number.isFinite(power) ? Math.min(Math.max(power, low), high) : null;
  };

  window.dccFunctions = window.dccFunctions || {};
  window.dccFunctions.whole = (power) => Number(written(power, true)).toLocaleString("en");
  window.dccFunctions.decimal = (power) => written(power, false);

  const queryOf = (values, controls, hidden) => {
    const query = new URLSearchParams([["mechanism", values.mechanism]]);
    controls.forEach(({ name }, at) => { if (!hidden[at]) query.append(name, values[name]); });
    return query.toString();
  };

  // One function for everything that can be moved: (address, mechanism, boxes, sliders) -> the same, and the settings.
  const controls = (search, mechanism, ...rest) => {
    const [known, unused] = rest.slice(-2);
    const count = known.length;
    const boxes = rest.slice(0, count).map((text) => String(text ?? "").trim());
    const sliders = rest.slice(count, 2 * count);
    const moved = shown === null ? ["url"] : window.dash_clientside.callback_context.triggered.map((one) => one.prop_id.split(".")[0]);
    if (moved.includes("url")) {
      const query = new URLSearchParams(search || "");
      mechanism = query.get("mechanism") ?? mechanism;
      known.forEach(({ name, default: usual }, at) => { boxes[at] = query.get(name) ?? usual; });
    }
    known.forEach(({ name, ends, whole }, at) => {
      if (moved.includes(`slider-${name}`)) boxes[at] = written(sliders[at], whole);
      else sliders[at] = position(boxes[at], ends) ?? sliders[at];
    });
    const values = { mechanism, ...Object.fromEntries(known.map(({ name }, at) => [name, boxes[at]])) };
    const hidden = known.map(({ name }) => (unused[mechanism] ?? []).includes(name));
    const key = queryOf(values, known, hidden);
    let settings = same();
    if (key !== shown) {
      // the first address stays as it was typed until something is moved
      if (shown !== null || search) history.replaceState(history.state, "", `${location.pathname}?${key}`);
      shown = key;
      serial += 1;
      settings = { key, serial, page, values };
    }
    return [mechanism, ...boxes, ...sliders, settings, ...hidden];
  };

  const show = (answer, settings) => {
    if (!answer || answer.key !== settings.key) return Array(5).fill(same());
    return [answer.banner, answer.numbers, answer.about, answer.command, null];
  };

  const children = (answer, settings) => (answer && answer.key === settings.key ? answer.children : same());

  const painted = (one, colours) => {
    if (typeof one === "string") return colours[one.toLowerCase()] ?? one;
    if (Array.isArray(one)) return one.map((part) => painted(part, colours));
    if (one === null || typeof one !== "object" || ArrayBuffer.isView(one)) return one;
    return Object.fromEntries(Object.entries(one).map(([name, part]) => [name, painted(part, colours)]));
  };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => window.dash_clientside.set_props("scheme", { data: dark.matches ? "dark" : "light" }));

  const EMPTY = {
    data: [],
    layout: { paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", xaxis: { visible: false }, yaxis: { visible: false } },
  };
  const draw = (answer, scheme, settings, palette) => {
    if (!answer || answer.key !== settings.key) return Array(3).fill(same());
    const figure = painted(answer.figure ?? EMPTY, dark.matches ? palette : {});
    figure.layout.autosize = true;
    return [figure, answer.note, answer.csv];
  };

  const png = (clicks, id) => {
    const graph = document.querySelector(`#${id} .js-plotly-plot`);
    if (clicks && graph) window.Plotly.downloadImage(graph, { format: "png", scale: 2, width: 900, height: 640, filename: `noisymean-${id.split("-")[0]}` });
    return same();
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, { explore: { controls, show, children, draw, png } });
})();
