"""What handlers.cpp asks. Change it while the server runs."""
import asyncio


async def handle(line: str) -> str:
    await asyncio.sleep(0)
    return line.upper()
