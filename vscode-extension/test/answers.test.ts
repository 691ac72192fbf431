import type { LogOutputChannel } from "vscode";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { type Answered, ForetypeClient } from "../src/client";
import { LanguageClient } from "./languageclient";
import { InlineCompletionTriggerKind, LogChannel, Position, resetEditor } from "./vscode";

const document = { version: 4 };
const position = new Position(1, 2);
const asked = { triggerKind: InlineCompletionTriggerKind.Invoke };
const typed = { triggerKind: InlineCompletionTriggerKind.Automatic };

async function start(): Promise<{ client: ForetypeClient; answers: Answered[] }> {
  const log = new LogChannel() as unknown as LogOutputChannel;
  const client = new ForetypeClient(log, { allows: () => true }, "/own");
  const answers: Answered[] = [];
  client.onAnswer((answer) => answers.push(answer));
  await client.start("/env/bin/python");
  return { client, answers };
}

function ask(context: object, answer: unknown, token = { isCancellationRequested: false }) {
  const next = vi.fn(() => Promise.resolve(answer));
  const { middleware } = LanguageClient.last.options;
  return { next, done: middleware.provideInlineCompletionItems(document, position, context, token, next) };
}

beforeEach(() => {
  resetEditor();
  LanguageClient.made = [];
});

describe("an answer", () => {
  it("is told with its place, who asked, and how many suggestions there are", async () => {
    const { answers } = await start();
    await ask(typed, { items: [{}] }).done;
    await ask(asked, [{}, {}]).done;
    await ask(typed, null).done;
    expect(answers).toEqual([
      { document, version: 4, position, automatic: true, suggestions: 1 },
      { document, version: 4, position, automatic: false, suggestions: 2 },
      { document, version: 4, position, automatic: true, suggestions: 0 },
    ]);
  });

  it("that nobody waits for any more is not told", async () => {
    const { answers } = await start();
    await ask(typed, { items: [{}] }, { isCancellationRequested: true }).done;
    expect(answers).toEqual([]);
  });

  it("to a renewal comes from what the server knows, and counts as asked for", async () => {
    const { client, answers } = await start();
    await client.renewal.request({ document, version: 4, position } as unknown as Answered);
    const { next, done } = ask(asked, { items: [{}] });
    await done;
    expect(next).toHaveBeenCalledWith(document, position, typed, { isCancellationRequested: false });
    expect(answers[0]?.automatic).toBe(false);
    expect(client.lastLatencyMs).toBeUndefined();
  });
});
