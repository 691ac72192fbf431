"""A VS Code window in a browser, used as a person does: keys go in, what is painted comes out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from tests.editors.desk import PATIENCE, wait_for
from tests.editors.vscode_desk import VsCodeDesk
from tests.editors.vscode_server import CodeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FrameLocator, Locator

KEY_MS = 30  # between two keys; without it, VS Code asks once for several keys
QUIET_MS = 1000  # how long nothing must happen where nothing may happen, or nothing more
FADING_MS = 500  # of what the mouse has left
NOWHERE = (250, 17)  # a place in the title bar where nothing is
REMOTE = ("http", "https", "ws", "wss")
# The text on the cursor's line, which may be several pieces, then the lines that VS Code draws below it.
GHOST = """(editor) => {
    const text = (node) => node.textContent.replaceAll('\\u00a0', ' ');
    const rows = new Set([...editor.querySelectorAll('.ghost-text')].map((node) => node.closest('.view-line')));
    const first = [...editor.querySelectorAll('.ghost-text-decoration')].map(text).join('');
    return [first, ...[...rows].map(text)].join('\\n');
}"""
RECORD = f"""(editor) => {{
    const ghost = {GHOST};
    editor.ghosts = [];
    const look = () => {{
        const now = ghost(editor);
        if (now !== (editor.ghosts.at(-1) ?? '')) editor.ghosts.push(now);
        requestAnimationFrame(look);
    }};
    look();
}}"""
FOCUSED = '(name) => document.activeElement?.closest(`.monaco-editor[data-uri$="${name}"]`)'


class Window:
    """One window, its documents opened one at a time; use it as a context manager."""

    def __init__(self, browser: Browser, server: CodeServer, desk: VsCodeDesk, target: Path) -> None:
        """Take what to open: a folder or a file that names several."""
        self.server, self.desk = server, desk
        self.strays: list[str] = []  # what was asked of other hosts
        self._target, self._file = target, ""
        self._context = browser.new_context(viewport={"width": 1280, "height": 800})
        self.page = self._context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.page.on("request", lambda request: self._note(request.url))
        self.page.on("websocket", lambda socket: self._note(socket.url))

    def __enter__(self) -> Window:
        kind = "folder" if self._target.is_dir() else "workspace"
        self.page.goto(f"{self.server.url}/?{kind}={quote(str(self._target))}", wait_until="domcontentloaded")
        self.page.locator(".monaco-workbench .part.statusbar").wait_for()
        self._wake()
        return self

    def __exit__(self, *_: object) -> None:
        self.page.goto("about:blank")  # a window that is left ends its extensions; one that vanishes keeps them
        self._context.close()
        self.desk.clear()
        assert self.strays == []

    def wait_until_ready(self) -> None:
        """Wait until the status bar says that the server has its model."""
        self.status.locator(".codicon-sparkle").wait_for()

    # Files.

    def edit(self, name: str, text: str, at: str = "") -> None:
        """Write a file of the project and put the cursor into it: at its end, or at `line:column`, both from 1."""
        self.open(self.desk.file(text, name), at)

    def open(self, path: Path, at: str = "") -> None:
        """Open a file as Ctrl+P does, and put the cursor at its end or at `line:column`."""
        self._file = path.name
        self._pick("Control+p", f"{path}:{at}" if at else str(path), path.name)
        self.page.wait_for_function(FOCUSED, arg=path.name)
        if not at:
            self.press("Control+End")

    def focus(self) -> None:
        """Put the cursor back to the end of the file that is open, after a click elsewhere."""
        self.page.locator(".editor-instance .view-line").first.click()
        self.press("Control+End")

    def open_cell(self, path: Path, number: int) -> None:
        """Open a notebook and put the cursor into a cell, counted from 0."""
        self._file = path.name
        self._pick("Control+p", str(path), path.name)
        self.page.locator(".notebook-editor .monaco-editor").nth(number).locator(".view-line").first.click()
        self.editor.wait_for()

    def saved(self) -> bytes:
        """Save the file and return what is on disk."""
        tab = self.page.locator(".tab.active.dirty")
        self.press("Control+s")
        tab.wait_for(state="detached")
        return self.desk.read(self._file)

    # Keys.

    def type(self, text: str) -> None:
        """Type at a person's pace."""
        self.page.keyboard.type(text, delay=KEY_MS)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def command(self, title: str) -> None:
        """Run a command from the palette."""
        self._pick("F1", f">{title}", title)

    def row(self, text: str) -> Locator:
        """Return a row of the list that is open."""
        return self.page.locator(".quick-input-list .monaco-list-row", has_text=text).first

    # What is painted.

    @property
    def editor(self) -> Locator:
        """The editor that the cursor is in."""
        return self.page.locator(".monaco-editor.focused").first

    @property
    def status(self) -> Locator:
        """Our item in the status bar."""
        return self.page.locator('[id="foretype.foretype.foretype.status"]')

    def wait_for_status(self, text: str) -> None:
        """Wait until our item in the status bar says something."""
        self.status.filter(has_text=text).wait_for()

    def stay_quiet(self) -> None:
        """See that for a moment no ghost text appears."""
        self.page.wait_for_timeout(QUIET_MS)
        assert self.ghost() == ""

    def ghost(self) -> str:
        """Return the ghost text, its lines as they are painted, or nothing."""
        return str(self.editor.evaluate(GHOST))

    def wait_for_ghost(self, text: str) -> None:
        """Wait until exactly this is the ghost text."""
        wait_for(lambda: self.ghost() == text, f"ghost text {text!r}", lambda: f"there is {self.ghost()!r}")

    def settled_ghost(self) -> str:
        """Return the ghost text once there is one that stays the same for a moment."""

        def settled() -> str:
            before = self.ghost()
            self.page.wait_for_timeout(QUIET_MS)
            return before if before == self.ghost() else ""

        return wait_for(settled, "ghost text that stays")

    def wait_for_no_ghost(self) -> None:
        """Wait until there is no ghost text."""
        self.wait_for_ghost("")

    def notification(self, text: str) -> Locator:
        """Return the notification that has a text, as soon as it is there."""
        found = self.page.locator(".notification-toast", has_text=text).first
        found.wait_for()
        return found

    def webview(self) -> FrameLocator:
        """Return the page of the view that an extension has opened."""
        return self.page.frame_locator("iframe.webview").frame_locator("#active-frame")

    def record_ghosts(self) -> None:
        """Begin to write down every ghost text that is painted."""
        self.editor.evaluate(RECORD)

    def recorded_ghosts(self) -> list[str]:
        """Return the ghost texts painted since, in their order, without repetitions; an empty one is a gap."""
        return list(self.editor.evaluate("(editor) => editor.ghosts"))

    def picture(self, path: Path) -> None:
        """Keep a picture of the window, without what the mouse happens to be on."""
        self.page.mouse.move(*NOWHERE)
        self.page.wait_for_timeout(FADING_MS)
        self.page.screenshot(path=path)

    def _wake(self) -> None:
        """Ask for a suggestion in some file: a new editor notices typing only seconds later, but asking at once."""
        self.edit("scratch.txt", "")
        self.command("Trigger Inline Suggestion")

    def _pick(self, key: str, text: str, label: str) -> None:
        """Open a list by a key, narrow it down and choose the entry with exactly this label."""
        self.press(key)
        entry = self.page.locator(".quick-input-widget input.input:visible")
        entry.wait_for()
        entry.fill(text)
        exactly = re.compile(f"^{re.escape(label)}$")
        self.page.locator(".quick-input-list .label-name", has_text=exactly).first.click()

    def _note(self, url: str) -> None:
        address = urlsplit(url)
        if address.scheme in REMOTE and address.netloc != urlsplit(self.server.url).netloc:
            self.strays.append(url)
