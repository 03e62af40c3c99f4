// Draws the charts with plotly.js and runs the table of rows. All text from the data is set as text, never as markup.
"use strict";
(() => {
  const { rows, charts } = JSON.parse(document.getElementById("data").textContent);

  // ── Text ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  // plotly reads a little markup in its texts; entities it shows as the characters they stand for.
  const inert = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const shorten = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const digits = (value) => {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e10 || size < 1e-4)) return value.toExponential(3);
    return String(Number(size >= 1e4 ? value.toFixed(0) : value.toPrecision(5)));
  };
  const rowText = (k) =>
    inert(
      `${rows.label_name} ${shorten(rows.label[k], 60)}\n` +
        `actual ${digits(rows.actual[k])}, predicted ${digits(rows.predicted[k])}\n` +
        `${digits(Math.round(rows.z[k] * 10) / 10)} standard deviations off`,
    ).replace(/\n/g, "<br>");

  // ── Themes ────────────────────────────────────────────────────────────────────────────────────────────────────────

  const root = document.documentElement;
  const variable = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const faded = (colour, share) => `color-mix(in srgb, ${colour} ${100 * share}%, transparent)`;
  const rgba = (() => {
    // plotly knows only plain colours, so the browser works mixes out.
    const probe = document.createElement("span");
    return (colour, share) => {
      probe.style.color = faded(colour, share);
      document.body.append(probe);
      const found = getComputedStyle(probe).color;
      probe.remove();
      const parts = found.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
      if (found.startsWith("color(")) {
        const [r, g, b] = parts.slice(0, 3).map((part) => Math.round(255 * part));
        return `rgba(${r},${g},${b},${parts[3] ?? 1})`;
      }
      return `rgba(${parts[0]},${parts[1]},${parts[2]},${parts[3] ?? 1})`;
    };
  })();

  // ── Charts ────────────────────────────────────────────────────────────────────────────────────────────────────────

  const traces = {
    rows(layer) {
      const part = (from, to, name, colour, size) => ({
        type: "scatter",
        mode: "markers",
        name,
        x: rows[layer.x].slice(from, to),
        y: rows[layer.y].slice(from, to),
        text: Array.from({ length: to - from }, (_, k) => rowText(from + k)),
        hoverinfo: "text",
        showlegend: rows.flagged > 0,
        marker: { color: colour, size },
      });
      return [
        part(rows.flagged, rows.row.length, "not flagged", rgba(variable("model"), 0.5), 5),
        part(0, rows.flagged_drawn, "flagged", variable("flagged"), 8),
      ].filter((trace) => trace.x.length > 0);
    },
    line(layer, colour) {
      const isMany = layer.text.length > 0;
      return [
        {
          type: "scatter",
          // A curve of one point would not be seen as a line.
          mode: layer.x.length < 2 ? "markers" : "lines",
          name: inert(layer.name ?? ""),
          x: layer.x,
          y: layer.y,
          text: layer.text.map(inert),
          hoverinfo: isMany ? "text+y" : layer.dashed ? "skip" : "x+y",
          showlegend: layer.name !== null,
          connectgaps: false,
          line: {
            color: layer.tone === "muted" ? rgba(colour, 0.6) : colour,
            width: layer.dashed || layer.tone === "muted" ? 1 : 2,
            dash: layer.dashed ? "dash" : "solid",
          },
        },
      ];
    },
    band(layer, colour) {
      const edge = (y, fill) => ({
        type: "scatter",
        mode: "lines",
        name: inert(layer.name ?? ""),
        x: layer.x,
        y,
        hoverinfo: "skip",
        line: { width: 0, color: colour },
        showlegend: fill && layer.name !== null,
        ...(fill ? { fill: "tonexty", fillcolor: rgba(colour, 0.16) } : {}),
      });
      return [edge(layer.lower, false), edge(layer.upper, true)];
    },
    rug(layer, colour) {
      return [
        {
          type: "scatter",
          mode: "markers",
          x: layer.x,
          y: layer.x.map(() => layer.y),
          hoverinfo: "skip",
          showlegend: false,
          marker: { color: colour, symbol: "line-ns-open", size: 7, opacity: 0.6 },
        },
      ];
    },
    intervals(layer, colour) {
      return [
        {
          type: "scatter",
          mode: "markers",
          x: layer.x,
          y: layer.y,
          text: layer.text.map(inert),
          hoverinfo: "text",
          showlegend: false,
          marker: { color: colour, size: 9 },
          error_x: { type: "data", array: layer.error, color: colour, thickness: 2, width: 0 },
        },
      ];
    },
  };

  const axis = (axis, values) => {
    const drawn = axis.log ? values.filter((value) => value > 0) : [];
    const decades = Math.log10(drawn.reduce((a, b) => Math.max(a, b), 1e-300) / drawn.reduce((a, b) => Math.min(a, b), 1e300));
    return {
    title: { text: inert(shorten(axis.label, 48)), standoff: 8 },
    type: axis.log ? "log" : "linear",
    automargin: true,
    gridcolor: variable("line"),
    linecolor: variable("line"),
    zeroline: false,
    exponentformat: "power",
    minexponent: 6,
    // Few decades: 1, 2 and 5 of each, instead of every digit.
    ...(axis.log && decades < 3 ? { dtick: "D2" } : {}),
    ...(axis.categories.length > 0
      ? {
          tickmode: "array",
          tickvals: axis.categories.map((_, k) => k),
          ticktext: axis.categories.map((name) => inert(shorten(name, innerWidth < 600 ? 14 : 32))),
          range: [-0.5, axis.categories.length - 0.5],
          showgrid: false,
        }
      : {}),
    };
  };

  const draw = (chart) => {
    const place = document.getElementById(`chart-${chart.id}`);
    // What cannot be seen has no size; it is drawn when it is opened.
    if (place.closest("details:not([open])")) return Promise.resolve();
    const data = chart.layers.flatMap((layer) => traces[layer.mark](layer, variable(layer.tone)));
    const names = chart.y.categories.length;
    const layout = {
      font: { family: "system-ui, sans-serif", size: 13, color: variable("text") },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      height: chart.is_small ? 220 : names > 0 ? Math.max(220, 90 + 26 * names) : 400,
      margin: { l: 56, r: 12, t: chart.is_small ? 8 : 30, b: 48 },
      xaxis: axis(chart.x, data.flatMap((trace) => trace.x)),
      yaxis: axis(chart.y, data.flatMap((trace) => trace.y)),
      hovermode: "closest",
      hoverlabel: { align: "left" },
      showlegend: !chart.is_small,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    };
    const config = {
      responsive: true,
      displaylogo: false,
      // Small charts have no room for buttons, and those of others stand above the data.
      displayModeBar: chart.is_small ? false : "hover",
      // Named one by one, so that no button of plotly's that sends data anywhere can be among them.
      modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
      toImageButtonOptions: { format: "svg", filename: chart.id },
    };
    return Plotly.react(place, data, layout, config).then(() => place.setAttribute("data-drawn", "yes"));
  };

  // One chart at a time, so that the page can be read and scrolled meanwhile.
  const drawAll = async () => {
    for (const chart of charts) {
      await draw(chart);
      await new Promise((done) => setTimeout(done, 0));
    }
    document.body.setAttribute("data-ready", "yes");
  };

  document.querySelectorAll("details.more").forEach((details) =>
    details.addEventListener("toggle", () => {
      if (details.open) charts.filter((chart) => details.querySelector(`#chart-${chart.id}`)).forEach(draw);
    }),
  );

  const setTheme = (theme) => {
    root.setAttribute("data-theme", theme);
    return drawAll();
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.getAttribute("data-theme") ?? (dark.matches ? "dark" : "light");
    setTheme(now === "dark" ? "light" : "dark");
  });
  dark.addEventListener("change", () => root.hasAttribute("data-theme") || drawAll());
  // Paper is white.
  let themeBefore = null;
  let opened = [];
  addEventListener("beforeprint", () => {
    themeBefore = root.getAttribute("data-theme");
    root.setAttribute("data-theme", "light");
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((details) => (details.open = true));
    charts.forEach(draw);
  });
  addEventListener("afterprint", () => {
    opened.forEach((details) => (details.open = false));
    if (themeBefore === null) root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", themeBefore);
    drawAll();
  });

  // ── The table of rows ─────────────────────────────────────────────────────────────────────────────────────────────

  const PAGE = 50;
  const number = (name, values, isKey) => ({ name, values, isNumber: true, isKey });
  // Original values are shown as they are, and sorted as numbers where all of them are.
  const text = (name, values) => {
    const filled = values.filter((value) => value !== "" && value !== undefined);
    const isNumber = filled.length > 0 && filled.every((value) => value.trim() !== "" && !isNaN(Number(value)));
    return { name, values, isNumber, isText: true };
  };
  const columns = [
    { ...text(rows.label_name, rows.label), isHead: true },
    number("actual", rows.actual),
    number("predicted", rows.predicted),
    number("std. residual", rows.z),
    { ...text("reason", rows.reason), isNumber: false },
    { ...text("rare inputs (% of rows)", rows.unusual), isNumber: false },
    { ...number("noise variance", rows.noise_variance), isMore: true },
    { ...number("leverage", rows.leverage), isMore: true },
    ...rows.original_names.map((name, c) => ({ ...text(name, rows.original.map((values) => values[c])), isMore: true })),
  ];
  const OFF = 3;
  const order = { column: null, down: true };
  const table = document.getElementById("suspicious");
  const [flaggedOnly, threshold, search, everything, count, more] = [
    "flagged", "threshold", "search", "everything", "count", "more",
  ].map((id) => document.getElementById(id));
  let shown = PAGE;

  const chosen = () => {
    const least = Number(threshold.value) || 0;
    const wanted = search.value.trim().toLowerCase();
    const found = [];
    for (let k = 0; k < rows.row.length; k++) {
      if (flaggedOnly.checked && k >= rows.flagged) break;
      if (Math.abs(rows.z[k] ?? 0) < least) continue;
      if (wanted && !columns.some((c) => String(c.values[k] ?? "").toLowerCase().includes(wanted))) continue;
      found.push(k);
    }
    if (order.column !== null) {
      const { values, isNumber } = columns[order.column];
      const key = order.column === OFF ? (k) => Math.abs(values[k]) : (k) => values[k];
      const isEmpty = (value) => value === null || value === undefined || value === "";
      const sign = order.down ? -1 : 1;
      found.sort((a, b) => {
        const [p, q] = [key(a), key(b)];
        // Empty cells stay at the end.
        if (isEmpty(p) || isEmpty(q)) return Number(isEmpty(p)) - Number(isEmpty(q));
        return sign * (isNumber ? p - q : String(p).localeCompare(String(q)));
      });
    }
    return found;
  };

  const element = (tag, content, name) => {
    const made = document.createElement(tag);
    made.textContent = content;
    if (name) made.className = name;
    return made;
  };
  const head = document.createElement("tr");
  columns.forEach((column, c) => {
    const cell = element("th", "", [column.isNumber ? "number" : "", column.isMore ? "extra" : ""].join(" ").trim());
    cell.scope = "col";
    const button = element("button", column.name);
    button.type = "button";
    button.addEventListener("click", () => {
      order.down = order.column === c ? !order.down : column.isNumber;
      order.column = c;
      shown = PAGE;
      refresh();
    });
    cell.append(button);
    head.append(cell);
  });
  table.tHead.append(head);

  const cellText = (column, c, k) => {
    const value = column.values[k];
    if (value === null || value === undefined) return "";
    return c === OFF ? value.toFixed(1) : column.isText ? value : digits(value);
  };
  const openedRows = new Set();
  const toggle = (line, button, k) => {
    const isOpen = !openedRows.has(k);
    if (isOpen) openedRows.add(k);
    else openedRows.delete(k);
    button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) line.after(explanation(k));
    else line.nextElementSibling.remove();
  };
  const rowLine = (k) => {
    const line = document.createElement("tr");
    if (k < rows.flagged) line.classList.add("flagged");
    columns.forEach((column, c) => {
      const cell = element("td", "", [column.isNumber ? "number" : "", column.isMore ? "extra" : ""].join(" ").trim());
      const content = cellText(column, c, k);
      if (column.isHead && rows.explained[k]) {
        const button = element("button", content, "why");
        button.type = "button";
        button.title = "why this prediction";
        button.setAttribute("aria-expanded", "false");
        cell.append(button);
        line.classList.add("explained");
        line.addEventListener("click", (event) => {
          if (getSelection().isCollapsed || event.target === button) toggle(line, button, k);
        });
      } else {
        cell.textContent = content;
      }
      line.append(cell);
    });
    return line;
  };

  const refresh = () => {
    const found = chosen();
    [...head.cells].forEach((cell, c) => {
      if (c === order.column) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    table.classList.toggle("everything", everything.checked);
    openedRows.clear();
    table.tBodies[0].replaceChildren(...found.slice(0, shown).map(rowLine));
    count.textContent = found.length === 1 ? "1 row" : `${found.length} rows`;
    more.hidden = found.length <= shown;
    return found;
  };
  everything.addEventListener("input", () => table.classList.toggle("everything", everything.checked));

  // ── Why a row is predicted as it is ───────────────────────────────────────────────────────────────────────────────

  const signed = (value) => (value > 0 ? "+" : "") + threeDigits(value);
  const threeDigits = (value) => String(Number(Number(value).toPrecision(3)));
  // A waterfall: from the average over the contributions to the prediction, and where the actual value is.
  const explanation = (k) => {
    const { average, prediction, steps, others, others_sum, similar } = rows.explained[k];
    const parts = [{ label: "average prediction", from: average, to: average, text: digits(average) }];
    let at = average;
    const add = (label, contribution) => {
      parts.push({ label, from: at, to: at + contribution, text: signed(contribution) });
      at += contribution;
    };
    steps.forEach((step) => add(`${step.column} = ${step.value}`, step.contribution));
    if (others > 0) add(others === 1 ? "1 more column" : `${others} more columns`, others_sum);
    parts.push({ label: "prediction of the fit", from: prediction, to: prediction, text: digits(prediction) });
    const actual = rows.actual[k];
    parts.push({ label: "actual", from: actual, to: actual, text: digits(actual), isActual: true });
    const ends = parts.flatMap((part) => [part.from, part.to]);
    const low = Math.min(...ends);
    const span = Math.max(...ends) - low || 1;
    const share = (value) => (100 * (value - low)) / span;

    const falls = element("table", "", "waterfall");
    const caption = element("caption", `Why ${rows.label_name} ${rows.label[k]} is predicted as ${digits(prediction)}`);
    falls.append(caption);
    parts.forEach((part) => {
      const line = document.createElement("tr");
      const name = element("th", part.label);
      name.scope = "row";
      const bar = element("span", "", part.isActual ? "mark actual" : part.from === part.to ? "mark" : part.to > part.from ? "up" : "down");
      bar.style.left = `${share(Math.min(part.from, part.to))}%`;
      if (part.from !== part.to) bar.style.width = `${Math.max(share(Math.max(part.from, part.to)) - share(Math.min(part.from, part.to)), 0.4)}%`;
      const track = element("td", "", "track");
      const inner = element("div", "");
      inner.append(bar);
      track.append(inner);
      line.append(name, track, element("td", part.text, "number"));
      falls.append(line);
    });
    const line = element("tr", "", "explanation");
    const cell = document.createElement("td");
    cell.colSpan = columns.length;
    cell.append(falls);
    if (similar.length > 0) {
      const words = similar.map((row) => `${row.label} (actual ${digits(row.actual)}, weight ${row.weight.toFixed(2)})`);
      cell.append(element("p", `Similar rows, by their weight in the prediction: ${words.join(", ")}.`, "note"));
    }
    line.append(cell);
    return line;
  };

  [flaggedOnly, threshold, search].forEach((control) =>
    control.addEventListener("input", () => {
      shown = PAGE;
      refresh();
    }),
  );
  more.addEventListener("click", () => {
    shown += 10 * PAGE;
    refresh();
  });

  const quoted = (value) => {
    const content = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(content) ? `"${content.replace(/"/g, '""')}"` : content;
  };
  document.getElementById("download").addEventListener("click", () => {
    const lines = [columns.map((column) => quoted(column.name)).join(",")];
    chosen().forEach((k) => lines.push(columns.map((column) => quoted(column.values[k])).join(",")));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = "suspicious-rows.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  refresh();
  drawAll();
})();
