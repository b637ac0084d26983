// Sends a form with data-api="METHOD /path" as JSON to the API, with the session's cookie, and
// reloads the page or shows the problem. Fields are sent by name; empty ones are left out;
// data-type="int" sends a whole number, "json" what the text says, "list" its words.
"use strict";

const valueOf = (field) => {
  if (field.type === "checkbox") return field.checked;
  const text = field.value.trim();
  if (text === "") return undefined;
  switch (field.dataset.type) {
    case "int": return Number(text);
    case "json": return JSON.parse(text);
    case "list": return text.split(/\s+/);
    default: return text;
  }
};

const show = (problem) => {
  const place = document.getElementById("problem");
  place.textContent = problem;
  place.hidden = problem === "";
};

const send = async (form) => {
  const [method, target] = form.dataset.api.split(" ");
  const body = {};
  let path = target;
  for (const field of form.elements) {
    if (!field.name) continue;
    const value = valueOf(field);
    if (value === undefined) continue;
    // A field that the path names, such as {id}, goes there.
    const place = `{${field.name}}`;
    if (path.includes(place)) path = path.replace(place, encodeURIComponent(value));
    else body[field.name] = value;
  }
  const answer = await fetch(path, {
    method,
    headers: { "content-type": "application/json" },
    body: method === "DELETE" ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  const read = text === "" ? {} : JSON.parse(text);
  if (!answer.ok) throw new Error(`${read.code}: ${read.detail ?? ""} ${read.field ?? ""}`.trim());
  return read;
};

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.api) return;
  event.preventDefault();
  if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) return;
  const buttons = form.querySelectorAll("button");
  buttons.forEach((button) => { button.disabled = true; });
  show("");
  try {
    const read = await send(form);
    const output = form.querySelector("output");
    // What is shown once, such as a new API key, must not be lost by a reload.
    if (output) output.textContent = form.dataset.show ? read[form.dataset.show] : JSON.stringify(read);
    else window.location.assign(form.dataset.then ?? window.location.href);
  } catch (error) {
    show(error.message);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
});

// A lease runs down before one's eyes; the page's own clock need not agree with the server's.
const shownAt = performance.now();
const leases = document.querySelectorAll("[data-left-ms]");
const runDown = () => leases.forEach((place) => {
  const left = Number(place.dataset.leftMs) - (performance.now() - shownAt);
  place.textContent = left > 0 ? `${Math.ceil(left / 1000)} s` : "run out";
});
if (leases.length > 0) setInterval(runDown, 1000);
