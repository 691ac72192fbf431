"""The language server over a real pipe, with a scripted engine."""

from __future__ import annotations

import asyncio
import sys

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

URI = "untitled:one.py"


async def started() -> tuple[LanguageClient, types.InitializeResult]:
    client = LanguageClient("test", "1")
    await client.start_io(sys.executable, "-m", "tests.e2e.scripted_server")
    result = await client.initialize_async(
        types.InitializeParams(capabilities=types.ClientCapabilities(), initialization_options={"drafters": ["lookup"]})
    )
    client.initialized(types.InitializedParams())
    return client, result


def open_document(client: LanguageClient, text: str, uri: str = URI) -> None:
    document = types.TextDocumentItem(uri, "python", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))


async def ask(client: LanguageClient, line: int, column: int, uri: str = URI):
    params = types.InlineCompletionParams(
        context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
        text_document=types.TextDocumentIdentifier(uri),
        position=types.Position(line, column),
    )
    return await client.text_document_inline_completion_async(params)


async def stop(client: LanguageClient) -> None:
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()


async def answered(client: LanguageClient, *place: int) -> list[types.InlineCompletionItem]:
    """Ask until the engine is loaded."""
    for _ in range(200):
        reply = await ask(client, *place)
        if reply and reply.items:
            return reply.items
        await asyncio.sleep(0.02)
    pytest.fail("the server never answered")


def run(scenario) -> None:
    async def main() -> None:
        client, result = await started()
        try:
            await scenario(client, result)
        finally:
            await stop(client)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_inline_completion_is_announced_and_answered():
    """The capability is announced (B26), an item has text and range, and printing breaks nothing (B30)."""

    async def scenario(client, result):
        assert result.capabilities.inline_completion_provider
        open_document(client, "x = 1\nface = 🦊\n")
        open_document(client, "y = 2\n", "untitled:two.py")
        (item,) = await answered(client, 1, 9)
        assert item.insert_text == "<face = 🦊|1>"
        assert item.range == types.Range(types.Position(1, 9), types.Position(1, 9))

    run(scenario)


def test_the_newest_request_wins():
    """A newer request for a document cancels the running one, which answers null."""

    async def scenario(client, result):
        open_document(client, "slow\nfast\n")
        await answered(client, 1, 4)
        slow = asyncio.ensure_future(ask(client, 0, 4))
        await asyncio.sleep(0.1)
        fast = await ask(client, 1, 4)
        assert fast.items[0].insert_text == "<fast|0>"
        assert await slow is None

    run(scenario)
