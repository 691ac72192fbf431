import type { InlineCompletionContext, TextDocument } from "vscode";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Answered, Extended, ForetypeClient, Status } from "../src/client";
import { type Cursor, Growth, isOutgrown } from "../src/extended";
import { Renewal } from "../src/renewal";
import { editor, EventEmitter, InlineCompletionTriggerKind, Position, resetEditor, Uri, window } from "./vscode";

const SHOW_NEXT = ["editor.action.inlineSuggest.showNext"];

function documentOf(path: string): TextDocument {
  return { uri: Uri.parse(path), version: 7 } as unknown as TextDocument;
}

const document = documentOf("file:///a.py");
const position = (line: number, character: number): Answered["position"] =>
  new Position(line, character) as unknown as Answered["position"];
const spot = { document, version: 7, position: position(3, 5) };
const answered: Answered = { ...spot, automatic: true, suggestions: 1 };
const cursor: Cursor = { ...spot, position: position(3, 5), selections: 1 };
const extended: Extended = { uri: document.uri.toString(), version: 7 };

beforeEach(() => {
  vi.useFakeTimers();
  resetEditor();
});
afterEach(() => {
  vi.useRealTimers();
});

describe("isOutgrown", () => {
  it("is so for the answer that is shown at the cursor", () => {
    expect(isOutgrown(extended, answered, cursor)).toBe(true);
  });

  it("is so after typing along, when the answer is newer than what was announced", () => {
    expect(isOutgrown({ ...extended, version: 5 }, answered, cursor)).toBe(true);
    expect(isOutgrown({ ...extended, version: 8 }, answered, cursor)).toBe(false);
  });

  it.each<[string, Partial<Answered> | undefined, Partial<Cursor> | undefined]>([
    ["nothing was answered", undefined, {}],
    ["there is no editor", {}, undefined],
    ["the answer was empty", { suggestions: 0 }, {}],
    ["there are several items to choose from", { suggestions: 2 }, {}],
    ["a person asked, or it was renewed already", { automatic: false }, {}],
    ["the cursor has moved", {}, { position: position(3, 6) }],
    ["the text has changed since", {}, { version: 8 }],
    ["another document is before the person", {}, { document: documentOf("file:///b.py") }],
    ["there are several cursors", {}, { selections: 2 }],
  ])("is not so when %s", (_, answer, where) => {
    expect(isOutgrown(extended, answer && { ...answered, ...answer }, where && { ...cursor, ...where })).toBe(false);
  });

  it("is not so for a document that is not this one", () => {
    expect(isOutgrown({ ...extended, uri: "file:///b.py" }, answered, cursor)).toBe(false);
  });
});

describe("Renewal", () => {
  const asked = { triggerKind: InlineCompletionTriggerKind.Invoke } as unknown as InlineCompletionContext;
  const kindOf = (renewal: Renewal, at = spot): number => renewal.contextOf(at, asked).triggerKind;

  it("goes by the command that leaves hidden ghost text hidden", async () => {
    await new Renewal().request(spot);
    expect(editor.executed).toEqual([SHOW_NEXT]);
  });

  it("passes as a request that nobody asked for, once", async () => {
    const renewal = new Renewal();
    await renewal.request(spot);
    expect(kindOf(renewal)).toBe(InlineCompletionTriggerKind.Automatic);
    expect(kindOf(renewal)).toBe(InlineCompletionTriggerKind.Invoke);
  });

  it("is forgotten when the editor asks at another place, or not at all for a while", async () => {
    const renewal = new Renewal();
    await renewal.request(spot);
    expect(kindOf(renewal, { ...spot, position: position(0, 0) })).toBe(InlineCompletionTriggerKind.Invoke);
    expect(kindOf(renewal)).toBe(InlineCompletionTriggerKind.Invoke);
    await renewal.request(spot);
    vi.advanceTimersByTime(1000);
    expect(kindOf(renewal)).toBe(InlineCompletionTriggerKind.Invoke);
  });
});

describe("Growth", () => {
  let state: Status["state"];
  const [onStatus, onExtended, onAnswer] = [
    new EventEmitter<Status>(),
    new EventEmitter<Extended>(),
    new EventEmitter<Answered>(),
  ];
  let growth: Growth;

  function become(next: Status["state"]): void {
    state = next;
    onStatus.fire({ state, message: "" });
  }

  beforeEach(() => {
    state = "busy";
    const client = {
      renewal: new Renewal(),
      onStatus: onStatus.event,
      onExtended: onExtended.event,
      onAnswer: onAnswer.event,
      get status() {
        return { state };
      },
    };
    growth = new Growth(client as unknown as ForetypeClient);
    window.activeTextEditor = { document, selection: { active: new Position(3, 5) }, selections: [0] };
    onAnswer.fire(answered);
  });
  afterEach(() => {
    growth.dispose();
  });

  it("waits for the end of the run, since a suggestion grows once, and then shows all of it", () => {
    onExtended.fire(extended);
    onExtended.fire(extended);
    vi.advanceTimersByTime(10_000);
    expect(editor.executed).toEqual([]);
    become("ready");
    expect(editor.executed).toEqual([SHOW_NEXT]);
  });

  it("shows at once what comes when the run is over", () => {
    become("ready");
    onExtended.fire(extended);
    expect(editor.executed).toEqual([SHOW_NEXT]);
  });

  it("does nothing when nothing was announced, and nothing twice", () => {
    become("ready");
    expect(editor.executed).toEqual([]);
    onExtended.fire(extended);
    become("busy");
    become("ready");
    expect(editor.executed).toHaveLength(1);
  });

  it("does nothing at a place that the person has left", () => {
    onExtended.fire(extended);
    window.activeTextEditor = undefined;
    become("ready");
    expect(editor.executed).toEqual([]);
  });

  it("is renewed once, also when the last news comes before the renewal's answer", () => {
    onExtended.fire(extended);
    become("ready");
    onExtended.fire(extended);
    expect(editor.executed).toHaveLength(1);
  });

  it("is renewed once: the answer to the renewal counts as asked for", () => {
    become("ready");
    onExtended.fire(extended);
    onAnswer.fire({ ...answered, automatic: false });
    onExtended.fire(extended);
    expect(editor.executed).toHaveLength(1);
  });

  it("waits for quiet where the server does not say when it is busy", () => {
    become("degraded");
    onExtended.fire(extended);
    vi.advanceTimersByTime(600);
    onExtended.fire(extended);
    vi.advanceTimersByTime(600);
    expect(editor.executed).toEqual([]);
    vi.advanceTimersByTime(200);
    expect(editor.executed).toEqual([SHOW_NEXT]);
  });
});
