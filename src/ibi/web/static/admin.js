// The pages work without this. With it: steps of a form without a new page, files that can be dropped, and how far an upload is.

// A step of a form, such as one more row, replaces only its part: what is typed elsewhere meanwhile stays.
function takeSteps(form) {
  form.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!partOf(button)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (partOf(button) !== "files") doStep(form, button, dataOf(form, button));
    else sendFiles(form, button);
  });
  form.addEventListener("change", ({ target }) => {
    const waiting = form.querySelectorAll("[name=upload]").length;
    const few = target.id === "file" && waiting + target.files.length <= Number(form.dataset.most); // others go with the deposit
    if (few && target.files.length) form.requestSubmit(form.querySelector("[value=files]"));
  });
}

// The part that a step replaces: the nearest element around its button that has a name of its own.
function partOf(button) {
  return button?.name === "step" ? button.closest("section[id], fieldset[id], div[id]")?.id : "";
}

function dataOf(form, button) {
  const data = new FormData(form, button);
  if (partOf(button) !== "files") data.delete("file");
  return form.enctype === "multipart/form-data" ? data : new URLSearchParams(data);
}

async function doStep(form, button, data) {
  try {
    const answer = await fetch(form.action, { method: "POST", body: data });
    replacePart(form, button, await answer.text());
  } catch {
    sayFailed(form, form.dataset.failed);
  }
}

function replacePart(form, button, text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const problem = page.querySelector("#problem p");
  const parts = button.value.startsWith("kind:") ? ["kind", "publication", "people", "relations"] : [partOf(button)];
  const found = parts.map((id) => [document.getElementById(id), page.getElementById(id)]);
  if (problem || !found.every(([, to]) => to)) return sayFailed(form, problem?.textContent || form.dataset.failed);
  const first = found[0][1];
  const next = first.querySelector("[autofocus]") || first.querySelector("input:not([type=hidden]), button");
  next?.removeAttribute("autofocus"); // a browser obeys it only once, and then complains
  for (const [from, to] of [...found, [document.getElementById("steps"), page.getElementById("steps")]]) {
    from.replaceWith(document.adoptNode(to));
    begin(to);
  }
  next?.focus();
}

function sayFailed(form, sentence) {
  form.querySelector(".failed")?.remove();
  const said = document.createElement("p");
  said.className = "fault failed";
  said.setAttribute("role", "alert");
  said.textContent = sentence || "";
  form.querySelector("#files, section")?.append(said);
}

function sendFiles(form, button) {
  const input = form.querySelector("#files input[type=file]");
  if (!input.files.length) return doStep(form, button, dataOf(form, button));
  send(form, button, dataOf(form, button), (request) => replacePart(form, button, request.responseText));
  input.disabled = true;
}

function takeDrops(place) {
  const input = place.querySelector("input[type=file]");
  const over = (event) => {
    event.preventDefault();
    place.classList.add("over");
  };
  place.addEventListener("dragenter", over);
  place.addEventListener("dragover", over);
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    place.classList.remove("over");
    const files = new DataTransfer();
    const many = input.multiple ? [...input.files, ...event.dataTransfer.files] : [...event.dataTransfer.files].slice(0, 1);
    for (const file of many) files.items.add(file);
    input.files = files.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

function replaceMain(text, form) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const main = page.querySelector("main");
  if (!main) return location.reload();
  const chosen = form.querySelector("input[type=file]");
  const empty = main.querySelector("input[type=file]");
  // Files that the form has kept are listed in it, and are not sent again.
  if (chosen && empty && !main.querySelector("[name=upload]")) empty.replaceWith(chosen);
  document.title = page.title;
  document.querySelector("main").replaceWith(document.adoptNode(main));
  begin(document.querySelector("main"));
  const trouble = document.querySelector("#problem") || document.querySelector("main h1");
  trouble.tabIndex = -1;
  trouble.focus();
}

function showProgress(form) {
  form.addEventListener("submit", (event) => {
    const input = form.querySelector("input[type=file]");
    if (!input || !input.files.length) return;
    event.preventDefault();
    send(form, event.submitter, new FormData(form, event.submitter), (request) => {
      const sentOn = request.status === 200 && new URL(request.responseURL).pathname !== new URL(form.action).pathname;
      if (sentOn) location.assign(request.responseURL);
      else replaceMain(request.responseText, form);
    });
  });
}

// Send a form, and show how much of it has been sent.
function send(form, button, data, then) {
  const bar = document.createElement("progress");
  const said = document.createElement("p");
  const buttons = form.querySelectorAll("button:not([type=button])");
  said.setAttribute("role", "status");
  bar.max = 100;
  bar.setAttribute("aria-labelledby", (said.id = "sent"));
  (button?.hidden ? form.querySelector("button.main") : button || form.lastElementChild).after(bar, said);
  for (const each of buttons) each.disabled = true;
  const request = new XMLHttpRequest();
  let told = -1;
  const tell = (percent) => {
    bar.value = percent;
    if (Math.floor(percent / 10) !== told) said.textContent = form.dataset.progress.replace("%", Math.floor(percent));
    told = Math.floor(percent / 10);
  };
  const again = () => {
    bar.remove();
    said.remove();
    for (const each of form.querySelectorAll("button:not([type=button])")) each.disabled = false;
    for (const each of form.querySelectorAll("input[type=file]")) each.disabled = false;
  };
  request.upload.addEventListener("progress", (sent) => sent.lengthComputable && tell((100 * sent.loaded) / sent.total));
  request.addEventListener("load", () => {
    again();
    then(request);
  });
  request.addEventListener("error", () => {
    again();
    if (partOf(button)) sayFailed(form, form.dataset.failed);
    else form.submit(); // as without a script: the browser says what is wrong
  });
  request.open("POST", form.action);
  request.send(data);
  tell(0);
}

// Dates are read back in words as they are typed, as the page does when it comes again.
function readDates(part) {
  part.addEventListener("input", (event) => {
    const words = event.target.name === "dc.date" && event.target.parentElement.querySelector("output");
    if (words) words.textContent = inWords(event.target.value.trim());
  });
}

function inWords(text) {
  const iso = /^(\d{4})-(\d\d)(?:-(\d\d))?$/.exec(text);
  const people = /^(?:(\d{1,2})[./-])?(\d{1,2})[./-](\d{4})$/.exec(text);
  if (!iso && !people) return "";
  const [year, month, day] = iso ? iso.slice(1) : people.slice(1).reverse();
  const date = new Date(Date.UTC(year, month - 1, day || 1));
  if (date.getUTCMonth() !== month - 1) return "";
  const shape = { year: "numeric", month: "long", timeZone: "UTC", ...(day && { day: "numeric" }) };
  return date.toLocaleDateString(document.documentElement.lang, shape);
}

function tickAll(table) {
  const boxes = table.querySelectorAll('tbody [type="checkbox"]');
  if (!boxes.length) return;
  const all = document.createElement("input");
  all.type = "checkbox";
  all.setAttribute("aria-label", table.dataset.all);
  all.addEventListener("change", () => boxes.forEach((box) => { box.checked = all.checked; }));
  table.querySelector("thead td").append(all);
}

function begin(place) {
  place.querySelectorAll("table[data-all]").forEach(tickAll);
  place.querySelectorAll(".drop").forEach(takeDrops);
  place.querySelectorAll("form.deposit").forEach(takeSteps);
  place.querySelectorAll("form[data-progress]").forEach(showProgress);
  place.querySelectorAll("form.deposit").forEach(readDates);
}

// Where the menu is a line that scrolls, the page that is open is in sight.
function showOpenPage(menu) {
  const open = menu.querySelector("[aria-current]");
  if (open) menu.scrollLeft = open.offsetLeft - 24;
}

begin(document);
document.querySelectorAll(".menu").forEach(showOpenPage);
document.querySelector("#problem")?.focus();
