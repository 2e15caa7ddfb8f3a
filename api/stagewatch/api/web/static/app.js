// Small things only: actions that post, keys in the review queue, the typed name, time zones.
// Pages are complete without it except for the charts (charts.js).
(() => {
  "use strict";
  const toast = (text, bad) => {
    document.querySelectorAll(".toast").forEach((old) => old.remove());
    const box = document.createElement("div");
    box.className = bad ? "toast bad" : "toast";
    box.setAttribute("role", "status");
    box.textContent = text;
    document.body.append(box);
    setTimeout(() => box.remove(), bad ? 9000 : 3500);
  };

  const send = async (method, path, body) => {
    const answer = await fetch(path, {
      method,
      headers: { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const said = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.detail || said.title || `the server answered ${answer.status}`);
    return said;
  };
  // For the scripts of single pages, which come after this one.
  window.stagewatch = { send };

  // <form data-post="/api/v1/…" data-done="text"> sends its fields as JSON, then reloads the page
  // (data-stay does not).
  // data-list on a field splits its lines into a list; data-json parses it; empty fields are left out.
  const fields = (form) => {
    const body = {};
    for (const input of form.elements) {
      if (!input.name || input.disabled) continue;
      if ((input.type === "checkbox" || input.type === "radio") && !input.checked) continue;
      if (input.dataset.need !== undefined) {
        (body.needs ||= [{ any_of: [] }])[0].any_of.push(JSON.parse(input.dataset.need));
        continue;
      }
      const value = input.value.trim();
      if (value === "") continue;
      if (input.dataset.list !== undefined) body[input.name] = value.split("\n").map((s) => s.trim()).filter(Boolean);
      else if (input.dataset.json !== undefined) body[input.name] = JSON.parse(value);
      else body[input.name] = input.type === "number" ? Number(value) : value;
    }
    return body;
  };

  // getAttribute, not form.dataset: a field named "dataset" would stand in its place.
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const said = (name) => form.getAttribute(`data-${name}`);
    if (!said("post")) return;
    event.preventDefault();
    const button = form.querySelector("button[type=submit], button:not([type])");
    if (button) button.disabled = true;
    try {
      await send(said("method") || "POST", said("post"), fields(form));
      toast(said("done") || "Saved");
      if (said("stay") === null) location.reload();
    } catch (error) {
      toast(error.message, true);
    } finally {
      if (button) button.disabled = false;
    }
  });

  // Review queue: j/k move, p promote, a accept, r reject, o open, ? help.
  const queue = document.querySelector("[data-queue]");
  if (queue) {
    let at = 0;
    const items = () => [...queue.querySelectorAll(".item")];
    const show = (next) => {
      const all = items();
      if (!all.length) {
        queue.innerHTML = '<li class="panel empty">Nothing more waits for review.</li>';
        return;
      }
      at = Math.max(0, Math.min(next, all.length - 1));
      all.forEach((item, i) => item.classList.toggle("here", i === at));
      all[at].scrollIntoView({ block: "nearest" });
      all[at].querySelector("a")?.focus({ preventScroll: true });
    };
    const act = async (item, action) => {
      const id = item.dataset.turn;
      try {
        if (action === "promote") {
          const row = await send("POST", `/api/v1/turns/${id}/promote?project=${encodeURIComponent(item.dataset.project)}`,
            { dataset: document.querySelector("[data-dataset]").value || "regressions" });
          const alike = (row.duplicates || []).length;
          toast(`Promoted as ${row.kind} (${row.status.replace("_", " ")})${alike ? `; ${alike} rows ask the same thing` : ""}`);
        } else {
          await send("POST", `/api/v1/review/${id}?project=${encodeURIComponent(item.dataset.project)}`, { action });
          toast(action === "accept" ? "Accepted" : "Rejected");
        }
        item.remove();
        const count = document.querySelector("[data-count]");
        if (count) count.textContent = String(items().length);
        show(at);
      } catch (error) { toast(error.message, true); }
    };
    queue.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-act]");
      if (button) act(button.closest(".item"), button.dataset.act);
    });
    document.addEventListener("keydown", (event) => {
      if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
      const item = items()[at];
      const keys = {
        j: () => show(at + 1), k: () => show(at - 1),
        p: () => item && act(item, "promote"), a: () => item && act(item, "accept"), r: () => item && act(item, "reject"),
        o: () => item && (location.href = item.querySelector("a").href),
        "?": () => document.querySelector("[data-help]")?.toggleAttribute("open"),
      };
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
    if (items().length) show(0);
  }

  // The name beside what a person does when no keys are set up.
  const who = document.querySelector("[data-who]");
  if (who) {
    who.addEventListener("change", () => {
      document.cookie = `stagewatch_user=${encodeURIComponent(who.value.trim())}; path=/; max-age=31536000; samesite=strict`;
      toast(`Your name here: ${who.value.trim() || "unverified"}`);
    });
  }

  // Passages seen in traffic, to tick as needs that this turn never fetched.
  const search = document.querySelector("[data-passages]");
  if (search) {
    const found = document.querySelector("[data-found]");
    search.addEventListener("change", async () => {
      const words = search.value.trim();
      if (words.length < 2) return;
      try {
        const answer = await send("GET", `${search.dataset.passages}&q=${encodeURIComponent(words)}`);
        found.querySelectorAll("label:not(:has(:checked))").forEach((old) => old.remove());
        if (!answer.items.length) toast("No passage seen in traffic holds these words");
        for (const item of answer.items) {
          const label = document.createElement("label");
          label.className = "need";
          const box = document.createElement("input");
          box.type = "checkbox";
          box.name = "needs";
          box.dataset.need = JSON.stringify({ chunk_id: item.chunk_id, document_id: item.document_id, version: item.version });
          const text = document.createElement("span");
          text.textContent = `${item.chunk_id}: ${item.content}`;
          label.append(box, text);
          found.append(label);
        }
      } catch (error) { toast(error.message, true); }
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); search.dispatchEvent(new Event("change")); }
    });
  }

  // Hand labels beside claims and chunks.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-labels] button");
    if (!button) return;
    const row = button.parentElement;
    try {
      await send("POST", row.dataset.labels, {
        turn_id: row.dataset.turn,
        labels: [{ metric: row.dataset.metric, item: row.dataset.item, label: button.value }],
      });
      row.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      toast("Labelled: it counts in the judge's calibration");
    } catch (error) { toast(error.message, true); }
  });

  // Selects that act at once.
  document.querySelectorAll("select[data-go]").forEach((select) =>
    select.addEventListener("change", () => select.form.submit()));

  // Times are UTC in the page; the reader's own time is in the tooltip.
  document.querySelectorAll("time[datetime]").forEach((el) => { el.title = new Date(el.dateTime).toLocaleString(); });

  // Pages that follow live data reload when they are looked at again.
  const live = document.querySelector("[data-refresh]");
  if (live) setInterval(() => { if (!document.hidden && !document.querySelector(":focus-within input, textarea:focus")) location.reload(); }, Number(live.dataset.refresh) * 1000);
})();
