import { beforeEach, describe, expect, it, vi } from "vitest";
import { Creation } from "../src/environment/creation";
import {
  Cancelled,
  EnvironmentFailure,
  type PrivateEnvironment,
  type Work,
} from "../src/environment/privateEnvironment";
import { FakeRunner, type Program, python } from "./fakes";
import { editor, resetEditor } from "./vscode";

const base: Program = (args) => (args.includes("import ensurepip, venv") ? {} : python({ executable: "/base/python" }));
const withCard = { python3: base, "/base/python": base, "nvidia-smi": () => ({ stdout: "580.1" }) };
const withoutCard = { python3: base, "/base/python": base };

interface Setup {
  programs?: Record<string, Program>;
  morePythons?: string[];
  build?: (work: Work) => Promise<void>;
}

function make({ programs = withCard, morePythons = [], build = () => Promise.resolve() }: Setup = {}): {
  creation: Creation;
  create: ReturnType<typeof vi.fn>;
  before: ReturnType<typeof vi.fn<() => Promise<void>>>;
} {
  const create = vi.fn((_base: string, _build: unknown, work: Work) => build(work));
  const environment = { folder: "/own/environment", create, update: build } as unknown as PrivateEnvironment;
  const creation = new Creation({
    environment,
    runner: new FakeRunner(programs),
    platform: "linux",
    storage: "/own",
    morePythons: () => Promise.resolve(morePythons),
  });
  return { creation, create, before: vi.fn(() => Promise.resolve()) };
}

beforeEach(resetEditor);

describe("consent", () => {
  it("names both builds with their sizes, the proposed first, and where it goes", async () => {
    const { creation, before, create } = make();
    expect(await creation.create(before)).toBe(false);
    const [question] = editor.shown;
    expect(question?.items).toEqual(["Create with CUDA", "Create for CPU"]);
    expect(question?.detail).toContain("/own/environment");
    expect(question?.detail).toMatch(/CUDA: about 3 GB.*\n.*CPU: about 0.3 GB/);
    expect([before, create].map((one) => one.mock.calls.length)).toEqual([0, 0]);
  });

  it("builds what was chosen", async () => {
    editor.answer = () => "Create for CPU";
    const { creation, before, create } = make();
    expect(await creation.create(before)).toBe(true);
    expect(before).toHaveBeenCalledOnce();
    expect(create.mock.calls[0]?.slice(0, 2)).toEqual(["/base/python", expect.objectContaining({ kind: "cpu" })]);
  });

  it("does not offer CUDA without a card", async () => {
    await make({ programs: withoutCard }).creation.create(() => Promise.resolve());
    expect(editor.shown[0]?.items).toEqual(["Create for CPU"]);
  });
});

describe("without a Python", () => {
  it("says which is needed and opens where to get it", async () => {
    editor.answer = () => "Install Python";
    expect(await make({ programs: {} }).creation.create(() => Promise.resolve())).toBe(false);
    expect(editor.shown[0]?.message).toContain("Python 3.11");
    expect(editor.opened).toEqual(["https://www.python.org/downloads/"]);
  });

  it("on the path, the workspace's will do", async () => {
    editor.answer = () => "Create for CPU";
    const { creation, create } = make({ programs: { "/base/python": base }, morePythons: ["/base/python"] });
    await creation.create(() => Promise.resolve());
    expect(create.mock.calls[0]?.[0]).toBe("/base/python");
  });
});

describe("building", () => {
  it("shows each step, and can be cancelled without a word", async () => {
    editor.answer = () => "Create for CPU";
    const build = ({ report, signal }: Work): Promise<void> => {
      report("fetching torch");
      editor.cancelProgress();
      return Promise.reject(signal.aborted ? new Cancelled() : new Error("not cancelled"));
    };
    expect(await make({ build }).creation.create(() => Promise.resolve())).toBe(false);
    expect(editor.progress).toEqual(["fetching torch"]);
    expect(editor.shown).toHaveLength(1);
  });

  it("says what went wrong and leads to the log", async () => {
    editor.answer = ({ items }) => (items.includes("Show Log") ? "Show Log" : "Create for CPU");
    const build = (): Promise<void> => Promise.reject(new EnvironmentFailure("The disk is full; free some."));
    await make({ build }).creation.create(() => Promise.resolve());
    await vi.waitFor(() => {
      expect(editor.executed).toEqual([["foretype.showLog"]]);
    });
    expect(editor.shown[1]?.message).toBe("The disk is full; free some.");
    expect(editor.shown[1]?.items).toContain("Select Interpreter");
  });

  it("does not hide a fault that nobody expected", async () => {
    expect(await make({ build: () => Promise.reject(new Error("EACCES")) }).creation.update()).toBe(false);
    expect(editor.shown[0]?.message).toContain("EACCES");
  });
});
