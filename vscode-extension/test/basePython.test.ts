import { describe, expect, it } from "vitest";
import { candidates, findBasePython } from "../src/environment/basePython";
import { FakeRunner, type Program, python } from "./fakes";

const complete: Program = (args) => (args.includes("import ensurepip, venv") ? {} : python());
const find = (
  programs: Record<string, Program>,
  platform: NodeJS.Platform = "linux",
): ReturnType<typeof findBasePython> =>
  findBasePython(new FakeRunner({ "/real/python": complete, ...programs }), candidates(platform), "/own");

describe("findBasePython", () => {
  it("takes the newest that torch is built for", async () => {
    const old: Program = () => python({ executable: "/old", version: [3, 9, 0] });
    expect(await find({ "python3.12": complete, python3: old })).toEqual({ executable: "/real/python" });
  });

  it("leaves out what is too old", async () => {
    const found = await find({ python3: () => python({ version: [3, 10, 0] }) });
    expect(found).toEqual({ sentence: expect.stringContaining("needs Python 3.11 or newer") as string });
  });

  it("asks the launcher on Windows, for the version by name", async () => {
    const py: Program = (args) => (args[0] === "-3.11" ? python({ executable: "C:\\Py\\python.exe" }) : { code: 103 });
    const found = await find({ py, "C:\\Py\\python.exe": complete }, "win32");
    expect(found).toEqual({ executable: "C:\\Py\\python.exe" });
  });

  it("goes on from a Python that cannot make environments, and names the package when all are so", async () => {
    const split: Program = (args) =>
      args.includes("import ensurepip, venv") ? { code: 1 } : python({ executable: "/usr/bin/python3" });
    expect(await find({ "python3.13": split, "/usr/bin/python3": split, "python3.12": complete })).toEqual({
      executable: "/real/python",
    });
    const sentence = expect.stringContaining(
      "/usr/bin/python3 cannot make environments; install the package python3-venv",
    ) as string;
    expect(await find({ python3: split, "/usr/bin/python3": split })).toEqual({ sentence });
  });
});
