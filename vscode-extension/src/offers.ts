// Messages whose buttons do something.
import * as vscode from "vscode";
import type { Fix } from "./statusText";

type Show = (message: string, ...titles: string[]) => Thenable<string | undefined>;

/** Show a sentence with a button for each fix, and carry out the one that is chosen. */
export async function offer(show: Show, sentence: string, ...fixes: readonly Fix[]): Promise<void> {
  const title = await show(sentence, ...fixes.map((fix) => fix.title));
  await carryOut(fixes.find((fix) => fix.title === title));
}

export async function carryOut(fix: Fix | undefined): Promise<void> {
  if (fix !== undefined) {
    await vscode.commands.executeCommand(fix.command, ...(fix.argument === undefined ? [] : [fix.argument]));
  }
}
