// What package.json says and what the rest of the project says must agree.
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { TORCH } from "../src/environment/torchBuild";

interface Property {
  default: unknown;
  markdownDescription: string;
  enum?: string[];
}

interface Manifest {
  version: string;
  icon: string;
  engines: { vscode: string };
  devDependencies: Record<string, string>;
  capabilities: { untrustedWorkspaces: { restrictedConfigurations: string[] } };
  contributes: {
    configuration: { properties: Record<string, Property> };
    commands: { command: string }[];
  };
}

const read = (path: string): string => readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), "utf8");
const manifest = JSON.parse(read("package.json")) as Manifest;
const { properties } = manifest.contributes.configuration;

/** The defaults of the server's settings, by their names in JSON. */
function serverDefaults(): Map<string, unknown> {
  const body = /class Settings:\n([\s\S]*?)\n\n {4}def /.exec(read("../lsp_server/settings.py"))?.[1] ?? "";
  const fields = body.matchAll(/^ {4}(\w+): [^=]+ = (.+?)(?: {2}#.*)?$/gm);
  return new Map([...fields].map(([, name = "", value = ""]) => [camel(name), valueOf(value)]));
}

function camel(name: string): string {
  return name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

function valueOf(python: string): unknown {
  const json = python
    .replace(/^field\(default_factory=dict\)$/, "{}")
    .replace(/^\((.*?),?\)$/, "[$1]")
    .replace("True", "true");
  return JSON.parse(json);
}

describe("the settings", () => {
  it("are fourteen, each described", () => {
    expect(Object.keys(properties)).toHaveLength(14);
    for (const { markdownDescription } of Object.values(properties)) {
      expect(markdownDescription).toMatch(/\.$/);
    }
  });

  it("have the server's defaults", () => {
    const defaults = serverDefaults();
    const ours = Object.keys(properties).filter((name) => name !== "foretype.interpreter");
    expect(ours).toHaveLength(13);
    for (const name of ours) {
      expect([name, properties[name]?.default]).toEqual([name, defaults.get(name.replace("foretype.", ""))]);
    }
  });

  it("offer the catalogue's profiles", () => {
    const profiles = [...read("../engine/catalog.toml").matchAll(/^\[profiles\.([\w-]+)\]/gm)].map(([, name]) => name);
    expect(properties["foretype.profile"]?.enum).toEqual(["auto", ...profiles]);
  });

  it("that choose programs or models are closed to workspaces that are not trusted", () => {
    const { restrictedConfigurations } = manifest.capabilities.untrustedWorkspaces;
    expect(restrictedConfigurations.sort()).toEqual(["foretype.draft", "foretype.interpreter", "foretype.target"]);
  });
});

describe("the commands", () => {
  it("do not collide with those that the server announces", () => {
    const ours = new Set(manifest.contributes.commands.map(({ command }) => command));
    const announced = [...read("../lsp_server/server.py").matchAll(/@server\.command\("([\w.]+)"\)/g)].map(
      ([, one]) => one,
    );
    expect(announced).toContain("foretype.explain");
    expect(announced.filter((one) => one !== undefined && ours.has(one))).toEqual([]);
  });
});

describe("the package", () => {
  it("is typed against the oldest editor that it admits", () => {
    expect(`^${manifest.devDependencies["@types/vscode"] ?? ""}`).toBe(manifest.engines.vscode);
  });

  it("fetches the torch that the project needs", () => {
    expect(read("../pyproject.toml")).toContain(`"${TORCH}"`);
  });

  it("has the project's version and licence, and its icon", () => {
    expect(read("../pyproject.toml")).toContain(`\nversion = "${manifest.version}"`);
    expect(read("LICENSE")).toBe(read("../LICENSE"));
    expect(existsSync(fileURLToPath(new URL(`../${manifest.icon}`, import.meta.url)))).toBe(true);
  });

  it("has a lock file that names no registry", () => {
    expect(read("package-lock.json")).not.toMatch(/"resolved"/);
  });
});
