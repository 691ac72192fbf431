// The state of everything where a person sees it: in the status bar, and beside the language.
import * as vscode from "vscode";
import type { ForetypeClient } from "./client";
import { SECTION } from "./settings";
import type { Gate } from "./snooze";
import { type Described, describe, type Situation } from "./statusText";

const ID = "foretype.status";
const MENU = { command: "foretype.menu", title: "Menu" };
const BUSY_MS = 250; // most completions are over by then, and the icon need not flicker for them
const COUNT_MS = 500; // between two looks at the server's counters
const SERVING: readonly (string | undefined)[] = ["ready", "busy", "degraded"];

/** What of the answer to the server's `foretype.status` is used: tokens by drafter. */
interface Counters {
  drafted: Record<string, number>;
  accepted: Record<string, number>;
}

export class StatusView implements vscode.Disposable {
  readonly #bar = vscode.window.createStatusBarItem(ID, vscode.StatusBarAlignment.Right, 100);
  readonly #item = vscode.languages.createLanguageStatusItem(ID, "*");
  readonly #subscriptions: vscode.Disposable[];
  #acceptance: number | undefined;
  #later: NodeJS.Timeout | undefined;
  #counting: NodeJS.Timeout | undefined;

  constructor(
    private readonly client: ForetypeClient,
    private readonly gate: Gate,
  ) {
    this.#bar.name = this.#item.name = "Foretype";
    this.#bar.command = MENU.command;
    this.#item.command = MENU;
    const show = (): void => {
      this.#show();
    };
    this.#subscriptions = [
      client.onStatus((status) => {
        this.#heard(status.state);
      }),
      client.onState(show),
      client.onAnswer(show),
      gate.onChange(show),
      vscode.window.onDidChangeActiveTextEditor(show),
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (change.affectsConfiguration(SECTION)) {
          this.#show();
        }
      }),
    ];
    this.#show();
    this.#bar.show();
  }

  /** What there is to tell now. */
  get situation(): Situation {
    const { state, status, lastLatencyMs, accepted } = this.client;
    const off = this.gate.reason(vscode.window.activeTextEditor?.document);
    return { server: state, status, off, latencyMs: lastLatencyMs, acceptance: this.#acceptance, accepted };
  }

  dispose(): void {
    clearTimeout(this.#later);
    clearTimeout(this.#counting);
    vscode.Disposable.from(...this.#subscriptions, this.#bar, this.#item).dispose();
  }

  #heard(state: string): void {
    clearTimeout(this.#later);
    if (state === "busy") {
      this.#later = setTimeout(() => {
        this.#show();
      }, BUSY_MS);
      return;
    }
    this.#show();
    void vscode.commands.executeCommand("setContext", "foretype.modelReady", SERVING.includes(state));
    if (SERVING.includes(state)) {
      this.#counting ??= setTimeout(() => void this.#count(), COUNT_MS);
    }
  }

  async #count(): Promise<void> {
    this.#counting = undefined;
    if (this.client.state !== "running") {
      return;
    }
    try {
      this.#acceptance = share(await this.client.command<Counters>("foretype.status"));
      this.#show();
    } catch {
      // The server has ended meanwhile, which is told elsewhere.
    }
  }

  #show(): void {
    const told = describe(this.situation);
    this.#bar.text = `$(${told.icon}) Foretype ${told.label}`;
    this.#bar.tooltip = told.sentence;
    this.#bar.accessibilityInformation = { label: `Foretype, ${told.label}. ${told.sentence}` };
    this.#bar.backgroundColor = background(told);
    this.#item.text = `Foretype: ${told.label}`;
    this.#item.detail = told.sentence;
    this.#item.busy = told.icon.endsWith("~spin");
    this.#item.severity = SEVERITY[told.level];
    this.#item.command = told.fix === undefined ? MENU : { command: told.fix.command, title: told.fix.title };
  }
}

const SEVERITY = {
  normal: vscode.LanguageStatusSeverity.Information,
  warning: vscode.LanguageStatusSeverity.Warning,
  error: vscode.LanguageStatusSeverity.Error,
} as const;

function background({ level }: Described): vscode.ThemeColor | undefined {
  return level === "normal" ? undefined : new vscode.ThemeColor(`statusBarItem.${level}Background`);
}

function share({ drafted, accepted }: Counters): number | undefined {
  const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((all, one) => all + one, 0);
  return sum(drafted) === 0 ? undefined : sum(accepted) / sum(drafted);
}
