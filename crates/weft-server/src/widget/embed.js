// Puts the chat on a site: <script src="https://weft.example/widget/NAME/embed.js" async></script>
(() => {
  const script = document.currentScript;
  if (!script || document.getElementById("weft-widget")) return;
  const address = script.src.replace(/\/embed\.js(\?.*)?$/, "");
  const frame = document.createElement("iframe");
  frame.id = "weft-widget";
  frame.title = script.dataset.title || "Chat";
  const style = (element, rules) => Object.assign(element.style, rules);
  style(frame, {
    position: "fixed",
    right: "1rem",
    bottom: "5rem",
    zIndex: "2147483000",
    width: "min(24rem, calc(100vw - 2rem))",
    height: "min(36rem, calc(100vh - 7rem))",
    border: "0",
    borderRadius: "12px",
    boxShadow: "0 8px 32px rgb(0 0 0 / 25%)",
    display: "none",
    colorScheme: "normal",
  });
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "\u{1F4AC}";
  button.setAttribute("aria-label", frame.title);
  button.setAttribute("aria-expanded", "false");
  style(button, {
    position: "fixed",
    right: "1rem",
    bottom: "1rem",
    zIndex: "2147483000",
    width: "3.25rem",
    height: "3.25rem",
    border: "0",
    borderRadius: "50%",
    background: script.dataset.color || "#3b4fd1",
    color: "#fff",
    fontSize: "1.5rem",
    cursor: "pointer",
  });
  button.addEventListener("click", () => {
    const open = frame.style.display === "none";
    if (open && !frame.src) frame.src = address;
    frame.style.display = open ? "block" : "none";
    button.setAttribute("aria-expanded", String(open));
  });
  const add = () => document.body.append(frame, button);
  if (document.body) add();
  else document.addEventListener("DOMContentLoaded", add);
})();
