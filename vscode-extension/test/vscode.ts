// What our code uses of the editor, without the editor. Tests set `editor` and read from it what was shown and run.

export interface Shown {
  message: string;
  items: readonly string[];
  detail: string | undefined;
}

/** The state of the pretended editor. */
export const editor = {
  settings: new Map<string, unknown>(),
  workspaceSettings: new Map<string, unknown>(),
  trusted: true,
  extensions: new Map<string, unknown>(),
  shown: [] as Shown[],
  executed: [] as unknown[][],
  registered: new Map<string, () => unknown>(),
  opened: [] as string[],
  progress: [] as string[],
  increments: [] as number[],
  bar: undefined as StatusBarItem | undefined,
  language: undefined as LanguageStatusItem | undefined,
  panels: [] as WebviewPanel[],
  /** Answers a message, a quick pick or a dialog. */
  answer: (() => undefined) as (question: Shown) => unknown,
  cancelProgress: (): void => undefined,
};

export function resetEditor(): void {
  editor.settings.clear();
  editor.workspaceSettings.clear();
  editor.extensions.clear();
  editor.registered.clear();
  editor.trusted = true;
  for (const list of [
    editor.shown,
    editor.executed,
    editor.opened,
    editor.progress,
    editor.increments,
    editor.panels,
  ]) {
    list.length = 0;
  }
  editor.answer = () => undefined;
  editor.bar = editor.language = undefined;
  window.activeTextEditor = undefined;
  workspace.workspaceFolders = undefined;
}

export class EventEmitter<T> {
  readonly #listeners = new Set<(value: T) => unknown>();

  readonly event = (listener: (value: T) => unknown): Disposable => {
    this.#listeners.add(listener);
    return new Disposable(() => this.#listeners.delete(listener));
  };

  fire(value: T): void {
    for (const listener of [...this.#listeners]) {
      listener(value);
    }
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

export class Disposable {
  constructor(readonly dispose: () => unknown) {}

  static from(...all: { dispose(): unknown }[]): Disposable {
    return new Disposable(() => {
      all.forEach((one) => one.dispose());
    });
  }
}

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}

  isEqual(other: Position): boolean {
    return this.line === other.line && this.character === other.character;
  }
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly path: string,
  ) {}

  static file(path: string): Uri {
    return new Uri("file", path);
  }

  static parse(text: string): Uri {
    const colon = text.indexOf(":");
    return new Uri(text.slice(0, colon), text.slice(colon + 1).replace(/^\/\//, ""));
  }

  get fsPath(): string {
    return this.path;
  }

  toString(): string {
    return `${this.scheme}://${this.path}`;
  }
}

export enum LogLevel {
  Off = 0,
  Trace = 1,
  Debug = 2,
  Info = 3,
  Warning = 4,
  Error = 5,
}

export enum ConfigurationTarget {
  Global = 1,
  Workspace = 2,
}

export enum LanguageStatusSeverity {
  Information = 0,
  Warning = 1,
  Error = 2,
}

export enum StatusBarAlignment {
  Left = 1,
  Right = 2,
}

export enum ViewColumn {
  Beside = -2,
}

export enum ProgressLocation {
  Window = 10,
  Notification = 15,
}

export enum InlineCompletionTriggerKind {
  Invoke = 0,
  Automatic = 1,
}

export class LogChannel {
  readonly lines: string[] = [];
  logLevel = LogLevel.Info;

  readonly debug = this.#at("debug");
  readonly info = this.#at("info");
  readonly warn = this.#at("warn");
  readonly error = this.#at("error");

  #at(level: string): (...parts: unknown[]) => void {
    return (...parts) => this.lines.push(`${level}: ${parts.map(String).join(" ")}`);
  }
}

export interface StatusBarItem {
  text?: string;
  tooltip?: string;
  backgroundColor?: ThemeColor | undefined;
  command?: string;
  visible: boolean;
}

export interface LanguageStatusItem {
  text?: string;
  detail?: string;
  busy?: boolean;
  severity?: LanguageStatusSeverity;
  command?: { command: string; title: string };
  dispose(): void;
}

export interface WebviewPanel {
  options: { enableScripts: boolean };
  webview: { html: string };
  revealed: number;
  dispose(): void;
}

export interface TextEditor {
  document: object;
  selection: { active: Position };
  selections: unknown[];
}

export interface WorkspaceFolder {
  name: string;
  uri: Uri;
  index: number;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export const configurationChanges = new EventEmitter<{ affectsConfiguration: (name: string) => boolean }>();

export const workspace = {
  onDidChangeConfiguration: configurationChanges.event,
  asRelativePath: (uri: Uri): string => uri.path.replace(/^\/projects\//, ""),
  workspaceFolders: undefined as readonly WorkspaceFolder[] | undefined,
  get isTrusted(): boolean {
    return editor.trusted;
  },
  getConfiguration: (section: string) => ({
    get: (name: string, fallback?: unknown): unknown => {
      const key = `${section}.${name}`;
      const [user, workspace] = [editor.settings.get(key), editor.workspaceSettings.get(key)];
      return isObject(user) && isObject(workspace) ? { ...user, ...workspace } : (workspace ?? user ?? fallback);
    },
    inspect: (name: string) => ({
      globalValue: editor.settings.get(`${section}.${name}`),
      workspaceValue: editor.workspaceSettings.get(`${section}.${name}`),
    }),
    update: (name: string, value: unknown, target: ConfigurationTarget): Promise<void> => {
      const values = target === ConfigurationTarget.Workspace ? editor.workspaceSettings : editor.settings;
      if (value === undefined) {
        values.delete(`${section}.${name}`);
      } else {
        values.set(`${section}.${name}`, value);
      }
      return Promise.resolve();
    },
  }),
};

export const extensions = {
  getExtension: (id: string): unknown => {
    const api = editor.extensions.get(id);
    return api === undefined ? undefined : { activate: () => Promise.resolve(api) };
  },
};

export const languages = {
  createLanguageStatusItem: (): LanguageStatusItem => (editor.language = { dispose: () => undefined }),
};

export const commands = {
  registerCommand: (name: string, act: () => unknown): Disposable => {
    editor.registered.set(name, act);
    return new Disposable(() => editor.registered.delete(name));
  },
  executeCommand: (...args: unknown[]): Promise<undefined> => {
    editor.executed.push(args);
    return Promise.resolve(undefined);
  },
};

export const env = {
  openExternal: (uri: Uri): Promise<boolean> => {
    editor.opened.push(uri.toString());
    return Promise.resolve(true);
  },
};

type MessageOptions = { modal?: boolean; detail?: string } | string;

function show(message: string, ...rest: MessageOptions[]): Promise<unknown> {
  const items = rest.filter((one) => typeof one === "string");
  const detail = rest.find((one) => typeof one === "object")?.detail;
  return ask({ message, items, detail });
}

function ask(question: Shown): Promise<unknown> {
  editor.shown.push(question);
  return Promise.resolve(editor.answer(question));
}

export const activeEditors = new EventEmitter<undefined>();

export const window = {
  activeTextEditor: undefined as TextEditor | undefined,
  onDidChangeActiveTextEditor: activeEditors.event,
  createStatusBarItem: (): object => {
    const item = { visible: false, show: () => (item.visible = true), dispose: () => (item.visible = false) };
    editor.bar = item;
    return item;
  },
  createWebviewPanel: (_type: string, _title: string, _where: unknown, options: { enableScripts: boolean }): object => {
    const closed = new EventEmitter<undefined>();
    const panel = {
      options,
      webview: { html: "" },
      revealed: 0,
      reveal: () => panel.revealed++,
      onDidDispose: closed.event,
      dispose: () => {
        closed.fire(undefined);
      },
    };
    editor.panels.push(panel);
    return panel;
  },
  showInformationMessage: show,
  showWarningMessage: show,
  showErrorMessage: show,
  showQuickPick: async (
    items: readonly { label: string }[] | Promise<readonly { label: string }[]>,
    options?: { title?: string; placeHolder?: string },
  ): Promise<unknown> => {
    const rows = await items;
    const question = {
      message: options?.title ?? "",
      items: rows.map((item) => item.label),
      detail: options?.placeHolder,
    };
    const label = await ask(question);
    return rows.find((item) => item.label === label);
  },
  showOpenDialog: (options?: { title?: string }): Promise<unknown> =>
    ask({ message: options?.title ?? "", items: [], detail: undefined }),
  withProgress: (
    _options: unknown,
    task: (
      progress: { report: (step: { message?: string; increment?: number }) => void },
      token: { onCancellationRequested: (listener: () => void) => void },
    ) => Promise<unknown>,
  ): Promise<unknown> =>
    task(
      {
        report: ({ message, increment }) => {
          editor.progress.push(...(message === undefined ? [] : [message]));
          editor.increments.push(...(increment === undefined ? [] : [increment]));
        },
      },
      {
        onCancellationRequested: (listener) => {
          editor.cancelProgress = listener;
        },
      },
    ),
};
