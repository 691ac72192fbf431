// Ghost text grows when the server has more of it. When and whether is decided here, how is renewal's matter.
import * as vscode from "vscode";
import type { Answered, Extended, ForetypeClient, Status } from "./client";
import { sameSpot, type Spot } from "./renewal";

/** Without a word from the server that it is done, as long without news is taken for it. */
const QUIET_MS = 700;

/** Where the person is: the active editor's document and cursor. */
export interface Cursor extends Spot {
  selections: number;
}

/**
 * Whether what an editor shows, if it shows anything, is an answer of ours that has become longer.
 *
 * Typing along asks anew, so the announced version may be older than the answer; the answer must be for this very place.
 * Who asked may be looking at another of several items, and an answer can be renewed once, after which it counts as asked for.
 */
export function isOutgrown(extended: Extended, answered: Answered | undefined, cursor: Cursor | undefined): boolean {
  return (
    answered !== undefined &&
    cursor?.selections === 1 &&
    sameSpot(answered, cursor) &&
    extended.uri === cursor.document.uri.toString() &&
    extended.version <= cursor.version &&
    answered.automatic &&
    answered.suggestions === 1
  );
}

/** Shows the longer text once there is no more to come: the editor renews a suggestion only once. */
export class Growth implements vscode.Disposable {
  readonly #subscriptions: vscode.Disposable[];
  #answered: Answered | undefined;
  #extended: Extended | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly client: ForetypeClient) {
    this.#subscriptions = [
      client.onAnswer((answered) => {
        this.#answered = answered;
      }),
      client.onExtended((extended) => {
        this.#heard(extended);
      }),
      client.onStatus((status) => {
        this.#changed(status);
      }),
    ];
  }

  dispose(): void {
    clearTimeout(this.#timer);
    vscode.Disposable.from(...this.#subscriptions).dispose();
  }

  #heard(extended: Extended): void {
    this.#extended = extended;
    clearTimeout(this.#timer);
    const state = this.client.status?.state;
    if (state === "degraded") {
      this.#timer = setTimeout(() => {
        this.#renew(); // a degraded server never says that it is busy
      }, QUIET_MS);
    } else if (state !== "busy") {
      this.#renew();
    }
  }

  #changed({ state }: Status): void {
    if (state === "ready") {
      this.#renew();
    }
  }

  #renew(): void {
    const [extended, answered] = [this.#extended, this.#answered];
    this.#extended = undefined;
    if (extended !== undefined && answered !== undefined && isOutgrown(extended, answered, cursorNow())) {
      this.#answered = undefined; // its renewal is under way; once more, and the editor would turn back to the shorter text
      void this.client.renewal.request(answered);
    }
  }
}

function cursorNow(): Cursor | undefined {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    return undefined;
  }
  const { document, selection, selections } = editor;
  return { document, version: document.version, position: selection.active, selections: selections.length };
}
