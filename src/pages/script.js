// Sends a form with data-api="METHOD /path" as JSON to the API, with the session's cookie. What is
// wrong stands beside its field, or above everything; what was done is said after the reload.
// Fields are sent by name, empty ones are left out; data-type="int" sends a whole number, "utc" the
// moment that a datetime-local field shows.
"use strict";

const DONE = "counterfoil.done";

const valueOf = (field) => {
  if (field.type === "checkbox") return field.checked;
  const text = field.value.trim();
  if (text === "") return undefined;
  switch (field.dataset.type) {
    case "int": return Number(text);
    case "utc": return `${text.length === 16 ? `${text}:00` : text}Z`;
    default: return text;
  }
};

const say = (id, text) => {
  const place = document.getElementById(id);
  place.textContent = text;
  place.hidden = text === "";
};

const clear = (form) => {
  say("problem", "");
  say("done", "");
  form.querySelectorAll(".wrong").forEach((place) => place.remove());
  form.querySelectorAll("[aria-invalid]").forEach((field) => {
    field.removeAttribute("aria-invalid");
  });
};

/** Which field a problem without one is about. */
const ABOUT = {
  account_exists: "id", anchor_fixed: "starts_at", code_taken: "code", customer_taken: "customer_id",
};

/** Beside the field that is wrong, where the form has it. */
const complain = (form, problem) => {
  const text = problem.detail ?? problem.message ?? "It did not work.";
  const name = problem.field ?? ABOUT[problem.code];
  const field = name && form.elements.namedItem(name);
  if (!(field instanceof Element) || field.type === "hidden") {
    say("problem", name ? `${name}: ${text}` : text);
    return;
  }
  // Inside the label, so that it is read out with the field's name.
  const place = document.createElement("span");
  place.className = "wrong";
  place.setAttribute("role", "alert");
  place.textContent = text;
  field.setAttribute("aria-invalid", "true");
  field.after(place);
  field.focus();
};

const send = async (form) => {
  const [method, path] = form.dataset.api.split(" ");
  const named = [...form.elements].filter((field) => field.name);
  const values = named.map((field) => [field.name, valueOf(field)]);
  const body = Object.fromEntries(values.filter(([, value]) => value !== undefined));
  const answer = await fetch(path, {
    method,
    headers: { "content-type": "application/json" },
    body: method === "DELETE" ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  const read = text === "" ? {} : JSON.parse(text);
  if (!answer.ok) throw read;
  return read;
};

/** Puts fresh lists in the place of the old ones, where a reload would lose what is shown once. */
const refresh = async () => {
  const answer = await fetch(window.location.href, { headers: { accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-fresh]")) {
    const made = fresh.getElementById(old.id);
    if (made) old.replaceWith(made);
  }
};

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.api) return;
  event.preventDefault();
  if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) return;
  const buttons = form.querySelectorAll("button");
  buttons.forEach((button) => { button.disabled = true; });
  clear(form);
  try {
    const read = await send(form);
    const output = form.querySelector("output");
    if (output) {
      output.textContent = `${form.dataset.said} ${read[form.dataset.show] ?? ""}`;
      await refresh();
    } else {
      sessionStorage.setItem(DONE, form.dataset.said ?? "");
      window.location.reload();
    }
  } catch (problem) {
    complain(form, problem);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
});

say("done", sessionStorage.getItem(DONE) ?? "");
sessionStorage.removeItem(DONE);

// A lease runs down before one's eyes; the page's own clock need not agree with the server's.
const shownAt = performance.now();
const duration = (seconds) => {
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  if (seconds >= 60) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${seconds} s`;
};
const leases = document.querySelectorAll("[data-left-ms]");
const runDown = () => leases.forEach((place) => {
  const left = Number(place.dataset.leftMs) - (performance.now() - shownAt);
  place.textContent = left > 0 ? duration(Math.floor(left / 1000)) : "run out";
});
if (leases.length > 0) setInterval(runDown, 1000);
