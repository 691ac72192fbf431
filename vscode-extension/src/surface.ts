// All that a person sees and presses: what the parts are, and which command reaches which part.
import * as vscode from "vscode";
import { ExplainView } from "./explain";
import { Growth } from "./extended";
import { Faults } from "./faults";
import { openMenu } from "./menu";
import { chooseProfile, chosenProfile, profilesOf } from "./profiles";
import { Pull, type PullOptions } from "./pull";
import type { Gate } from "./snooze";
import { StatusView } from "./status";
import { isLanguageOn, toggle, toggleLanguage } from "./switches";

export interface SurfaceOptions extends PullOptions {
  gate: Gate;
  /** The extension's package.json. */
  manifest: unknown;
}

/** Put everything up; what is returned takes it down. */
export function createSurface(options: SurfaceOptions): { dispose(): unknown }[] {
  const { client, gate, runner, storage, manifest } = options;
  const status = new StatusView(client, gate);
  const pull = new Pull(options);
  const explain = new ExplainView(client);
  const actions: Record<string, () => unknown> = {
    "foretype.menu": () => openMenu(status.situation, menuPlace()),
    "foretype.toggle": toggle,
    "foretype.toggleLanguage": () => {
      const language = activeLanguage();
      return language === undefined ? undefined : toggleLanguage(language);
    },
    "foretype.snooze": () => {
      gate.snooze();
    },
    "foretype.resume": () => {
      gate.resume();
    },
    "foretype.chooseProfile": () => chooseProfile(profilesOf(manifest), client.interpreter, runner, storage),
    "foretype.pull": () => pull.run(),
    "foretype.explainLast": () => explain.show(),
  };
  const commands = Object.entries(actions).map(([name, act]) => vscode.commands.registerCommand(name, act));
  return [status, explain, new Growth(client), new Faults(client, pull), ...commands];
}

function menuPlace(): Parameters<typeof openMenu>[1] {
  const language = activeLanguage();
  return { language, languageOn: language === undefined || isLanguageOn(language), profile: chosenProfile() };
}

function activeLanguage(): string | undefined {
  return vscode.window.activeTextEditor?.document.languageId;
}
