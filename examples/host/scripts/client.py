"""What fetch.cpp awaits: pages by aiohttp."""
from __future__ import annotations

import aiohttp


class Client:
    """One session for all requests: its connections are used again."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession()

    async def get(self, url: str) -> tuple[int, int]:
        async with self._session.get(url) as answer:
            return answer.status, len(await answer.read())

    async def close(self) -> None:
        await self._session.close()


async def open_client() -> Client:
    return Client()
