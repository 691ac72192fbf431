// A read-only view that explains the last completion: its prompt, its context, and how its text came about.
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { Answered, ForetypeClient } from "./client";
import type { Explained } from "./explained";
import { explainPage } from "./explainPage";
import { offer } from "./offers";
import { SHOW_LOG } from "./statusText";

interface Place {
  document: vscode.TextDocument;
  position: vscode.Position;
}

/** Where the last request was as long as the document is the same, else the cursor. */
export function placeToExplain(last: Answered | undefined, editor: vscode.TextEditor | undefined): Place | undefined {
  const elsewhere = editor !== undefined && editor.document !== last?.document;
  if (last !== undefined && !elsewhere && !last.document.isClosed && last.document.version === last.version) {
    return last;
  }
  return editor === undefined ? undefined : { document: editor.document, position: editor.selection.active };
}

export class ExplainView implements vscode.Disposable {
  readonly #subscription: vscode.Disposable;
  #last: Answered | undefined;
  #panel: vscode.WebviewPanel | undefined;

  constructor(private readonly client: ForetypeClient) {
    this.#subscription = client.onAnswer((answered) => {
      this.#last = answered;
    });
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#panel?.dispose();
  }

  async show(): Promise<void> {
    const place = placeToExplain(this.#last, vscode.window.activeTextEditor);
    if (place === undefined) {
      await vscode.window.showInformationMessage("Put the cursor into a document, and Foretype explains that place.");
      return;
    }
    const { document, position } = place;
    try {
      const at = { line: position.line, character: position.character };
      const told = await this.client.command<Explained>("foretype.explain", document.uri.toString(), at);
      this.#render(nameOf(place), told);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      await offer(vscode.window.showErrorMessage, `This place cannot be explained: ${reason}`, SHOW_LOG);
    }
  }

  #render(place: string, told: Explained): void {
    const panel = (this.#panel ??= this.#open());
    panel.webview.html = explainPage(place, told, randomBytes(16).toString("hex"));
    panel.reveal(undefined, true);
  }

  #open(): vscode.WebviewPanel {
    const where = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    const options = { enableScripts: false, enableFindWidget: true, localResourceRoots: [] };
    const panel = vscode.window.createWebviewPanel("foretype.explain", "Foretype: Last Completion", where, options);
    panel.onDidDispose(() => {
      this.#panel = undefined;
    });
    return panel;
  }
}

function nameOf({ document, position }: Place): string {
  return `${vscode.workspace.asRelativePath(document.uri)}:${position.line + 1}:${position.character + 1}`;
}
