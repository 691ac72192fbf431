// Asking the editor to show what has become of the suggestion that it shows.
//
// What the stable API offers (the same in 1.100 and 1.139): nothing tells an extension whether ghost text is visible,
// and "trigger" would show what Escape has just hidden. But "show next" does nothing unless ghost text is visible, so
// it never brings a dismissed suggestion back, by whatever key or click it was dismissed. Where there is, it asks the
// providers once more as if a person had asked, and moves on to the next item: the longer text, whether the editor
// keeps the shorter one before it (1.139) or not (1.100).
//
// Its limits: the editor asks no second time at a place for what a person has asked for, so a suggestion is renewed
// once until the next key; and where another extension has a suggestion at this place too, the view may turn to it.
import * as vscode from "vscode";

const SHOW_NEXT = "editor.action.inlineSuggest.showNext";
const FOLLOWS_MS = 500; // the editor's request, if there is one at all

/** A position in one version of a document. */
export interface Spot {
  document: vscode.TextDocument;
  version: number;
  position: vscode.Position;
}

export function sameSpot(one: Spot, other: Spot): boolean {
  return one.document === other.document && one.version === other.version && one.position.isEqual(other.position);
}

export class Renewal {
  #awaited: { spot: Spot; until: number } | undefined;

  /** Have the editor ask again for what it shows at a spot. */
  async request(spot: Spot): Promise<void> {
    this.#awaited = { spot, until: Date.now() + FOLLOWS_MS };
    await vscode.commands.executeCommand(SHOW_NEXT);
  }

  /** The context of a request as the server shall see it: nobody asked for a renewal, so what is known will do. */
  contextOf(spot: Spot, context: vscode.InlineCompletionContext): vscode.InlineCompletionContext {
    const awaited = this.#awaited;
    this.#awaited = undefined;
    const ours = awaited !== undefined && Date.now() < awaited.until && sameSpot(awaited.spot, spot);
    return ours ? { ...context, triggerKind: vscode.InlineCompletionTriggerKind.Automatic } : context;
  }
}
