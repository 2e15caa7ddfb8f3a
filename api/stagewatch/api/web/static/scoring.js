// Rules and backfills: forms that show what something would do or cost before it is done.
(() => {
  "use strict";
  const { send } = window.stagewatch;
  const say = (form, text, bad) => {
    const box = form.querySelector("[data-said]");
    (box.querySelector("[data-sentence]") || box).textContent = text;
    box.classList.toggle("bad", Boolean(bad));
    box.classList.toggle("info", !bad);
    box.hidden = false;
  };

  // Fields to JSON: "filters.service" nests, data-split is a list, data-pairs a table of
  // key=value, data-many a list of what is ticked; empty fields are left out.
  const rule = (form) => {
    const body = {};
    const put = (name, value) => {
      const parts = name.split(".");
      const last = parts.pop();
      let at = body;
      for (const part of parts) at = at[part] ||= {};
      at[last] = value;
    };
    // What holds a comma or "=" itself is written as JSON.
    const json = (text) => { try { return JSON.parse(text); } catch { throw new Error(`not JSON: ${text}`); } };
    const list = (text) => text.startsWith("[") ? json(text) : text.split(",").map((part) => part.trim()).filter(Boolean);
    for (const input of form.elements) {
      if (!input.name) continue;
      if (input.dataset.many !== undefined) {
        if (input.checked) put(input.name, [...(body[input.name] || []), input.value]);
        continue;
      }
      const value = input.value.trim();
      if (value === "") continue;
      if (input.dataset.split !== undefined) put(input.name, list(value));
      else if (input.dataset.pairs !== undefined) {
        put(input.name, value.startsWith("{") ? json(value) : Object.fromEntries(list(value).map((pair) => {
          const at = pair.indexOf("=");
          if (at < 1) throw new Error(`tags: "${pair}" is not key=value`);
          return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
        })));
      } else if (input.type === "number") put(input.name, Number(value));
      else if (value === "true" || value === "false") put(input.name, value === "true");
      else put(input.name, value);
    }
    return body;
  };

  for (const form of document.querySelectorAll("form[data-rule]")) {
    const query = `?project=${encodeURIComponent(form.dataset.project)}`;
    form.querySelector("[data-preview]").addEventListener("click", async () => {
      if (!form.reportValidity()) return;
      try {
        const seen = await send("POST", `${form.dataset.rule}/preview${query}`, rule(form));
        say(form, `It ${seen.sentence}.`);
      } catch (error) { say(form, error.message, true); }
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const body = rule(form);
        await send("PUT", `${form.dataset.rule}/${encodeURIComponent(body.name)}${query}`, body);
        location.href = "/rules";
      } catch (error) { say(form, error.message, true); }
    });
  }

  for (const form of document.querySelectorAll("form[data-backfill]")) {
    let asked = null;
    const wish = () => {
      const value = (name) => form.elements[name].value;
      const until = new Date();
      const since = new Date(until.getTime() - 1000 * Number(value("span")));
      return {
        since: since.toISOString(), until: until.toISOString(), scope: value("scope"),
        judge: value("judge"), rule: value("rule"),
      };
    };
    const yes = form.querySelector("[data-yes]");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      yes.hidden = true;
      try {
        const body = wish();
        const { forecast } = await send("POST", form.dataset.backfill, { ...body, dry_run: true });
        say(form, `${forecast.sentence}.`);
        asked = { ...body, agreed_usd: forecast.usd };
        yes.hidden = forecast.turns === 0;
      } catch (error) { say(form, error.message, true); }
    });
    yes.addEventListener("click", async () => {
      yes.disabled = true;
      try {
        await send("POST", form.dataset.backfill, asked);
        location.reload();
      } catch (error) { say(form, error.message, true); yes.disabled = false; }
    });
  }

  // Progress of jobs under way, asked for until they end.
  const ended = (state) => state === "done" || state === "cancelled";
  for (const row of document.querySelectorAll("[data-job]")) {
    if (ended(row.dataset.state)) continue;
    const timer = setInterval(async () => {
      if (document.hidden) return;
      try {
        const job = await send("GET", row.dataset.job);
        row.querySelector("progress").value = job.progress.share;
        row.querySelector("[data-says]").textContent = job.says;
        row.querySelector("[data-usd]").textContent = `$${job.progress.usd.toFixed(2)}`;
        if (ended(job.progress.state)) {
          clearInterval(timer);
          row.querySelector("form")?.remove();
        }
      } catch { /* the next try may reach the server again */ }
    }, 1000);
  }
})();
