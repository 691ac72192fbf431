import type { TextDocument, TextEditor } from "vscode";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Answered, ForetypeClient } from "../src/client";
import { ExplainView, placeToExplain } from "../src/explain";
import { editor, EventEmitter, Position, resetEditor, Uri, window } from "./vscode";

function documentOf(path: string, version = 1): TextDocument {
  return { uri: Uri.file(path), version, isClosed: false } as unknown as TextDocument;
}

function editorOf(document: TextDocument, line: number): TextEditor {
  return { document, selection: { active: new Position(line, 4) }, selections: [0] } as unknown as TextEditor;
}

function answerIn(document: TextDocument, change: Partial<Answered> = {}): Answered {
  const position = new Position(1, 2) as unknown as Answered["position"];
  return { document, version: 1, position, automatic: true, suggestions: 1, ...change };
}

const a = documentOf("/projects/a.py");
const b = documentOf("/projects/b.py");

beforeEach(resetEditor);

describe("placeToExplain", () => {
  const lineOf = (last: Answered | undefined, active: TextEditor | undefined): number | undefined =>
    placeToExplain(last, active)?.position.line;

  it("is where the last request was, also when the view itself has the focus", () => {
    expect(lineOf(answerIn(a), editorOf(a, 9))).toBe(1);
    expect(lineOf(answerIn(a), undefined)).toBe(1);
  });

  it("is the cursor in another document, after a change, or without a request", () => {
    expect(lineOf(answerIn(a), editorOf(b, 9))).toBe(9);
    expect(lineOf(answerIn(a, { version: 0 }), editorOf(a, 9))).toBe(9);
    expect(lineOf(undefined, editorOf(a, 9))).toBe(9);
  });

  it("is nowhere without a document", () => {
    expect(placeToExplain(undefined, undefined)).toBeUndefined();
    expect(placeToExplain(answerIn({ ...a, isClosed: true }), undefined)).toBeUndefined();
  });
});

describe("ExplainView", () => {
  const answers = new EventEmitter<Answered>();
  const command = vi.fn<(...args: unknown[]) => Promise<unknown>>();
  const view = new ExplainView({ onAnswer: answers.event, command } as unknown as ForetypeClient);

  beforeEach(() => {
    command.mockReset().mockResolvedValue({ problem: "no model is ready: <loading>" });
    editor.panels.forEach((panel) => {
      panel.dispose();
    });
  });

  it("asks the server about the place and shows the answer without scripts", async () => {
    answers.fire(answerIn(a));
    await view.show();
    expect(command).toHaveBeenCalledWith("foretype.explain", "file:///projects/a.py", { line: 1, character: 2 });
    const [panel] = editor.panels;
    expect(panel?.options.enableScripts).toBe(false);
    expect(panel?.webview.html).toContain("<h1>a.py:2:3</h1>");
    expect(panel?.webview.html).toContain("no model is ready: &lt;loading&gt;.");
    view.dispose();
  });

  it("fills the same view again with another nonce, and opens a new one when it was closed", async () => {
    window.activeTextEditor = editorOf(b, 2) as never;
    await view.show();
    const first = editor.panels[0]?.webview.html;
    await view.show();
    expect(editor.panels).toHaveLength(1);
    expect(editor.panels[0]?.revealed).toBe(2);
    expect(editor.panels[0]?.webview.html).not.toBe(first);
    editor.panels[0]?.dispose();
    await view.show();
    expect(editor.panels).toHaveLength(2);
  });

  it("says what is needed where there is nothing to explain", async () => {
    const fresh = new ExplainView({ onAnswer: answers.event, command } as unknown as ForetypeClient);
    await fresh.show();
    expect(command).not.toHaveBeenCalled();
    expect(editor.shown[0]?.message).toContain("Put the cursor into a document");
  });

  it("says why it cannot, and leads to the log", async () => {
    window.activeTextEditor = editorOf(b, 2) as never;
    command.mockRejectedValue(new Error("the server is not running"));
    editor.answer = () => "Show Log";
    await view.show();
    expect(editor.shown[0]?.message).toBe("This place cannot be explained: the server is not running");
    expect(editor.executed).toEqual([["foretype.showLog"]]);
  });
});
