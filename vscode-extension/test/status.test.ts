import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ForetypeClient, ServerState, Status } from "../src/client";
import { Gate } from "../src/snooze";
import { StatusView } from "../src/status";
import {
  activeEditors,
  configurationChanges,
  editor,
  EventEmitter,
  LanguageStatusSeverity,
  Position,
  resetEditor,
  window,
} from "./vscode";

const counters = { drafted: { lookup: 30, model: 10 }, accepted: { lookup: 20, model: 9 } };

class Client {
  readonly statuses = new EventEmitter<Status>();
  readonly states = new EventEmitter<ServerState>();
  readonly answers = new EventEmitter<undefined>();
  readonly onStatus = this.statuses.event;
  readonly onState = this.states.event;
  readonly onAnswer = this.answers.event;
  readonly command = vi.fn(() => Promise.resolve(counters));
  state: ServerState = "running";
  status: Status | undefined;
  lastLatencyMs: number | undefined;
  accepted = 0;

  tell(state: Status["state"], message = "", action?: string): void {
    this.status = { state, message, ...(action !== undefined && { action }) };
    this.statuses.fire(this.status);
  }
}

let client: Client;
let gate: Gate;
let view: StatusView;

beforeEach(() => {
  vi.useFakeTimers();
  resetEditor();
  client = new Client();
  gate = new Gate();
  view = new StatusView(client as unknown as ForetypeClient, gate);
});
afterEach(() => {
  view.dispose();
  gate.dispose();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe("StatusView", () => {
  it("is there from the start, and a click opens the menu", () => {
    expect(editor.bar).toMatchObject({
      visible: true,
      command: "foretype.menu",
      text: "$(loading~spin) Foretype starting",
    });
    expect(editor.language?.command?.command).toBe("foretype.menu");
  });

  it("shows how far loading is, in both places", () => {
    client.tell("loading", "reading m.gguf … 40 %");
    expect(editor.bar?.text).toBe("$(loading~spin) Foretype 40 %");
    expect(editor.language).toMatchObject({ text: "Foretype: 40 %", detail: "Reading m.gguf … 40 %", busy: true });
  });

  it("shows the latency of each answer as it comes", () => {
    client.tell("ready");
    client.lastLatencyMs = 38;
    client.answers.fire(undefined);
    expect(editor.bar?.text).toBe("$(sparkle) Foretype 38 ms");
  });

  it("counts what was accepted once the model rests, not once for every key", async () => {
    for (let key = 0; key < 5; key++) {
      client.tell("busy");
      client.tell("ready");
    }
    await vi.advanceTimersByTimeAsync(1000);
    expect(client.command.mock.calls).toEqual([["foretype.status"]]);
    expect(editor.bar?.text).toBe("$(sparkle) Foretype 73 %");
  });

  it("survives a server that ends before it has counted", async () => {
    client.command.mockImplementation(() => Promise.reject(new Error("gone")));
    client.tell("ready");
    await vi.advanceTimersByTimeAsync(1000);
    client.tell("ready");
    client.state = "stopped";
    await vi.advanceTimersByTimeAsync(1000);
    expect(client.command).toHaveBeenCalledOnce();
    expect(editor.bar?.text).toBe("$(sparkle) Foretype ready");
  });

  it("does not flicker for a completion that is over at once", () => {
    client.tell("ready");
    client.tell("busy");
    vi.advanceTimersByTime(200);
    expect(editor.bar?.text).toBe("$(sparkle) Foretype ready");
    vi.advanceTimersByTime(100);
    expect(editor.bar?.text).toBe("$(loading~spin) Foretype ready");
    client.tell("ready");
    expect(editor.bar?.text).toBe("$(sparkle) Foretype ready");
  });

  it("is red with the fix beside it when there is no model, and plain again afterwards", () => {
    client.tell("failed", "no model", "Run `foretype pull`.");
    expect(editor.bar?.backgroundColor?.id).toBe("statusBarItem.errorBackground");
    expect(editor.language).toMatchObject({
      severity: LanguageStatusSeverity.Error,
      command: { command: "foretype.pull", title: "Pull Model" },
    });
    client.tell("ready");
    expect(editor.bar?.backgroundColor).toBeUndefined();
    expect(editor.language?.command?.command).toBe("foretype.menu");
  });

  it("follows the server, the snooze, the settings and the editor", () => {
    client.tell("ready");
    gate.snooze();
    expect(editor.bar?.text).toBe("$(bell-slash) Foretype snoozed 5 min");
    gate.resume();
    editor.settings.set("foretype.languages", { markdown: false });
    window.activeTextEditor = {
      document: { languageId: "markdown" },
      selection: { active: new Position(0, 0) },
      selections: [],
    };
    activeEditors.fire(undefined);
    expect(editor.bar?.text).toBe("$(circle-slash) Foretype off here");
    editor.settings.set("foretype.enable", false);
    configurationChanges.fire({ affectsConfiguration: (name) => name === "editor" });
    expect(editor.bar?.text).toBe("$(circle-slash) Foretype off here");
    configurationChanges.fire({ affectsConfiguration: (name) => name === "foretype" });
    expect(editor.bar?.text).toBe("$(circle-slash) Foretype off");
    editor.settings.clear();
    client.state = "crashed";
    client.states.fire("crashed");
    expect(editor.bar?.text).toBe("$(error) Foretype failed");
  });

  it("lets the walkthrough know when there is a model", () => {
    client.tell("loading");
    client.tell("ready");
    client.tell("failed", "x");
    expect(editor.executed).toEqual([false, true, false].map((on) => ["setContext", "foretype.modelReady", on]));
  });
});
