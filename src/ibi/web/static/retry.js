// Counts down to the moment when trying again makes sense, and then reads the page again, a few times at most.
const line = document.querySelector("[data-again]");
const MOST = 5;

function countDown() {
  const words = line.firstElementChild;
  const first = words.textContent;
  // Not all readers come back at the same moment.
  const end = Date.now() + Number(line.dataset.again) * 1000 + Math.random() * 900;
  const stop = document.createElement("button");
  const timer = setInterval(() => {
    const left = Math.ceil((end - Date.now()) / 1000);
    if (left > 0) {
      words.textContent = (left === 1 ? line.dataset.one : line.dataset.many).replace("{count}", left);
    } else if (!document.hidden) {
      clearInterval(timer);
      words.textContent = line.dataset.now;
      history.replaceState({ tries: (history.state?.tries ?? 0) + 1 }, "");
      location.reload();
    }
  }, 1000);
  stop.type = "button";
  stop.className = "plain button";
  stop.textContent = line.dataset.stop;
  stop.addEventListener("click", () => {
    clearInterval(timer);
    words.textContent = first;
    words.tabIndex = -1; // the button goes, and what is read next stands here
    words.focus();
    stop.remove();
  });
  line.append(" ", stop);
}

if (line && (history.state?.tries ?? 0) < MOST) countDown();
