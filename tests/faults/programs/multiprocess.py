"""A process pool under a running loop; each worker runs a loop of its own.
multiprocess.py fork|forkserver|spawn"""
import asyncio
import concurrent.futures
import multiprocessing
import sys
import warnings

import ringloop

warnings.simplefilter("ignore", DeprecationWarning)      # fork with threads: meant here


async def squared(number: int) -> int:
    await asyncio.sleep(0.001)
    return number * number


def work(number: int) -> int:
    return ringloop.run(squared(number))


async def main(method: str) -> None:
    loop = asyncio.get_running_loop()
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        found = await asyncio.gather(*(loop.run_in_executor(pool, work, n) for n in range(4)))
    print(*found)


if __name__ == "__main__":
    ringloop.run(main(sys.argv[1]))
