import { describe, expect, it } from "vitest";
import { PullProgress, type Step } from "../src/pullProgress";

const models = [
  { name: "big.gguf", bytes: 3e9, state: "missing" },
  { name: "small.gguf", bytes: 1e9, state: "partial" },
  { name: "here.gguf", bytes: 9e9, state: "present" },
];

function begun(): PullProgress {
  const progress = new PullProgress();
  progress.take(JSON.stringify({ profile: "cpu", models }));
  return progress;
}

const told = (progress: PullProgress, line: object): Step | undefined => progress.take(JSON.stringify(line));

describe("PullProgress", () => {
  it("counts all that is missing as the whole", () => {
    const progress = begun();
    const steps = [
      { label: "big.gguf", done: 0, total: 3e9 },
      { label: "big.gguf", done: 1e9, total: 3e9 },
      { label: "big.gguf", done: 3e9, total: 3e9 },
      { label: "small.gguf", done: 1e9, total: 1e9 },
    ].map((line) => told(progress, line));
    expect(steps.map((step) => step?.increment)).toEqual([0, 25, 50, 25]);
    expect(steps[1]?.message).toBe("big.gguf, 1.0 GB of 3.0 GB");
  });

  it("never goes back when a source fails and another begins anew", () => {
    const progress = begun();
    told(progress, { label: "big.gguf", done: 1.5e9, total: 3e9 });
    expect(told(progress, { label: "big.gguf", done: 0, total: 3e9 })?.increment).toBe(0);
    expect(told(progress, { label: "big.gguf", done: 1e9, total: 3e9 })?.increment).toBe(0);
    expect(told(progress, { label: "big.gguf", done: 3e9, total: 3e9 })?.increment).toBe(37.5);
  });

  it("tells of checking a file without moving the whole", () => {
    const step = told(begun(), { label: "checking here.gguf", done: 3e9, total: 9e9 });
    expect(step).toEqual({ message: "checking here.gguf, 33 %" });
    expect(told(begun(), { label: "checking empty", done: 0, total: 0 })?.message).toBe("checking empty, 0 %");
  });

  it("shows and remembers what is said", () => {
    const progress = begun();
    expect(told(progress, { say: "big.gguf: model hub: no route" })).toEqual({
      message: "big.gguf: model hub: no route",
    });
    expect(progress.said).toEqual(["big.gguf: model hub: no route"]);
  });

  it("remembers lines that are no objects, such as the error at the end", () => {
    const progress = begun();
    for (const line of ["Error: the disk is full; free some space", "", "42"]) {
      expect(progress.take(line)).toBeUndefined();
    }
    expect(progress.said).toEqual(["Error: the disk is full; free some space", "42"]);
  });
});
