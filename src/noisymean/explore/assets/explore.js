// The form, the address, the colours; and no old answer is shown. Nothing is computed here.
(() => {
  "use strict";
  const spec = JSON.parse(document.getElementById("spec").textContent);
  const at = (id) => document.getElementById(id);
  const form = at("form");
  const page = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  let serial = 0;
  // the query of the settings that the page shows, or that it is waiting for
  let wanted = null;
  let answered = null;

  // --- numbers as they are typed and as a slider says them ---

  // 60000, 60_000, 6e4, 0.005 and 1/200, as the command line reads them; NaN for the rest
  const decimal = (text) => (/^\s*\+?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$/.test(text) ? Number(text.replaceAll("_", "")) : NaN);
  const value = (text) => {
    const parts = text.split("/").map(decimal);
    return parts.length === 2 ? parts[0] / parts[1] : parts.length === 1 ? parts[0] : NaN;
  };
  // three digits, and whole where only whole numbers make sense
  const written = (power, whole) => {
    const number = Number((10 ** power).toPrecision(3));
    if (whole) return String(Math.round(number));
    return number >= 1e-3 ? String(number) : number.toExponential().replace("e+", "e");
  };
  const raised = (digits) => [...digits].map((one) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(one)]).join("");
  const forPeople = (text) => {
    const number = decimal(text);
    if (!Number.isFinite(number)) return text;
    const [digits, power] = number.toExponential().split("e");
    if (number === 0 || (power >= -4 && power < (Number.isInteger(number) ? 9 : 6))) return number.toLocaleString("en", { maximumFractionDigits: 20 });
    const ten = `10${raised(power.replace("+", ""))}`;
    return digits === "1" ? ten : `${digits}·${ten}`;
  };

  // --- the form ---

  const box = ({ name }) => at(`box-${name}`);
  const slider = ({ name }) => at(`slider-${name}`);
  const chosen = (name) => form.querySelector(`input[name="${name}"]:checked`)?.value;
  const choose = (name, wish) => {
    for (const one of form.querySelectorAll(`input[name="${name}"]`)) one.checked = one.value === wish;
  };
  const say = (control) => slider(control).setAttribute("aria-valuetext", forPeople(box(control).value));
  const follow = (control) => {
    const power = Math.log10(value(box(control).value));
    if (Number.isFinite(power)) slider(control).value = Math.min(Math.max(power, control.ends[0]), control.ends[1]);
    say(control);
  };
  const inUse = (way) => (chosen(way.name) ?? way.options[0].join(" ")).split(" ");

  // What is not in use is not shown, and not asked.
  const arrange = () => {
    const gone = new Set(spec.unused[`${chosen("mechanism")} ${chosen("sampling")} ${chosen("adjacency")}`] ?? []);
    const hidden = new Set(gone);
    for (const way of spec.ways) {
      const possible = way.options.filter((names) => !names.some((name) => gone.has(name)));
      if (!possible.some((names) => names.join(" ") === chosen(way.name))) choose(way.name, possible[0].join(" "));
      for (const one of form.querySelectorAll(`input[name="${way.name}"]`)) {
        one.closest("label").hidden = !possible.some((names) => names.join(" ") === one.value);
      }
      at(`choice-${way.name}`).hidden = possible.length < 2;
      for (const name of way.options.flat()) if (!inUse(way).includes(name)) hidden.add(name);
    }
    for (const { name } of spec.controls) at(`control-${name}`).hidden = hidden.has(name);
    for (const { name } of spec.choices) at(`choice-${name}`).hidden = hidden.has(name);
    return hidden;
  };

  const queryOf = (hidden) => {
    const query = new URLSearchParams([["mechanism", chosen("mechanism") ?? spec.mechanism]]);
    for (const { name } of spec.controls) if (!hidden.has(name)) query.append(name, at(`box-${name}`).value.trim());
    for (const { name, default: usual } of spec.choices) {
      if (!hidden.has(name) && chosen(name) !== usual) query.append(name, chosen(name));
    }
    return query.toString();
  };

  // The form as an address has it; what is wrong in the address is the server's to say.
  const fill = (search) => {
    const query = new URLSearchParams(search);
    choose("mechanism", query.get("mechanism") ?? spec.mechanism);
    for (const { name, default: usual } of spec.choices) choose(name, query.get(name) ?? usual);
    for (const { name, options } of spec.ways) {
      const said = [...new Set(options.flat())].filter((one) => query.has(one)).join(" ");
      choose(name, options.map((names) => names.join(" ")).includes(said) ? said : options[0].join(" "));
    }
    for (const control of spec.controls) {
      box(control).value = query.get(control.name) ?? control.default;
      follow(control);
    }
    arrange();
  };

  // --- asking ---

  const asked = (address) => fetch(address).catch(() => {
    throw new Error("The server of this page does not answer. Is 'noisymean explore' still running?");
  });
  const get = async (path, query, more = {}) => {
    const own = new URLSearchParams({ _page: page, _serial: serial, ...more });
    const answer = await asked(`${path}?${query ? `${query}&` : ""}${own}`);
    if (answer.status === 204) return null;
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
  };
  const busy = (on) => { for (const id of ["answer", "more", "bar", "range", "curves", "growth"]) at(id).setAttribute("aria-busy", String(on)); };
  // No old answer is left beside new settings.
  const lost = ({ message: why }) => {
    const banner = element("div", "");
    banner.id = "banner";
    banner.className = "banner bad";
    banner.append(element("p", "no answer", "tag"), element("p", why, "headline"));
    at("answer").replaceChildren(banner);
    at("more").replaceChildren();
    at("elsewhere").textContent = "";
    at("spoken").textContent = `no answer: ${why}`;
    document.title = "no answer · noisymean";
    inBar({ kind: "bad", word: "no answer", asked: "", numbers: [], why });
    for (const id of ["range", "pictures", "json"]) at(id).hidden = true;
    at("make-report").disabled = true;
    busy(false);
  };

  const ask = async (query) => {
    wanted = query;
    serial += 1;
    answered = null;
    document.title = "… · noisymean";
    busy(true);
    try {
      const found = await get("/answer", query);
      if (found === null || wanted !== query) return;
      answered = { ...found, query };
      show(found);
      at("elsewhere").textContent = "";
      at("report-note").textContent = "";
      if (found.drawable) elsewhere(query);
      await Promise.all([picture("curves"), picture("growth")]);
    } catch (fault) {
      if (wanted === query) lost(fault);
    }
  };

  const show = (found) => {
    document.title = found.title;
    at("answer").innerHTML = found.answer;
    at("more").innerHTML = found.more;
    at("range").hidden = found.range === null;
    delete drawn.range;
    if (found.range !== null) { drawn.range = found.range; draw("range"); }
    at("spoken").textContent = found.spoken;
    inBar(found.bar);
    for (const control of spec.controls) {
      const wrong = control.name === found.about;
      box(control).setAttribute("aria-invalid", String(wrong));
      if (wrong) box(control).setAttribute("aria-errormessage", "headline");
      else box(control).removeAttribute("aria-errormessage");
    }
    for (const id of ["answer", "more", "bar", "range"]) at(id).setAttribute("aria-busy", "false");
    at("pictures").hidden = !found.drawable;
    at("make-report").disabled = found.refused;
    at("json").hidden = found.refused;
    at("json").href = `/json?${wanted}`;
  };
  const inBar = ({ kind, word, asked, numbers, why }) => {
    const line = element("p", why);
    for (const [name, number] of numbers) {
      const one = element("span", `${name} `);
      one.append(element("strong", number));
      line.append(one, " ");
    }
    at("bar").className = kind;
    at("bar").replaceChildren(element("b", word), element("i", asked), line);
  };
  const element = (kind, text, look = "") => { const made = document.createElement(kind); made.textContent = text; made.className = look; return made; };

  const elsewhere = async (query) => {
    const found = await get("/elsewhere", query).catch(() => null);
    if (found !== null && wanted === query) at("elsewhere").textContent = found.text;
  };

  // --- pictures ---

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = {}, titles = {};
  // two beside each other on a sheet of A4 between its margins; the heights are those of the style sheet
  const PRINTED = { range: { width: 690, height: 130 }, curves: { width: 335, height: 235 }, growth: { width: 335, height: 235 } };
  const EMPTY = { data: [], layout: { paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", xaxis: { visible: false }, yaxis: { visible: false } } };
  // our own links export a picture with its settings, so plotly's button is not there
  const config = { displaylogo: false, displayModeBar: "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d"]], responsive: true };
  const painted = (one, colours) => {
    if (typeof one === "string") return colours[one.toLowerCase()] ?? one;
    if (Array.isArray(one)) return one.map((part) => painted(part, colours));
    if (one === null || typeof one !== "object" || ArrayBuffer.isView(one)) return one;
    return Object.fromEntries(Object.entries(one).map(([name, part]) => [name, painted(part, colours)]));
  };
  const draw = (name, printed = false) => {
    const figure = painted(drawn[name] ?? EMPTY, dark.matches && !printed ? spec.palette : {});
    Object.assign(figure.layout, printed ? { autosize: false, ...PRINTED[name] } : { autosize: true });
    if (printed && name !== "range") {
      const { font, legend } = figure.layout;
      Object.assign(figure.layout, { font: { ...font, size: 10 }, legend: { ...legend, font: { size: 9 } }, margin: { l: 44, r: 6, t: 6, b: 40 } });
    }
    window.Plotly.react(at(`${name}-graph`), figure.data, figure.layout, config);
  };

  const part = (name) => (name === "growth" ? "growth" : at("curves").querySelector("input[name=tab]:checked").value);
  const picture = async (name) => {
    const { query, drawable, bounded, verdict } = answered;
    const which = part(name);
    delete drawn[name];
    if (!drawable) return at(name).setAttribute("aria-busy", "false");
    at(name).setAttribute("aria-busy", "true");
    const found = await get(`/picture/${which}`, query, { _bounded: bounded, _verdict: verdict }).catch((fault) => ({ figure: null, note: fault.message, title: "" }));
    if (found === null || wanted !== query || which !== part(name)) return;
    drawn[name] = found.figure;
    titles[name] = found.title;
    draw(name);
    at(`${name}-note`).textContent = found.note;
    at(`${name}-csv`).href = `/csv/${which}?${query}`;
    at(name).classList.toggle("none", found.figure === null);
    at(name).setAttribute("aria-busy", "false");
  };

  // The settings stand in the picture, and in the name of its file.
  const keep = (name, format) => {
    if (!drawn[name] || !answered?.line) return;
    const { data, layout } = structuredClone(drawn[name]);
    const lines = [`${titles[name]}:`, ""];
    for (const word of answered.line.split(/(?<=, )/)) {
      if ((lines.at(-1) + word).length > 95) lines.push(word);
      else lines[lines.length - 1] += word;
    }
    // below it the legend has a line, and above the plot
    layout.title = { text: lines.join("<br>"), font: { size: 13 }, x: 0.02, xanchor: "left", yref: "container", y: 0.965, yanchor: "top" };
    layout.margin = { ...layout.margin, t: 52 + 18 * lines.length };
    const filename = answered.file.replace("PART", part(name) === "run" ? "curves" : part(name));
    window.Plotly.downloadImage({ data, layout }, { format, scale: format === "png" ? 2 : 1, width: 900, height: 660, filename });
  };

  // --- the report, and what is copied ---

  const report = async () => {
    const query = wanted, button = at("make-report"), note = at("report-note");
    button.disabled = true;
    note.textContent = "Making the report: up to a minute.";
    try {
      const answer = await asked(`/report?${query}`);
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await answer.blob());
      link.download = /filename="([^"]*)"/.exec(answer.headers.get("Content-Disposition"))[1];
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      note.textContent = `Written: ${link.download}`;
    } catch (fault) {
      note.textContent = fault.message;
    }
    button.disabled = false;
  };
  const copy = async (button) => {
    const command = at(button.dataset.copy);
    // a browser may forbid it: then it is ready to be copied by hand
    button.textContent = await navigator.clipboard.writeText(command.textContent).then(
      () => "copied",
      () => { getSelection().selectAllChildren(command); return "selected"; },
    );
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  };

  // --- what a reader does ---

  const changed = () => {
    const query = queryOf(arrange());
    if (query === wanted) return;
    history.replaceState(history.state, "", `${location.pathname}?${query}`);
    ask(query);
  };
  for (const control of spec.controls) {
    slider(control).addEventListener("input", () => {
      box(control).value = written(Number(slider(control).value), control.whole);
      say(control);
    });
    box(control).addEventListener("input", () => follow(control));
  }
  form.addEventListener("change", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  at("curves").addEventListener("change", () => { if (answered) picture("curves"); });
  at("make-report").addEventListener("click", report);
  document.addEventListener("click", ({ target }) => {
    if (target.dataset.copy) copy(target);
    if (target.dataset.picture) keep(target.dataset.picture, target.dataset.format);
  });
  const redraw = (printed) => { for (const name of Object.keys(drawn)) draw(name, printed); };
  dark.addEventListener("change", () => redraw());
  addEventListener("beforeprint", () => redraw(true));
  addEventListener("afterprint", () => redraw());
  // an address is asked as it was written, so that nothing in it is dropped without a word
  const readAddress = () => {
    fill(location.search);
    const query = location.search.slice(1) || queryOf(arrange());
    if (query !== wanted) ask(query);
  };
  addEventListener("popstate", readAddress);
  readAddress();
})();
