// Channels: test, save, delete, dry run; keys on the alerts page.
(() => {
  "use strict";
  const { send } = window.stagewatch;
  const at = (path, project) => `/api/v1${path}?project=${encodeURIComponent(project)}`;
  const put = (el, text, bad) => {
    el.textContent = text;
    el.classList.toggle("bad-text", Boolean(bad));
  };

  // Everything typed; a list is always sent, an empty text means "as it is".
  const settings = (form) => {
    const body = {};
    for (const input of form.elements) {
      if (!input.name || input.value.trim() === "") continue;
      const value = input.value.trim();
      body[input.name] = input.type === "number" ? Number(value) : value === "true" ? true : value === "false" ? false : value;
    }
    for (const group of form.querySelectorAll("[data-many]")) {
      body[group.dataset.many] = [...group.querySelectorAll("input:checked")].map((box) => box.value);
    }
    return body;
  };

  const said = document.querySelector("[data-said]");
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-test], [data-delete]");
    if (!button) return;
    button.disabled = true;
    const { test, project } = button.dataset;
    try {
      if (test !== undefined) {
        put(said, `Sending a test to ${test} …`);
        const found = await send("POST", at("/alerts/test", project), { channel: test });
        const answer = [found.status || "", found.said].filter(Boolean).join(" ");
        put(said, found.ok ? `${test} took it: ${answer || "no words"}` : `${test} did not take it: ${answer}`, !found.ok);
      } else if (button.dataset.sure === undefined) {
        button.dataset.sure = "";
        button.textContent = "Really delete?";
      } else {
        await send("DELETE", at(`/channels/${encodeURIComponent(button.dataset.delete)}`, project));
        location.assign("/channels");
      }
    } catch (error) {
      put(said, error.message, true);
    } finally {
      button.disabled = false;
    }
  });

  const form = document.querySelector("form[data-channel]");
  if (form) {
    const made = form.querySelector("[data-made]");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const found = await send("POST", at("/channels", form.dataset.project), settings(form));
        if (found.new_secret) {
          // Shown this once: no reload until the reader goes on.
          put(made, `Saved. The signing secret, shown this once: ${found.new_secret}`);
        } else {
          location.assign("/channels");
        }
      } catch (error) { put(made, error.message, true); }
    });
    form.querySelector("[data-dry]").addEventListener("click", async () => {
      const result = form.querySelector("[data-dry-result]");
      try {
        const body = settings(form);
        const found = await send("POST", at("/alerts/dry-run", form.dataset.project), { settings: body });
        const head = document.createElement("p");
        head.textContent = `${found.messages} message${found.messages === 1 ? "" : "s"} since ${found.since.slice(0, 10)}${found.held_back ? `; ${found.held_back} more held back, because the judge is not calibrated` : ""}.`;
        const list = document.createElement("ul");
        list.className = "small";
        for (const item of found.items.slice(0, 50)) {
          const li = document.createElement("li");
          li.textContent = `${item.at.slice(0, 16).replace("T", " ")} UTC, ${item.event} (${item.severity}): ${item.sentence}${item.held_back ? ` [held back: ${item.held_back}]` : ""}`;
          list.append(li);
        }
        result.replaceChildren(head, list);
      } catch (error) { put(result, error.message, true); }
    });
  }

  // Alerts: j/k move, a acknowledge, s snooze, o open the first turn.
  const alerts = document.querySelector("[data-alerts]");
  if (alerts) {
    const items = [...alerts.querySelectorAll(".alert")];
    let here = -1;
    const show = (next) => {
      if (!items.length) return;
      here = Math.max(0, Math.min(next, items.length - 1));
      items.forEach((item, i) => item.classList.toggle("here", i === here));
      items[here].focus({ preventScroll: true });
      items[here].scrollIntoView({ block: "nearest" });
    };
    document.addEventListener("keydown", (event) => {
      if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
      const press = (key) => items[here]?.querySelector(`form[data-key="${key}"]`)?.requestSubmit();
      const keys = {
        j: () => show(here + 1), k: () => show(here - 1), a: () => press("a"), s: () => press("s"),
        o: () => items[here]?.querySelector(".links a")?.click(),
        "?": () => document.querySelector("[data-help]")?.toggleAttribute("open"),
      };
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
  }
})();
