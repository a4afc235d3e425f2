"""Pages in a real browser, headless."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Final

NAMES: Final = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
TIMEOUT_S: Final = 60
ANSWER: Final = re.compile(r'<pre id="seen">(.*?)</pre>', re.DOTALL)
# What a reader would call badly drawn; pixels of a window, with one for rounding.
PROBE: Final = """
<script>
const box = (one) => one.getBoundingClientRect();
const named = (one) => `${one.tagName}.${one.getAttribute("class")} ${one.textContent.trim()}`;
const within = (inner, outer) =>
  inner.left >= outer.left - 1 && inner.right <= outer.right + 1 &&
  inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
const apart = (one, other) =>
  one.right <= other.left + 1 || other.right <= one.left + 1 ||
  one.bottom <= other.top + 1 || other.bottom <= one.top + 1;
const problems = [];
if (document.documentElement.scrollWidth > window.innerWidth)
  problems.push("the page is wider than its window");
let marks = 0;
for (const svg of document.querySelectorAll("svg")) {
  const frame = box(svg.parentElement);
  if (box(svg).right > frame.right && getComputedStyle(svg.parentElement).overflowX != "auto")
    problems.push("a plot leaves its frame");
  const drawn = [...svg.querySelectorAll("rect, line, text")];
  for (const one of drawn)
    if (!within(box(one), box(svg))) problems.push(`${named(one)} leaves its plot`);
  const words = drawn.filter((one) => one.tagName == "text");
  const cells = drawn.filter((one) => one.tagName == "rect");
  for (const [index, word] of words.entries())
    for (const other of [...words.slice(index + 1), ...cells])
      if (!apart(box(word), box(other))) problems.push(`${named(word)} covers ${named(other)}`);
  marks += cells.filter((one) => box(one).width > 0 && box(one).height > 0).length;
}
const seen = document.createElement("pre");
seen.id = "seen";
seen.textContent = JSON.stringify({marks, problems});
document.body.append(seen);
</script>
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A page after it was loaded."""

    marks: int
    """Cells and bars that can be seen."""
    problems: list[str]
    console: list[str]


Finished = subprocess.CompletedProcess[str]


class Chromium:
    """One browser; each page in a process of its own."""

    def __init__(self, program: str, directory: Path) -> None:
        self.program = program
        self.directory = directory

    def look(self, html: str, *, width: int, height: int = 900) -> Seen:
        """Load a page and say how it is drawn."""
        done = self._run(html.replace("</body>", f"{PROBE}</body>"), width, height, "--dump-dom")
        answer = ANSWER.search(done.stdout)
        assert answer is not None, done.stdout[-2000:] + done.stderr[-2000:]
        seen: dict[str, Any] = json.loads(unescape(answer[1]))
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return Seen(seen["marks"], seen["problems"], console)

    def picture(self, html: str, *, width: int, height: int) -> bytes:
        """A page as PNG."""
        target = self.directory / "page.png"
        done = self._run(html, width, height, f"--screenshot={target}")
        assert target.exists(), done.stderr[-2000:]
        return target.read_bytes()

    def _run(
        self, html: str, width: int, height: int, deed: str
    ) -> subprocess.CompletedProcess[str]:
        page = self.directory / "page.html"
        page.write_text(html, encoding="utf-8")
        line = [self.program, "--headless", "--disable-gpu", "--hide-scrollbars"]
        line += ["--enable-logging=stderr", f"--window-size={width},{height}", deed]
        line += [f"--user-data-dir={self.directory / 'profile'}", page.as_uri()]
        if os.geteuid() == 0:
            line.insert(1, "--no-sandbox")  # it refuses to run as root with one
        done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr[-2000:]
        return done


def find_chromium() -> str | None:
    """The first of its programs on the path."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)
