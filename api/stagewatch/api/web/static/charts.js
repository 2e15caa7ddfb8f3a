// Draws <div class="chart" data-series="…"> from /api/v1/series with plotly, which comes from this server too.
(() => {
  "use strict";
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // A reciprocal rank lies in 0 to 1 and is a share of nothing.
  const percent = (body) => !["median", "p90"].includes(body.stat) && body.metric !== "reciprocal_rank";
  const unit = (body) => body.metric === "reciprocal_rank" && !["median", "p90"].includes(body.stat);

  // Breaks at nearly one moment (a deployment changes release and index together) share a line.
  const marks = (el, body) => {
    const near = Math.max(1, (Date.parse(body.until) - Date.parse(body.since)) / 40);
    const found = [];
    for (const b of body.breaks) {
      const last = found[found.length - 1];
      if (last && Date.parse(b.at) - Date.parse(last.at) <= near) last.what.push(b.what);
      // Side by side the numbers 1 and 2 read as 12: of two that stand close one is raised.
      else found.push({ at: b.at, what: [b.what], raised: Boolean(last) && !last.raised && Date.parse(b.at) - Date.parse(last.at) <= 3 * near });
    }
    return found;
  };
  const list = (el, body) => {
    el.parentElement.querySelector(".breaks")?.remove();
    const found = marks(el, body);
    if (!found.length) return;
    const ul = document.createElement("ul");
    ul.className = "breaks";
    found.forEach((m, i) => {
      const li = document.createElement("li");
      const n = document.createElement("b");
      n.textContent = `${i + 1} `;
      li.append(n, m.what.join("; "));
      ul.append(li);
    });
    el.after(ul);
  };

  const layout = (el, body, isPercent) => ({
    margin: { l: 46, r: 12, t: 30, b: el.dataset.series2 === undefined ? 42 : 70 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--soft"), size: 12 }, showlegend: el.dataset.series2 !== undefined, // Below the axis: above it stand the numbers of the breaks.
    legend: { orientation: "h", y: -0.3, yanchor: "top", traceorder: "normal" },
    // The whole window, so that a single point does not stretch the axis to its milliseconds.
    xaxis: { gridcolor: css("--line"), ticks: "outside", ticklen: 6, tickcolor: "rgba(0,0,0,0)", type: "date", range: [body.since, body.until] },
    yaxis: body.signed ? { gridcolor: css("--line"), range: [-1.04, 1.04], zerolinecolor: css("--soft") } : isPercent ? { gridcolor: css("--line"), tickformat: ".0%", range: [0, 1.04] } : unit(body) ? { gridcolor: css("--line"), range: [0, 1.04] } : { gridcolor: css("--line"), rangemode: "tozero" },
    hovermode: "x unified", hoverlabel: { bgcolor: css("--panel"), font: { color: css("--text") } },
    shapes: marks(el, body).map((m) => ({ type: "line", x0: m.at, x1: m.at, yref: "paper", y0: 0, y1: 1, line: { color: css("--warn"), width: 1, dash: "dot" } })),
    annotations: marks(el, body).map((m, i) => ({ x: m.at, yref: "paper", y: 1, yanchor: "bottom", yshift: m.raised ? 12 : 0, text: String(i + 1), showarrow: false, font: { size: 11, color: css("--warn") } })),
  });

  const traces = (body, color, name, isPercent) => {
    const points = body.items.filter((p) => p.n > 0);
    // A point stands in the middle of what it covers; at its beginning a fall would come before its cause.
    const end = Date.parse(body.until);
    const x = points.map((p) => new Date((Date.parse(p.at) + Math.min(Date.parse(p.until), end)) / 2).toISOString());
    const text = points.map((p) => `n ${p.n}${p.few ? `, ${p.few}` : ""}${Object.keys(p.unscored).length ? ", unscored " + Object.values(p.unscored).reduce((a, b) => a + b, 0) : ""}${p.correction ? `<br>by the free judge's ${p.correction.covered} readings ${Math.round(100 * p.correction.narrower)} % narrower` : ""}`);
    const form = isPercent ? ".1%" : ".2f";
    // A band needs two points: a lone one shows its interval as a bar.
    const bar = points.length === 1 && points[0].low !== null && points[0].high !== null
      ? { type: "data", symmetric: false, array: [points[0].high - points[0].estimate], arrayminus: [points[0].estimate - points[0].low], color, thickness: 1.5, width: 5 }
      : { visible: false };
    return [
      { x, y: points.map((p) => p.high), mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false },
      { x, y: points.map((p) => p.low), mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: css("--chart-band"), hoverinfo: "skip", showlegend: false },
      { x, y: points.map((p) => p.estimate), customdata: points.map((p, i) => [p.low, p.high, text[i]]), mode: "lines+markers", name, line: { color, width: 2 }, marker: { size: 6, color }, error_y: bar,
        hovertemplate: `%{y:${form}} (95 %: %{customdata[0]:${form}} to %{customdata[1]:${form}}; %{customdata[2]})<extra>${name}</extra>` },
    ];
  };

  const draw = async (el) => {
    try {
      const sources = [el.dataset.series, el.dataset.series2].filter(Boolean);
      const bodies = await Promise.all(sources.map(async (src) => {
        const answer = await fetch(src);
        if (!answer.ok) throw new Error((await answer.json()).detail || "no data");
        return answer.json();
      }));
      if (!bodies.some((b) => b.items.some((p) => p.n > 0))) {
        el.innerHTML = '<p class="fallback">No scored turns in this window.</p>';
        return;
      }
      const isPercent = percent(bodies[0]) && !bodies[0].signed;
      const names = (el.dataset.names || "").split("|");
      const colors = [css("--chart-1"), css("--chart-2")];
      const data = bodies.flatMap((b, i) => traces(b, colors[i], names[i] || b.metric, isPercent));
      el.textContent = "";
      Plotly.newPlot(el, data, layout(el, bodies[0], isPercent), { displayModeBar: false, responsive: true });
      list(el, bodies[0]);
      el.dataset.drawn = "yes";
    } catch (error) {
      el.innerHTML = '<p class="fallback"></p>';
      el.firstChild.textContent = `Chart not drawn: ${error.message}`;
    }
  };
  const all = () => document.querySelectorAll(".chart[data-series]").forEach(draw);
  all();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
})();
