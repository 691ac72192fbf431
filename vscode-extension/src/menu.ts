// The quick pick behind the status: what there is to do, each also a command.
import * as vscode from "vscode";
import { carryOut } from "./offers";
import { SNOOZE_MINUTES } from "./snooze";
import { describe, type Fix, type Situation } from "./statusText";

export interface MenuItem extends vscode.QuickPickItem {
  fix: Fix;
}

/** What the menu says about the place that it is opened at. */
export interface MenuPlace {
  language: string | undefined;
  languageOn: boolean;
  profile: string;
}

/** Return the rows: the remedy first when something is wrong, then everything else. */
export function menuItems(situation: Situation, place: MenuPlace): MenuItem[] {
  return [
    ...remedies(situation),
    ...switches(situation, place),
    row("symbol-property", "Choose model profile…", "foretype.chooseProfile", place.profile),
    row("cloud-download", "Pull model", "foretype.pull"),
    row("question", "Explain last completion", "foretype.explainLast"),
    row("output", "Show log", "foretype.showLog"),
    row("debug-restart", "Restart server", "foretype.restart"),
  ];
}

/** Show the menu and do what is chosen. */
export async function openMenu(situation: Situation, place: MenuPlace): Promise<void> {
  const { sentence } = describe(situation);
  const options = { title: "Foretype", placeHolder: sentence, matchOnDescription: true };
  const picked = await vscode.window.showQuickPick(menuItems(situation, place), options);
  await carryOut(picked?.fix);
}

function remedies(situation: Situation): MenuItem[] {
  const { fix, sentence, level } = describe(situation);
  return fix === undefined || level === "normal" ? [] : [row("tools", fix.title, fix.command, sentence)];
}

function switches({ off }: Situation, { language, languageOn }: MenuPlace): MenuItem[] {
  if (off?.why === "setting") {
    return [row("check", "Switch completions on", "foretype.toggle")];
  }
  const forLanguage = `Switch completions ${languageOn ? "off" : "on"} for ${language ?? ""}`;
  const snooze =
    off?.why === "snoozed"
      ? row("bell", "Resume", "foretype.resume", `${off.minutes} min left`)
      : row("bell-slash", `Snooze for ${SNOOZE_MINUTES} minutes`, "foretype.snooze");
  return [
    row("circle-slash", "Switch completions off", "foretype.toggle"),
    ...(language === undefined ? [] : [row("code", forLanguage, "foretype.toggleLanguage")]),
    snooze,
  ];
}

function row(icon: string, title: string, command: string, description = ""): MenuItem {
  return { label: `$(${icon}) ${title}`, description, fix: { title, command } };
}
