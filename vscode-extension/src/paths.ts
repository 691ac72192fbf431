// Paths as people write them in settings, made into paths that can be opened. Knows nothing of VS Code.
import * as nodePath from "node:path";

export interface Folder {
  name: string;
  path: string;
}

export interface Places {
  home: string;
  environment: Readonly<Record<string, string | undefined>>;
  folders: readonly Folder[];
  platform: NodeJS.Platform;
}

/** Replace `~`, `${workspaceFolder}`, `${workspaceFolder:name}`, `${userHome}` and `${env:NAME}`, and drop quotes around. */
export function expand(text: string, places: Places): string {
  const bare = text.trim().replace(/^(["'])(.*)\1$/, "$2");
  const atHome = bare.replace(/^~(?=$|[\\/])/, () => places.home);
  return atHome.replace(/\$\{([^}]+)\}/g, (whole, variable: string) => valueOf(variable, places) ?? whole);
}

/** The same for what must be a program: a relative path with a folder in it counts from the first workspace folder. */
export function expandProgram(text: string, places: Places): string {
  const path = expand(text, places);
  const rules = rulesOf(places.platform);
  const base = places.folders[0]?.path;
  const relative = /[\\/]/.test(path) && !rules.isAbsolute(path);
  return relative && base !== undefined ? rules.join(base, path) : path;
}

/** The Python of an environment's folder. */
export function pythonIn(environment: string, platform: NodeJS.Platform): string {
  const own = platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"];
  return rulesOf(platform).join(environment, ...own);
}

function rulesOf(platform: NodeJS.Platform): nodePath.PlatformPath {
  return platform === "win32" ? nodePath.win32 : nodePath.posix;
}

function valueOf(variable: string, places: Places): string | undefined {
  const [kind, name] = splitOnce(variable);
  switch (kind) {
    case "userHome":
      return places.home;
    case "workspaceFolder":
      return (name === undefined ? places.folders[0] : places.folders.find((folder) => folder.name === name))?.path;
    case "env":
      return places.environment[name ?? ""] ?? "";
    default:
      return undefined;
  }
}

function splitOnce(variable: string): [string, string | undefined] {
  const colon = variable.indexOf(":");
  return colon < 0 ? [variable, undefined] : [variable.slice(0, colon), variable.slice(colon + 1)];
}
