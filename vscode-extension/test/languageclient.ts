// The language client, without a server: tests play the server through `LanguageClient.made`.
import { EventEmitter } from "./vscode";

export enum State {
  Stopped = 1,
  Running = 2,
  Starting = 3,
  StartFailed = 4,
}
export enum CloseAction {
  DoNotRestart = 1,
  Restart = 2,
}
export enum ErrorAction {
  Continue = 1,
  Shutdown = 2,
}
export enum TransportKind {
  stdio = 0,
}
export enum RevealOutputChannelOn {
  Never = 4,
}
export const ExecuteCommandRequest = { type: "workspace/executeCommand" };

export interface ServerOptions {
  command: string;
  args: string[];
  options: { cwd: string; env: Record<string, string | undefined> };
}

type Next = (...args: unknown[]) => unknown;

export interface Middleware {
  provideInlineCompletionItems(
    document: unknown,
    at: unknown,
    how: unknown,
    token: unknown,
    next: Next,
  ): Promise<unknown>;
  executeCommand(command: string, args: unknown[], next: Next): unknown;
  handleWorkDoneProgress(): void;
  workspace: { configuration(params: { items: { section?: string }[] }, token: unknown, next: Next): unknown };
}

export interface LanguageClientOptions {
  documentSelector: unknown[];
  initializationOptions: Record<string, unknown>;
  middleware: Middleware;
  errorHandler: { closed(): { action: CloseAction } };
}

/** One start of the server; what the test lets it do next is in `next`. */
export class LanguageClient {
  static made: LanguageClient[] = [];
  /** How the next clients start. */
  static starts: (client: LanguageClient) => Promise<void> = (client) => {
    client.become(State.Running);
    return Promise.resolve();
  };

  readonly #states = new EventEmitter<{ newState: State }>();
  readonly #handlers = new Map<string, (params: unknown) => void>();
  readonly onDidChangeState = this.#states.event;
  readonly sent: unknown[] = [];
  readonly logged: unknown[][] = [];
  disposed = false;

  constructor(
    readonly id: string,
    readonly name: string,
    readonly server: ServerOptions,
    readonly options: LanguageClientOptions,
  ) {
    LanguageClient.made.push(this);
  }

  static get last(): LanguageClient {
    const client = LanguageClient.made.at(-1);
    if (client === undefined) {
      throw new Error("no client was made");
    }
    return client;
  }

  start(): Promise<void> {
    return LanguageClient.starts(this);
  }

  dispose(): Promise<void> {
    this.disposed = true;
    this.become(State.Stopped);
    return Promise.resolve();
  }

  onNotification(method: string, handler: (params: never) => void): void {
    this.#handlers.set(method, handler as (params: unknown) => void);
  }

  sendRequest(_type: unknown, params: unknown): Promise<unknown> {
    this.sent.push(params);
    return Promise.resolve("answer");
  }

  error(...parts: unknown[]): void {
    this.logged.push(parts);
  }

  /** Play the server: it, or the connection to it, has changed. */
  become(newState: State): void {
    this.#states.fire({ newState });
  }

  /** Play the server: it notifies. */
  notify(method: string, params: unknown): void {
    this.#handlers.get(method)?.(params);
  }
}
