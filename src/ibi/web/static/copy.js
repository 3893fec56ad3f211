// Buttons that copy a text. Without this script the page has none, and lacks nothing else.
const said = document.querySelector("[data-copied]");

function selected(text) {
  const range = document.createRange();
  range.selectNodeContents(text);
  const selection = window.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  return document.execCommand("copy");
}

async function copy(text) {
  const plain = text.textContent;
  try {
    // With its emphasis, which ABNT and APA demand, for programs that take formatted text.
    if (text.querySelector("strong, em") && window.ClipboardItem) {
      const as = (kind, words) => ({ [kind]: new Blob([words], { type: kind }) });
      const both = { ...as("text/plain", plain), ...as("text/html", text.innerHTML) };
      await navigator.clipboard.write([new ClipboardItem(both)]);
    } else await navigator.clipboard.writeText(plain);
    return true;
  } catch {
    return selected(text); // a page without https has no clipboard
  }
}

for (const text of said ? document.querySelectorAll("[data-copy]") : []) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = said.dataset.word;
  const what = document.createElement("span");
  what.className = "unseen";
  what.textContent = ` (${text.dataset.copy})`;
  button.append(what);
  button.addEventListener("click", async () => {
    const done = await copy(text);
    said.textContent = "";
    if (!done) return;
    requestAnimationFrame(() => { said.textContent = `${said.dataset.copied} ${text.dataset.copy}`; });
    button.firstChild.textContent = said.dataset.copied.replace(":", "");
    setTimeout(() => { button.firstChild.textContent = said.dataset.word; }, 2000);
  });
  (text.closest("[data-copy-box]") ?? text).after(button);
}
