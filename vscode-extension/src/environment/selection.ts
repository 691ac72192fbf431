// The person chooses the Python that the server runs in.
import * as vscode from "vscode";
import type { Runner } from "../processes";
import { writeSetting } from "../settings";
import { isRecent, OLDEST, type Probe, probe, servesForetype } from "./probe";

interface Choice extends vscode.QuickPickItem {
  /** What becomes the setting; nothing to look for a file. */
  value: string | undefined;
}

/** Offer the workspace's Pythons, a file, or to leave it to Foretype; write the setting. */
export async function selectInterpreter(
  pythons: readonly string[],
  version: string,
  runner: Runner,
  cwd: string,
): Promise<void> {
  const items = [
    { label: "Automatic", description: "the workspace's Python if it has Foretype, else Foretype's own", value: "" },
    ...(await Promise.all(pythons.map(async (python) => choice(python, await probe(runner, [python], cwd), version)))),
    { label: "Browse…", description: "the Python that has Foretype installed", value: undefined },
  ] satisfies Choice[];
  const picked = await vscode.window.showQuickPick(items, { title: "Foretype: the Python that runs the server" });
  const value = picked && (picked.value ?? (await browse()));
  if (value !== undefined) {
    await writeSetting("interpreter", value);
  }
}

function choice(python: string, answer: Probe, version: string): Choice {
  return { label: python, description: describe(answer, version), value: python };
}

function describe(answer: Probe, version: string): string {
  if ("failure" in answer) {
    return "cannot be run";
  }
  if (!isRecent(answer.python)) {
    return `too old; Foretype needs ${OLDEST.join(".")}`;
  }
  return servesForetype(answer.python, version) ? "has Foretype" : "does not have this Foretype";
}

async function browse(): Promise<string | undefined> {
  const chosen = await vscode.window.showOpenDialog({ title: "The Python that has Foretype installed" });
  return chosen?.[0]?.fsPath;
}
