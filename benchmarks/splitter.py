"""One address for several servers: each new connection goes to the next of them, bytes as they are."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit


@contextmanager
def one_address(servers: Sequence[str]) -> Iterator[str]:
    """Yield the base URL behind which the servers stand; of a single server, its own."""
    if len(servers) == 1:
        yield servers[0]
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    splitter = asyncio.run_coroutine_threadsafe(_listen(servers), loop).result(10)
    try:
        yield f"http://127.0.0.1:{splitter.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(splitter.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def _listen(servers: Sequence[str]) -> asyncio.Server:
    turns = itertools.cycle(servers)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = urlsplit(next(turns))
        inner_reader, inner_writer = await asyncio.open_connection(server.hostname, server.port)
        await asyncio.gather(_pipe(reader, inner_writer), _pipe(inner_reader, writer))

    return await asyncio.start_server(accept, "127.0.0.1", 0)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return  # either side has gone: the other one is closed below
    finally:
        writer.close()
