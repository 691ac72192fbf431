// Completions on or off: for everything, and for one language.
import * as vscode from "vscode";
import { isEnabled, SECTION, writeSetting } from "./settings";

type Languages = Readonly<Record<string, boolean>>;

/** Whether the settings want completions in a language. */
export function isLanguageOn(language: string): boolean {
  const languages = vscode.workspace.getConfiguration(SECTION).get<Languages>("languages", {});
  return languages[language] ?? true;
}

export function toggle(): Promise<void> {
  return writeSetting("enable", !isEnabled());
}

export function toggleLanguage(language: string): Promise<void> {
  const values = vscode.workspace.getConfiguration(SECTION).inspect<Languages>("languages");
  return writeSetting(
    "languages",
    switched(language, !isLanguageOn(language), values?.globalValue, values?.workspaceValue),
  );
}

/** Return the value to write over the workspace's, or else the user's: the editor joins the two, name by name. */
function switched(language: string, on: boolean, user: Languages = {}, workspace?: Languages): Languages {
  const own = Object.fromEntries(Object.entries(workspace ?? user).filter(([name]) => name !== language));
  const below = workspace === undefined ? undefined : user[language];
  return (below ?? true) === on ? own : { ...own, [language]: on };
}
