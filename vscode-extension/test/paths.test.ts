import { describe, expect, it } from "vitest";
import { expand, expandProgram, type Places, pythonIn } from "../src/paths";

const unix: Places = {
  home: "/home/ada",
  environment: { VENV: "/opt/my env" },
  folders: [
    { name: "app", path: "/projects/app" },
    { name: "lib", path: "/projects/lib" },
  ],
  platform: "linux",
};
const windows: Places = {
  home: "C:\\Users\\Ada L",
  environment: { LOCALAPPDATA: "C:\\Users\\Ada L\\AppData\\Local" },
  folders: [{ name: "app", path: "D:\\app" }],
  platform: "win32",
};

describe("expand", () => {
  it.each([
    ["~/env/bin/python", "/home/ada/env/bin/python"],
    ["~", "/home/ada"],
    ["${userHome}/x", "/home/ada/x"],
    ["${workspaceFolder}/.venv/bin/python", "/projects/app/.venv/bin/python"],
    ["${workspaceFolder:lib}/.venv", "/projects/lib/.venv"],
    ["${env:VENV}/bin/python", "/opt/my env/bin/python"],
    ["${env:NOT_SET}/bin", "/bin"],
    ['  "/opt/my env/bin/python" ', "/opt/my env/bin/python"],
    ["/a~b/~c", "/a~b/~c"],
    ["Qwen/Qwen2.5-Coder-0.5B", "Qwen/Qwen2.5-Coder-0.5B"],
    ["${workspaceFolder:gone}/x", "${workspaceFolder:gone}/x"],
    ["${unknown}", "${unknown}"],
  ])("makes %s into %s", (text, path) => {
    expect(expand(text, unix)).toBe(path);
  });

  it.each([
    ["~\\env\\Scripts\\python.exe", "C:\\Users\\Ada L\\env\\Scripts\\python.exe"],
    ["${env:LOCALAPPDATA}\\py.exe", "C:\\Users\\Ada L\\AppData\\Local\\py.exe"],
    ['"C:\\Program Files\\Python\\python.exe"', "C:\\Program Files\\Python\\python.exe"],
  ])("makes %s into %s on Windows", (text, path) => {
    expect(expand(text, windows)).toBe(path);
  });

  it("keeps a dollar in a folder's name", () => {
    expect(expand("~/x", { ...unix, home: "/home/$&" })).toBe("/home/$&/x");
  });
});

describe("expandProgram", () => {
  it.each([
    [".venv/bin/python", "/projects/app/.venv/bin/python"],
    ["python3.12", "python3.12"],
    ["/usr/bin/python3", "/usr/bin/python3"],
  ])("makes %s into %s", (text, path) => {
    expect(expandProgram(text, unix)).toBe(path);
  });

  it.each([
    [".venv\\Scripts\\python.exe", "D:\\app\\.venv\\Scripts\\python.exe"],
    ["C:\\Python\\python.exe", "C:\\Python\\python.exe"],
  ])("makes %s into %s on Windows", (text, path) => {
    expect(expandProgram(text, windows)).toBe(path);
  });

  it("leaves a relative path without a folder alone", () => {
    expect(expandProgram("./python", { ...unix, folders: [] })).toBe("./python");
  });
});

describe("pythonIn", () => {
  it("knows both layouts of an environment", () => {
    expect(pythonIn("/opt/env", "darwin")).toBe("/opt/env/bin/python");
    expect(pythonIn("C:\\my env", "win32")).toBe("C:\\my env\\Scripts\\python.exe");
  });
});
