// The pages work without this. With it: rows that can be added, files that can be dropped, and how far an upload is.

function addRows(rows) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = rows.dataset.more;
  button.addEventListener("click", () => {
    const all = rows.querySelectorAll(".row");
    const last = all[all.length - 1];
    const next = last.cloneNode(true);
    const number = String(all.length + 1);
    for (const each of next.querySelectorAll("input, textarea")) {
      each.value = "";
      each.id = each.id.replace(/-\d+/, `-${number}`);
    }
    for (const label of next.querySelectorAll("label")) {
      label.htmlFor = label.htmlFor.replace(/-\d+/, `-${number}`);
      label.textContent = label.textContent.replace(/\d+$/, number);
    }
    last.after(next);
    next.querySelector("input, textarea").focus();
  });
  rows.append(button);
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
  });
}

function replaceMain(text, form) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const main = page.querySelector("main");
  if (!main) return location.reload();
  const chosen = form.querySelector("input[type=file]");
  const empty = main.querySelector("input[type=file]");
  if (chosen && empty) empty.replaceWith(chosen);
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
    const bar = document.createElement("progress");
    const said = document.createElement("p");
    const button = form.querySelector("button[type=submit]");
    said.setAttribute("role", "status");
    bar.max = 100;
    bar.setAttribute("aria-labelledby", (said.id = "sent"));
    button.after(bar, said);
    button.disabled = true;
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
      button.disabled = false;
    };
    request.upload.addEventListener("progress", (sent) => sent.lengthComputable && tell((100 * sent.loaded) / sent.total));
    request.addEventListener("load", () => {
      again();
      const sentOn = request.status === 200 && new URL(request.responseURL).pathname !== new URL(form.action).pathname;
      if (sentOn) location.assign(request.responseURL);
      else replaceMain(request.responseText, form);
    });
    request.addEventListener("error", () => {
      again();
      form.submit(); // as without a script: the browser says what is wrong
    });
    request.open("POST", form.action);
    request.send(new FormData(form));
    tell(0);
  });
}

function begin(place) {
  place.querySelectorAll("fieldset[data-more]").forEach(addRows);
  place.querySelectorAll(".drop").forEach(takeDrops);
  place.querySelectorAll("form[data-progress]").forEach(showProgress);
}

begin(document);
document.querySelector("#problem")?.focus();
