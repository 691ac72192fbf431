import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ForetypeClient } from "../src/client";
import { Gate } from "../src/snooze";
import { createSurface } from "../src/surface";
import { FakeRunner } from "./fakes";
import { editor, EventEmitter, LogChannel, Position, resetEditor, window } from "./vscode";

interface Step {
  id: string;
  description: string;
  media: { svg: string; altText: string };
}

interface Manifest {
  contributes: {
    commands: { command: string }[];
    walkthroughs: { steps: Step[] }[];
    configuration: { properties: Record<string, { enum?: string[] }> };
  };
}

const read = (path: string): string => readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), "utf8");
const manifest = JSON.parse(read("package.json")) as Manifest;
const steps = manifest.contributes.walkthroughs.flatMap((walkthrough) => walkthrough.steps);

let gate: Gate;
let surface: { dispose(): unknown }[];

function run(name: string): unknown {
  return editor.registered.get(`foretype.${name}`)?.();
}

beforeEach(() => {
  resetEditor();
  gate = new Gate();
  const client = {
    state: "running",
    status: { state: "ready", message: "" },
    accepted: 0,
    interpreter: undefined,
    onStatus: new EventEmitter().event,
    onState: new EventEmitter().event,
    onAnswer: new EventEmitter().event,
    onExtended: new EventEmitter().event,
  } as unknown as ForetypeClient;
  surface = createSurface({
    client,
    gate,
    runner: new FakeRunner({}),
    storage: "/own",
    log: new LogChannel(),
    manifest,
  });
});
afterEach(() => {
  surface.forEach((one) => one.dispose());
  gate.dispose();
});

describe("the commands", () => {
  it("of the manifest are all there", () => {
    const wiring = [...read("src/extension.ts").matchAll(/registerCommand\("([\w.]+)"/g)].map(([, name]) => name);
    const registered = new Set([...editor.registered.keys(), ...wiring]);
    expect(manifest.contributes.commands.filter(({ command }) => !registered.has(command))).toEqual([]);
  });

  it("snooze and resume", () => {
    run("snooze");
    expect(gate.reason(undefined)).toEqual({ why: "snoozed", minutes: 5 });
    run("resume");
    expect(gate.reason(undefined)).toBeUndefined();
  });

  it("toggle everything, or the language of the active editor", async () => {
    await run("toggleLanguage");
    expect(editor.settings.size).toBe(0);
    const document = { languageId: "markdown" };
    window.activeTextEditor = { document, selection: { active: new Position(0, 0) }, selections: [] };
    await run("toggleLanguage");
    expect(editor.settings.get("foretype.languages")).toEqual({ markdown: false });
    await run("menu");
    expect(editor.shown.at(-1)?.items).toContain("$(code) Switch completions on for markdown");
    await run("toggle");
    expect(editor.settings.get("foretype.enable")).toBe(false);
  });

  it("offer every profile of the settings", async () => {
    await run("chooseProfile");
    const names = editor.shown.at(-1)?.items.map((item) => item.replace("$(check) ", ""));
    expect(names).toEqual(manifest.contributes.configuration.properties["foretype.profile"]?.enum);
  });

  it("go with everything else", () => {
    surface.forEach((one) => one.dispose());
    expect(editor.registered.size).toBe(0);
    expect(editor.bar?.visible).toBe(false);
  });
});

describe("the walkthrough", () => {
  it("leads from the environment to finding out why", () => {
    expect(steps.map((step) => step.id)).toEqual(["environment", "model", "completion", "privacy", "trouble"]);
  });

  it("has links to commands that exist", () => {
    const linked = steps.flatMap(({ description }) => [...description.matchAll(/command:(foretype\.\w+)/g)]);
    const known = new Set(manifest.contributes.commands.map(({ command }) => command));
    expect(linked.length).toBeGreaterThan(4);
    expect(linked.map(([, name]) => name).filter((name) => name !== undefined && !known.has(name))).toEqual([]);
  });

  it.each(steps.map((step) => [step.id, step.media] as const))(
    "has a picture for %s in the colours of the theme",
    (_, media) => {
      const svg = read(media.svg);
      expect(media.altText).toMatch(/\.$/);
      expect(svg).toContain("var(--vscode-");
      // The editor shows the picture under a policy that allows neither.
      expect(svg).not.toMatch(/<style|style=|<script|href=/);
    },
  );
});
