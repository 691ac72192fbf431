// The language server as the extension sees it: started, stopped, kept alive, asked.
import * as vscode from "vscode";
import { ExecuteCommandRequest, type LanguageClient, type Middleware, State } from "vscode-languageclient/node";
import { createConnection, endConnection } from "./connection";
import { Renewal, type Spot } from "./renewal";
import { RestartPolicy } from "./restartPolicy";
import { SECTION, serverSettings } from "./settings";
import { within } from "./time";

/** What `foretype/status` carries. */
export interface Status {
  state: "loading" | "ready" | "busy" | "degraded" | "failed" | "off";
  message: string;
  action?: string;
}

/** What `foretype/extended` carries: what is shown in this document has become longer. */
export interface Extended {
  uri: string;
  version: number;
}

/** A request for suggestions at a spot, and what it got. */
export interface Answered extends Spot {
  automatic: boolean;
  suggestions: number;
}

/** `crashed`: it ended by itself too often and is not started again until somebody asks. */
export type ServerState = "starting" | "running" | "stopped" | "crashed";

/** Decides whether a document's requests leave the editor. */
export interface RequestGate {
  allows(document: vscode.TextDocument): boolean;
}

const ACCEPT = "foretype.accept";
const START_LIMIT_MS = 60_000;

/** One server for all folders of the window. */
export class ForetypeClient implements vscode.Disposable {
  readonly #statusEmitter = new vscode.EventEmitter<Status>();
  readonly #extendedEmitter = new vscode.EventEmitter<Extended>();
  readonly #answerEmitter = new vscode.EventEmitter<Answered>();
  readonly #stateEmitter = new vscode.EventEmitter<ServerState>();
  readonly #policy = new RestartPolicy();
  #client: LanguageClient | undefined;
  #turn: Promise<void> = Promise.resolve();
  #interpreter: string | undefined;
  #wanted = false;
  #state: ServerState = "stopped";
  #status: Status | undefined;
  #accepted = 0;
  #latencyMs: number | undefined;

  readonly onStatus = this.#statusEmitter.event;
  readonly onExtended = this.#extendedEmitter.event;
  readonly onAnswer = this.#answerEmitter.event;
  readonly onState = this.#stateEmitter.event;
  readonly renewal = new Renewal();

  /** `folder` is where the server works: one of ours, so that nothing of the workspace is imported. */
  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly gate: RequestGate,
    private readonly folder: string,
  ) {}

  get state(): ServerState {
    return this.#state;
  }

  /** The last status, while there is a server. */
  get status(): Status | undefined {
    return this.#status;
  }

  /** The Python that the server runs in, or ran in last. */
  get interpreter(): string | undefined {
    return this.#interpreter;
  }

  /** Milliseconds from the last request that brought a suggestion to its answer. */
  get lastLatencyMs(): number | undefined {
    return this.#latencyMs;
  }

  /** How many suggestions were accepted as a whole in this window. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Start the server in a Python, in place of the one that runs. */
  start(interpreter: string): Promise<void> {
    this.#policy.forget();
    this.#wanted = true;
    return this.#next(() => this.#startIn(interpreter));
  }

  /** Stop the server; it can be started again. */
  stop(): Promise<void> {
    this.#wanted = false;
    return this.#next(() => this.#stopNow());
  }

  /** Start the server anew in the same Python. */
  async restart(): Promise<void> {
    if (this.#interpreter !== undefined) {
      await this.start(this.#interpreter);
    }
  }

  /** Have the server execute one of its commands. */
  command<T>(name: string, ...args: unknown[]): Promise<T> {
    if (this.#client === undefined || this.#state !== "running") {
      throw new Error("Foretype's server is not running; run “Foretype: Restart Server”.");
    }
    return this.#client.sendRequest(ExecuteCommandRequest.type, { command: name, arguments: args }) as Promise<T>;
  }

  /** Say in the server's place that there are no completions, and what to do. */
  reportFailure(message: string, action: string): void {
    this.#tell({ state: "failed", message, action });
  }

  dispose(): void {
    void this.stop().finally(() => {
      this.#statusEmitter.dispose();
      this.#extendedEmitter.dispose();
      this.#answerEmitter.dispose();
      this.#stateEmitter.dispose();
    });
  }

  #next(action: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(action, action);
    return this.#turn;
  }

  async #startIn(interpreter: string): Promise<void> {
    await this.#stopNow();
    this.#interpreter = interpreter;
    this.#setState("starting");
    this.log.info(`starting the server in ${interpreter}`);
    const client = createConnection(interpreter, this.folder, this.log, this.#middleware());
    this.#client = client;
    client.onDidChangeState(({ newState }) => {
      this.#changed(client, newState);
    });
    client.onNotification("foretype/status", (status: Status) => {
      this.#tell(status);
    });
    client.onNotification("foretype/extended", (extended: Extended) => {
      this.#extendedEmitter.fire(extended);
    });
    await within(START_LIMIT_MS, client.start()).catch((error: unknown) => {
      this.log.error("the server did not start:", error instanceof Error ? error : String(error));
      this.#ended(client);
    });
  }

  async #stopNow(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    this.#status = undefined;
    if (client !== undefined) {
      this.#setState("stopped");
      await endConnection(client, this.log);
    }
  }

  #changed(client: LanguageClient, state: State): void {
    if (client === this.#client && state === State.Running) {
      this.#setState("running");
    } else if (state === State.Stopped || state === State.StartFailed) {
      this.#ended(client);
    }
  }

  /** Deal with an end that nobody asked for: only then is the client still ours. */
  #ended(client: LanguageClient): void {
    if (client !== this.#client) {
      return;
    }
    this.#client = undefined;
    this.#status = undefined;
    void endConnection(client, this.log);
    if (this.#policy.restarts(Date.now())) {
      this.log.warn("the server ended by itself; starting it again");
      void this.#next(() => this.#startAgain());
    } else {
      this.#setState("crashed");
    }
  }

  async #startAgain(): Promise<void> {
    if (this.#wanted && this.#interpreter !== undefined) {
      await this.#startIn(this.#interpreter);
    }
  }

  #middleware(): Middleware {
    return {
      provideInlineCompletionItems: async (document, position, context, token, next) => {
        if (!this.gate.allows(document)) {
          return null;
        }
        const spot = { document, version: document.version, position };
        const sent = this.renewal.contextOf(spot, context);
        const asked = performance.now();
        const answer = await next(document, position, sent, token);
        const suggestions = answer ? (Array.isArray(answer) ? answer : answer.items).length : 0;
        if (suggestions > 0 && sent === context) {
          this.#latencyMs = performance.now() - asked; // nobody waited for a renewal
        }
        if (!token.isCancellationRequested) {
          const automatic = context.triggerKind === vscode.InlineCompletionTriggerKind.Automatic;
          this.#answerEmitter.fire({ ...spot, automatic, suggestions });
        }
        return answer;
      },
      executeCommand: (command, args: unknown[], next): unknown => {
        this.#accepted += command === ACCEPT ? 1 : 0;
        return next(command, args);
      },
      handleWorkDoneProgress: () => undefined, // the status says the same
      workspace: {
        configuration: (params, token, next) => {
          const ours = params.items.every((item) => item.section === SECTION);
          return ours ? params.items.map(() => serverSettings()) : next(params, token);
        },
      },
    };
  }

  #tell(status: Status): void {
    this.#status = status;
    this.#statusEmitter.fire(status);
  }

  #setState(state: ServerState): void {
    if (state !== this.#state) {
      this.#state = state;
      this.#stateEmitter.fire(state);
    }
  }
}
