// A button beside each command. Without scripts there is none, and a click still selects the whole command.
"use strict";
for (const code of document.querySelectorAll("pre:not([data-output]) > code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-live", "polite"); // what the button says after a click is read out
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch { // refused, or pages that are not served by https
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  code.parentElement.append(button);
}
