import { beforeEach, describe, expect, it } from "vitest";
import { examine, modelsOf, type Report } from "../src/doctor";
import { chooseProfile, profileItems, profilesOf } from "../src/profiles";
import { FakeRunner } from "./fakes";
import { editor, resetEditor } from "./vscode";

const PYTHON = "/env/bin/python";
const report: Report = {
  profiles: {
    "cpu-small": [{ name: "s.gguf", bytes: 0.5e9, state: "present" }],
    cpu: [
      { name: "b.gguf", bytes: 1.1e9, state: "partial" },
      { name: "s.gguf", bytes: 0.5e9, state: "present" },
    ],
  },
  auto: { profile: "cpu", why: "16 GiB of memory and no CUDA device: it fits" },
};
const profiles = [
  { name: "auto", about: "The best that fits." },
  { name: "cpu-small", about: "Needs 3 GiB." },
  { name: "cpu", about: "Needs 7 GiB." },
];
const runner = (stdout = JSON.stringify(report), code = 0): FakeRunner =>
  new FakeRunner({ [PYTHON]: () => ({ stdout, code }) });

beforeEach(resetEditor);

describe("the rows", () => {
  it("say what a profile needs, and what of it is here", () => {
    expect(profileItems(profiles, report, "cpu")).toEqual([
      {
        profile: "auto",
        label: "auto",
        description: "The best that fits.",
        detail: "cpu: 16 GiB of memory and no CUDA device: it fits; 1.6 GB, 1.1 GB of it to be fetched",
      },
      { profile: "cpu-small", label: "cpu-small", description: "Needs 3 GiB.", detail: "0.5 GB, on this machine" },
      {
        profile: "cpu",
        label: "$(check) cpu",
        description: "Needs 7 GiB.",
        detail: "1.6 GB, 1.1 GB of it to be fetched",
      },
    ]);
  });

  it("say it once when all of it is to be fetched", () => {
    const missing: Report = { ...report, profiles: { cpu: [{ name: "b.gguf", bytes: 16.3e9, state: "missing" }] } };
    expect(profileItems(profiles, missing, "auto")[2]?.detail).toBe("16.3 GB to be fetched");
  });

  it("do without what cannot be found out", () => {
    expect(profileItems(profiles, undefined, "auto").map(({ label, detail }) => [label, detail])).toEqual([
      ["$(check) auto", undefined],
      ["cpu-small", undefined],
      ["cpu", undefined],
    ]);
  });

  it("come from the manifest", () => {
    const properties = { "foretype.profile": { enum: ["auto", "x"], markdownEnumDescriptions: ["A.", "X."] } };
    expect(profilesOf({ contributes: { configuration: { properties } } })).toEqual([
      { name: "auto", about: "A." },
      { name: "x", about: "X." },
    ]);
  });
});

describe("choosing", () => {
  it("writes the profile that is picked", async () => {
    editor.answer = () => "cpu";
    await chooseProfile(profiles, PYTHON, runner(), "/own");
    expect(editor.settings.get("foretype.profile")).toBe("cpu");
  });

  it("writes nothing when the same or none is picked", async () => {
    editor.answer = () => "$(check) auto";
    await chooseProfile(profiles, undefined, runner(), "/own");
    editor.answer = () => undefined;
    await chooseProfile(profiles, PYTHON, runner(), "/own");
    expect(editor.settings.size).toBe(0);
  });

  it("says when a model of one's own stands above every profile", async () => {
    editor.settings.set("foretype.target", "~/mine.gguf");
    await chooseProfile(profiles, PYTHON, runner(), "/own");
    expect(editor.shown[0]?.detail).toContain("~/mine.gguf");
  });
});

describe("examine", () => {
  it("finds the report among whatever else is printed", async () => {
    expect(await examine(PYTHON, runner(`hello\n${JSON.stringify(report)}\n`), "/own")).toEqual(report);
  });

  it("has none from a Python that fails or prints none", async () => {
    expect(await examine(PYTHON, runner("{}", 1), "/own")).toBeUndefined();
    expect(await examine(PYTHON, runner("hello"), "/own")).toBeUndefined();
  });

  it("knows what `auto` stands for", () => {
    expect(modelsOf(report, "auto")).toBe(report.profiles.cpu);
    expect(modelsOf(report, "gone")).toEqual([]);
  });
});
