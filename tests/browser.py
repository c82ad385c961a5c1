"""Pages in Debian's Chromium: what can be seen of them, and what must not be cut off."""

from __future__ import annotations

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LIMIT = 600_000  # milliseconds, for what never comes, not for what is slow
VIEWS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]

# Text that does not fit into its element, beyond what a container that scrolls by itself may hide; and SVG text or
# pictures outside of their frames.
CLIPPED = """() => {
  const scrolls = (element) => element.closest(".wide, pre, figure.picture");
  const found = [], root = document.documentElement;
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest("svg, script, style, #tip")) continue;
    const box = element.getBoundingClientRect();
    if (!box.width || scrolls(element)) continue;
    const shown = element.outerHTML.slice(0, 120);
    if (element.clientWidth && element.scrollWidth > element.clientWidth + 1) found.push(["overflows", shown]);
    if (box.right > root.clientWidth + 1) found.push(["beyond the page", shown]);
  }
  for (const text of document.querySelectorAll("svg text")) {
    const box = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
    const inside = box.left >= frame.left - 1 && box.right <= frame.right + 1
      && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
    if (!inside) found.push(["outside of its chart", text.textContent]);
  }
  if (root.scrollWidth > innerWidth + 1) found.push(["the page scrolls sideways", String(root.scrollWidth)]);
  return found;
}"""


def refuse_clipped(view) -> None:
    """An error if anything on the page is cut off or overflows."""
    assert view.evaluate(CLIPPED) == []
