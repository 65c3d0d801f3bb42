"""python -m dtrain_data.scheduler FILE: Dask's scheduler, until somebody shuts it down. Prints its address when it
listens."""
import asyncio
import os
import sys

from distributed import Scheduler


async def main(file):
    async with Scheduler(protocol="tls", host=f"tls://{os.environ.get('MASTER_ADDR', '127.0.0.1')}", port=0,
                         dashboard=False, scheduler_file=file) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
