// The settings under `foretype.*`: which the server gets, and what the extension itself uses.
import { homedir } from "node:os";
import * as vscode from "vscode";
import { expand, expandProgram, type Places } from "./paths";

export const SECTION = "foretype";

/** What the server knows under the same names; the rest of the section is the extension's own. */
const FOR_SERVER = [
  "enable",
  "languages",
  "exclude",
  "relatedFiles",
  "automaticDeadlineMs",
  "debounce",
  "maxTokens",
  "profile",
  "target",
  "draft",
  "drafters",
  "contextTokens",
  "threads",
] as const;

export type ServerSettings = Partial<Record<(typeof FOR_SERVER)[number], unknown>>;

/** Return what the server is told, with the places in paths replaced. */
export function serverSettings(places: Places = placesHere()): ServerSettings {
  const section = vscode.workspace.getConfiguration(SECTION);
  return Object.fromEntries(FOR_SERVER.map((name) => [name, forServer(section.get(name), places)]));
}

/** Return the interpreter that the settings name, or nothing when they leave it to us. */
export function chosenInterpreter(places: Places = placesHere()): string | undefined {
  const chosen = vscode.workspace.getConfiguration(SECTION).get("interpreter", "").trim();
  return chosen === "" ? undefined : expandProgram(chosen, places);
}

/** Whether completions are wanted at all. */
export function isEnabled(): boolean {
  return vscode.workspace.getConfiguration(SECTION).get("enable", true);
}

/** Write a setting where it holds now: over the workspace's value if there is one, else for this machine's user. */
export async function writeSetting(name: string, value: unknown): Promise<void> {
  const section = vscode.workspace.getConfiguration(SECTION);
  const inWorkspace = section.inspect(name)?.workspaceValue !== undefined;
  const target = inWorkspace ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
  await section.update(name, value, target);
}

/** What paths in settings may refer to, on the host that the extension runs on. */
export function placesHere(): Places {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return {
    home: homedir(),
    environment: process.env,
    folders: folders
      .filter((folder) => folder.uri.scheme === "file")
      .map(({ name, uri }) => ({ name, path: uri.fsPath })),
    platform: process.platform,
  };
}

function forServer(value: unknown, places: Places): unknown {
  return typeof value === "string" ? expand(value, places) : value; // the models, where they are paths
}
