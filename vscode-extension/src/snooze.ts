// Which requests may leave the editor: none when completions are off, off for the language, or snoozed.
import * as vscode from "vscode";
import type { RequestGate } from "./client";
import { isEnabled } from "./settings";
import type { Off } from "./statusText";
import { isLanguageOn } from "./switches";

export const SNOOZE_MINUTES = 5;
const MINUTE_MS = 60_000;

export class Gate implements RequestGate, vscode.Disposable {
  readonly #emitter = new vscode.EventEmitter<void>();
  #until = 0;
  #timer: NodeJS.Timeout | undefined;

  /** A snooze has begun or ended, or a minute of it is over. */
  readonly onChange = this.#emitter.event;

  allows(document: Pick<vscode.TextDocument, "languageId">): boolean {
    return this.reason(document) === undefined;
  }

  /** Why no request leaves for a document, or at all when there is none. */
  reason(document: Pick<vscode.TextDocument, "languageId"> | undefined): Off | undefined {
    if (!isEnabled()) {
      return { why: "setting" };
    }
    const minutes = Math.ceil((this.#until - Date.now()) / MINUTE_MS);
    if (minutes > 0) {
      return { why: "snoozed", minutes };
    }
    const language = document?.languageId;
    return language === undefined || isLanguageOn(language) ? undefined : { why: "language", language };
  }

  /** Let nothing through for five minutes from now on. */
  snooze(): void {
    this.#until = Date.now() + SNOOZE_MINUTES * MINUTE_MS;
    this.#tick();
  }

  resume(): void {
    this.#until = 0;
    this.#tick();
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#emitter.dispose();
  }

  #tick(): void {
    clearTimeout(this.#timer);
    const left = this.#until - Date.now();
    void vscode.commands.executeCommand("setContext", "foretype.snoozed", left > 0);
    if (left > 0) {
      this.#timer = setTimeout(
        () => {
          this.#tick();
        },
        left % MINUTE_MS || MINUTE_MS,
      );
    }
    this.#emitter.fire();
  }
}
