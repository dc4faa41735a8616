// Dark or light: as the system prefers, until the user switches. A cookie stores it, so that no page flashes.
export function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : root.dataset.theme === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  const path = document.body.dataset.root || "/";
  document.cookie = `headrace_theme=${root.dataset.theme}; path=${path}; max-age=31536000; samesite=lax`;
}

export function startTheme() {
  document.getElementById("theme").addEventListener("click", toggleTheme);
}
