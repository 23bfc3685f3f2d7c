"""asyncpg with PostgreSQL and redis-py with Redis, over Unix sockets."""
from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Iterator

import asyncpg
import pytest
import redis.asyncio
from harness.loops import Run

from programs import servers

COUNT = 1000
POOL = 20


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Path]:
    with servers.postgresql() as folder:
        yield folder


@pytest.fixture(scope="module")
def redis_path() -> Iterator[str]:
    with servers.redis() as path:
        yield path


def test_postgresql_answers_a_thousand_queries_of_a_pool(postgresql: Path, run: Run) -> None:
    async def main() -> None:
        async with asyncpg.create_pool(host=str(postgresql), user="tester", database="postgres",
                                       min_size=POOL, max_size=POOL) as pool:
            async def ask(number: int) -> int:
                found: int = await pool.fetchval("SELECT $1::int * 2", number)
                return found

            answers = await asyncio.gather(*map(ask, range(COUNT)))
            assert answers == [2 * number for number in range(COUNT)]
    run(main())


def test_postgresql_cancels_a_query_and_goes_on(postgresql: Path, run: Run) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(host=str(postgresql), user="tester",
                                           database="postgres")
        with pytest.raises(TimeoutError):
            await connection.fetchval("SELECT pg_sleep(60)", timeout=0.1)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.execute("CREATE TEMPORARY TABLE rows (number int, text text)")
        await connection.copy_records_to_table(
            "rows", records=[(number, f"{number}") for number in range(10_000)])
        assert await connection.fetchval("SELECT sum(length(text)) FROM rows") == 38_890
        await connection.close()
    run(main())


def test_redis_answers_a_thousand_commands_of_a_pool(redis_path: str, run: Run) -> None:
    async def main() -> None:
        pool = redis.asyncio.BlockingConnectionPool.from_url(f"unix://{redis_path}",
                                                             max_connections=POOL)
        client = redis.asyncio.Redis(connection_pool=pool)

        async def ask(number: int) -> Any:
            await client.set(f"key {number}", number)
            return await client.get(f"key {number}")

        answers = await asyncio.gather(*map(ask, range(COUNT)))
        assert answers == [b"%d" % number for number in range(COUNT)]
        await client.aclose()
        await pool.disconnect()
    run(main())


def test_redis_hands_on_what_is_published(redis_path: str, run: Run) -> None:
    async def main() -> None:
        client = redis.asyncio.Redis(unix_socket_path=redis_path)
        async with client.pubsub() as subscription:
            await subscription.subscribe("news")
            assert (await subscription.get_message(timeout=10))["type"] == "subscribe"

            async def publish() -> None:
                for number in range(COUNT):
                    await client.publish("news", number)

            sender = asyncio.create_task(publish())
            heard = []
            async for message in subscription.listen():
                heard.append(int(message["data"]))
                if len(heard) == COUNT:
                    break
            await sender
            assert heard == list(range(COUNT))
        await client.aclose()
    run(main())
