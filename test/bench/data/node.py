"""What eight ranks of a node take together, beside one: memory, bytes read, and processor time for an epoch."""
import os
import subprocess

RANKS = 8


def steps(program, package, one_core, folder, columns, window, batch, ranks):
    """Processor time in seconds, memory added, bytes read: of all ranks together."""
    names = {"LOCAL_WORLD_SIZE": str(ranks), "TORCHELASTIC_RUN_ID": f"bench-{os.getpid()}", "PYTHONPATH": package}
    all_ranks = [subprocess.Popen([program, folder, *map(str, (columns, window, batch, rank, ranks))], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=one_core,
                                  env={**os.environ, **names, "LOCAL_RANK": str(rank)}) for rank in range(ranks)]

    def numbers():
        return [int(rank.stdout.readline()) for rank in all_ranks]

    def go_on():
        for rank in all_ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()

    numbers()
    go_on()
    numbers()
    go_on()
    numbers()
    go_on()
    memory = sum(numbers())
    go_on()
    read = sum(numbers())
    go_on()
    seconds = sum(numbers()) / 1e6
    go_on()
    for rank in all_ranks:
        rank.communicate(timeout=60)
        assert rank.returncode == 0, rank.args
    return seconds, memory, read


def measured(program, package, one_core, folder, columns, window, batch):
    """For 1 rank and for 8: seconds, memory, bytes."""
    return {ranks: steps(program, package, one_core, folder, columns, window, batch, ranks) for ranks in (1, RANKS)}
