#!/usr/bin/env python3
"""--keep-state: ranks are killed at random moments, and no completed step is lost.

A step is completed when keep() has returned on all ranks. DTRAIN_TEST_KILLS=1000 kills more often than CI does, and
DTRAIN_SIM_SEED=n repeats the moments.
"""
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support")]

from ports import free_port  # noqa: E402

BIN = pathlib.Path(os.environ["DTRAIN_BIN_DIR"])
WORKER = pathlib.Path(os.environ["DTRAIN_TEST_BIN_DIR"]) / "kept_worker"
KILLS = int(os.environ.get("DTRAIN_TEST_KILLS", 24))
SEED = int(os.environ.get("DTRAIN_SIM_SEED", time.time_ns() % 1_000_000))
LIMIT = 120
WIDTH = 24


def environment(**more):
    hidden = ("DTRAIN_", "PET_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "OMP_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", **more}


def dtrain(*words, ranks=2, strategy="ddp"):
    return [str(word) for word in [BIN / "dtrain", "run", "--nproc", ranks, "--strategy", strategy, *words]]


class Job:
    """A job whose lines are read as they come."""

    def __init__(self, words, **more):
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment(**more), start_new_session=True)
        self.said, self.left, self.warned = "", "", ""
        self.pids, self.steps = {}, []  # process by (round, rank); (round, step, ns) as rank 0 told them
        self.first = {}  # nanoseconds at the end of the first step of a round
        self.made = collections.Counter()  # steps of each round
        self.losses = {}  # by step: each loss that was told, as bits

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def read(self):
        """The next lines; False at the end."""
        ends = [self.process.stdout, self.process.stderr]
        if not (ready := select.select(ends, [], [], LIMIT)[0]):
            raise AssertionError(f"nothing came for {LIMIT} s: {self.said[-1000:]} {self.warned}")
        if self.process.stderr in ready:
            warning = os.read(self.process.stderr.fileno(), 1 << 16)
            self.warned += warning.decode(errors="replace")
            if warning:
                return True
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        text = self.left + chunk.decode(errors="replace")
        lines, _, self.left = text.rpartition("\n")
        for line in lines.splitlines():
            self.said += line + "\n"
            if found := re.search(r"rank (\d+) is process (\d+) in round (\d+)", line):
                rank, pid, round = map(int, found.groups())
                self.pids[round, rank] = pid
            elif found := re.search(r"round (\d+) step (\d+) at (\d+) loss (\S+)", line):
                self.steps.append(tuple(map(int, found.groups()[:3])))
                self.made[self.steps[-1][0]] += 1
                self.first.setdefault(self.steps[-1][0], self.steps[-1][2])
                self.losses.setdefault(self.steps[-1][1], set()).add(found[4])
        return bool(chunk)

    def until(self, condition):
        while not condition():
            if not self.read():
                raise AssertionError(f"the job ended: {self.said[-1000:]} {self.errors()}")

    def errors(self):
        self.warned += self.process.stderr.read().decode(errors="replace")
        return self.warned

    def end(self):
        while self.read():
            pass
        return self.process.wait(LIMIT)


def run(words, **more):
    with Job(words, **more) as job:
        job.code = job.end()
        job.error = job.errors()
    return job


class KeptState(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-kept-")
        self.addCleanup(folder.cleanup)
        self.folders, self.root = 0, pathlib.Path(folder.name)

    def fresh(self):
        self.folders += 1
        folder = self.root / str(self.folders)
        folder.mkdir()
        return folder

    def undisturbed(self, steps, strategy, *more, ranks=2):
        job = run(dtrain(WORKER, self.fresh(), steps, WIDTH, *more, strategy=strategy, ranks=ranks))
        self.assertEqual(job.code, 0, job.said + job.error)
        self.assertEqual(len(job.losses), steps)
        return job.losses

    def completed(self, folder, ranks, before):
        """The last step whose keep() returned on all ranks before this round."""
        def last(rank):
            path = folder / f"kept-{rank}"
            lines = path.read_text().splitlines() if path.exists() else []
            notes = [tuple(map(int, line.split())) for line in lines]
            # A round that goes on earlier makes the later steps anew: the last line counts.
            return next((step for round, step, _ in reversed(notes) if round < before), 0)
        return min(last(rank) for rank in range(ranks))

    def kill_at_random(self, strategy, kills, ranks):
        moments = random.Random(f"{SEED} {strategy}")
        folder, recovered = self.fresh(), []
        words = dtrain("--keep-state", "--max-restarts", kills, WORKER, folder, 1_000_000_000, WIDTH,
                       ranks=ranks, strategy=strategy)
        with Job(words) as job:
            for number in range(kills):
                job.until(lambda: all((number, rank) in job.pids for rank in range(ranks)))
                early = number > 0 and moments.random() < 0.2  # while the round begins
                if not early:
                    wanted = moments.randint(1, 6)
                    job.until(lambda: job.made[number] >= wanted)
                # tidy: allow sleep, because the moment of the kill is what is tried
                time.sleep(moments.uniform(0, 0.3 if early else 0.01))
                killed_at = time.monotonic_ns()
                os.kill(job.pids[number, moments.randrange(ranks)], signal.SIGKILL)
                job.until(lambda: (number + 1, 0) in job.pids)
                if not early:
                    job.until(lambda: number + 1 in job.first)
                    recovered.append((job.first[number + 1] - killed_at) / 1e9)
            job.until(lambda: job.made[kills] >= 5)
            job.process.terminate()
            job.end()
        begins = re.findall(r"round (\d+) begins after step (\d+) from (\w+), extra '(.*)'", job.said)
        lost = 0
        for round, step, where, extra in begins:
            done = self.completed(folder, ranks, int(round))
            lost += max(0, done - int(step))
            if int(step) > 0:
                self.assertEqual(where, "memory")
                self.assertEqual(extra, f'{{"step":{step}}}')
        self.assertEqual([int(round) for round, *_ in begins][-1], kills)
        # A step that was made twice had the same loss, and so has a run that nobody disturbs.
        steps = max(job.losses)
        expected = self.undisturbed(steps, strategy, ranks=ranks)
        self.assertEqual([step for step in job.losses if job.losses[step] != expected[step]], [])
        recovered.sort()
        print(f"{strategy}: {kills} kills in {steps} steps, {lost} completed steps lost; from the death to the next "
              f"step {recovered[len(recovered) // 2]:.3f} s (median), {recovered[-1]:.3f} s (most)", flush=True)
        self.assertEqual(lost, 0)

    def test_a_killed_rank_costs_no_completed_step(self):
        print(f"DTRAIN_SIM_SEED={SEED}", flush=True)
        hybrid = json.dumps({"type": "fsdp", "one_copy": False, "shard_size": 2})
        left, twelfths = KILLS, 12
        for strategy, ranks, share in (("ddp", 2, 6), ("zero1", 2, 3), ("fsdp", 2, 2), (hybrid, 4, 1)):
            kills = max(1, left * share // twelfths)
            left, twelfths = left - kills, twelfths - share
            with self.subTest(strategy):
                self.kill_at_random(strategy, kills, ranks)

    def test_tensors_of_a_program_by_hand(self):
        job = run(dtrain("--keep-state", "--max-restarts", 2, WORKER, "by-hand"))
        self.assertEqual(job.code, 0, job.said + job.error)
        cannot, refused = "dtrain: rank 0 cannot keep the state of step", "the kept state cannot be used: rank 0"
        cannot_restore = "dtrain: the kept state cannot be restored"
        for line in (f"missing: {cannot_restore}: no rank keeps element 7 of row",
                     f"others: {cannot_restore}: rank 0: `kept` has other names, types or shapes of tensors than the "
                     "state that is to be filled (2 ranks failed)",
                     f"too long: {cannot} 3: `extra` has 1048577 bytes, and there is room for 1048576",
                     f"below: {cannot} -1: the step is below 0",
                     f"refused: {refused}: it was kept of other tensors: names, types or shapes differ"):
            self.assertIn(line + "\n", job.said)

    def test_without_the_launchers_memory_everything_else_works(self):
        expected = self.undisturbed(20, "ddp", 5)
        folder = self.fresh()
        job = run([str(word) for word in (WORKER, folder, 20, WIDTH, 5)])
        self.assertEqual(job.code, 0, job.error)
        self.assertIn("no kept state here: the workers were not started with `dtrain run --keep-state`", job.said)
        alone = job.losses
        job = run([str(word) for word in (WORKER, folder, 20, WIDTH, 5)])
        self.assertIn("begins after step 20 from disk", job.said)
        torchrun = pathlib.Path(sys.executable).with_name("torchrun")
        folder = self.fresh()
        words = (torchrun, "--nproc-per-node", 2, "--no-python", WORKER, folder, 20, WIDTH, 5)
        job = run([str(word) for word in words])
        self.assertEqual(job.code, 0, job.error)
        self.assertIn("no kept state here", job.said)
        self.assertEqual(job.losses, expected)
        self.assertNotEqual(alone, expected)

    def test_the_newer_one_of_memory_and_disk_is_taken(self):
        newer, folder, far = self.fresh(), self.fresh(), 3000
        made = run(dtrain(WORKER, newer, far, WIDTH, far))
        self.assertEqual(made.code, 0, made.error)
        with Job(dtrain("--keep-state", "--max-restarts", 2, WORKER, folder, 1_000_000_000, WIDTH)) as job:
            for round in range(3):
                job.until(lambda: job.made[round] >= 5)
                if round == 0:
                    (folder / "checkpoints").mkdir()
                    (newer / "checkpoints" / f"step-{far:08}").rename(folder / "checkpoints" / f"step-{far:08}")
                if round < 2:
                    os.kill(job.pids[round, round], signal.SIGKILL)
            job.process.terminate()
            job.end()
        begins = re.findall(r"round ([12]) begins after step (\d+) from (\w+)", job.said)
        self.assertEqual(begins[0], ("1", str(far), "disk"))
        self.assertEqual((begins[1][0], begins[1][2]), ("2", "memory"))
        self.assertGreaterEqual(int(begins[1][1]), far + 4)

    def nodes(self, nnodes, folder, *more, ranks=1, strategy="ddp", steps=1_000_000):
        """The command that each node of a job types, here on one host."""
        port = free_port()
        return dtrain("--nnodes", nnodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}",
                      "--rdzv-id", f"kept-{port}", "--rdzv-conf", "last_call_timeout=0.1", "--max-restarts", 5,
                      *more, WORKER, folder, steps, WIDTH, 10, ranks=ranks, strategy=strategy)

    def test_a_node_that_comes_costs_no_step_and_one_that_is_lost_takes_its_part(self):
        for strategy in ("ddp", "fsdp"):
            folder = self.fresh()
            words = self.nodes("1:2", folder, "--keep-state", strategy=strategy)
            with self.subTest(strategy), Job(words) as host:
                host.until(lambda: host.steps and host.steps[-1][1] > 15)
                with Job(words) as late:
                    host.until(lambda: host.steps[-1][0] == 1 and host.steps[-1][1] % 10 == 5)
                    late.process.kill()
                    host.until(lambda: host.steps[-1][0] == 2)
                host.process.terminate()
                host.end()
                came = re.search(r"round 1 begins after step (\d+) from memory", host.said)
                self.assertGreaterEqual(int(came[1]), self.completed(folder, 1, 1))
                self.assertRegex(host.said, r"the kept state cannot be used: of step \d+, the part of rank 1 of 2 is "
                                 r"nowhere\n\S* *round 2 begins after step [1-9]\d*0 from disk")

    def test_with_copies_a_lost_node_costs_no_completed_step(self):
        """The others go on without it; then a new node comes, and they go on with that one."""
        for strategy in ("ddp", "fsdp"):
            folder = self.fresh()
            words = self.nodes("2:3", folder, "--copy-state", strategy=strategy)
            with self.subTest(strategy), Job(words) as host:
                host.until(lambda: "waiting: 1/" in host.warned)
                with Job(words), Job(words) as lost:
                    host.until(lambda: re.search(r"round \d+ begins .* of 3 ranks", host.said))
                    full = int(re.findall(r"round (\d+) begins .* of 3 ranks", host.said)[-1])
                    host.until(lambda: host.made[full] > 5)
                    lost.process.kill()
                    host.until(lambda: host.made[full + 1] > 5)
                    with Job(words):
                        host.until(lambda: host.made[full + 2] > 5)
                host.process.terminate()
                host.end()
                for round, before, ranks in ((full + 1, 3, 2), (full + 2, 2, 3)):
                    begin = re.search(rf"round {round} begins after step (\d+) from (\w+), extra .* of {ranks} ranks",
                                      host.said)
                    self.assertEqual(begin[2], "memory")
                    self.assertGreaterEqual(int(begin[1]), self.completed(folder, before, round))
                self.assertNotIn("cannot be used", host.said)
                self.assertNotIn("no second copy", host.said)

    def test_a_node_that_is_replaced_changes_no_bit(self):
        """Also what each rank has for itself, as statistics of batches, comes back from the copy."""
        for strategy, nodes, ranks in (("ddp", 3, 1), ("fsdp", 2, 2), ("zero2", 2, 1)):
            folder, jobs = self.fresh(), []
            words = self.nodes(nodes, folder, "--copy-state", strategy=strategy, ranks=ranks)
            with self.subTest(strategy), contextlib.ExitStack() as stack:
                host = stack.enter_context(Job(words))
                host.until(lambda: "waiting: 1/" in host.warned)
                jobs = [stack.enter_context(Job(words)) for _ in range(nodes - 1)]
                for round in range(3):
                    host.until(lambda: host.made[round] > 5)
                    if round < 2:
                        jobs.append(spare := stack.enter_context(Job(words)))
                        spare.until(lambda: "waiting: " in spare.warned)
                        jobs.pop(0).process.kill()
                host.process.terminate()
                host.end()
                for round, step, where in re.findall(r"round ([12]) begins after step (\d+) from (\w+)", host.said):
                    self.assertEqual(where, "memory")
                    self.assertGreaterEqual(int(step), self.completed(folder, nodes * ranks, int(round)))
                steps = max(host.losses)
                expected = self.undisturbed(steps, strategy, ranks=nodes * ranks)
                self.assertEqual([step for step in host.losses if host.losses[step] != expected[step]], [])

    def test_the_next_run_of_a_job_goes_on_from_memory(self):
        """Its rounds have the numbers of those before it, and a killed rank still costs no step."""
        for strategy in ("ddp", "fsdp"):
            states, done, losses = self.fresh(), 0, {}
            for _ in range(3):
                folder = self.fresh()
                words = dtrain("--rdzv-id", strategy, "--state-dir", states, "--max-restarts", 1, WORKER, folder, 10**9,
                               WIDTH, strategy=strategy)
                with self.subTest(strategy), Job(words) as job:
                    job.until(lambda: job.made[0] > 5)
                    os.kill(job.pids[0, 1], signal.SIGKILL)
                    job.until(lambda: job.made[1] > 5)
                    job.process.terminate()
                    self.assertEqual(job.end(), 128 + signal.SIGTERM, job.errors())
                begins = re.findall(r"round (\d) begins after step (\d+) from (\w+)", job.said)
                self.assertGreaterEqual(int(begins[0][1]), done, job.said)
                self.assertEqual(begins[0][2], "memory" if done else "nothing")
                self.assertGreaterEqual(int(begins[1][1]), self.completed(folder, 2, 1))
                self.assertEqual(len(os.listdir(states)), 2)
                done = self.completed(folder, 2, 2)
                for step, those in job.losses.items():
                    losses.setdefault(step, set()).update(those)
            expected = self.undisturbed(max(losses), strategy)
            self.assertEqual([step for step in losses if losses[step] != expected[step]], [])

    def test_a_node_whose_files_are_lost_has_copies_elsewhere(self):
        for flag, where in (("--copy-state", "memory"), ("--keep-state", "nothing")):
            states, folder, port = self.fresh(), self.fresh(), free_port()
            nodes = [dtrain("--nnodes", 2, "--node-rank", node, "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id",
                            "lost", flag, "--state-dir", states, WORKER, folder, 10**9, WIDTH, ranks=1, strategy="fsdp")
                     for node in (0, 1)]
            for run in range(2):
                with self.subTest(flag, run=run), Job(nodes[0]) as host, Job(nodes[1]) as other:
                    host.until(lambda: host.made[0] > 5)
                    host.process.terminate()
                    host.end(), other.end()
                    told = host.errors() + other.errors()
                self.assertEqual(len(os.listdir(states)), 4 if flag == "--copy-state" else 2, told)
                if run == 0:
                    done = self.completed(folder, 2, 1)
                    for file in states.glob("*.n1.*"):
                        file.unlink()
            step, found = re.search(r"round 0 begins after step (\d+) from (\w+)", host.said).groups()
            self.assertEqual(found, where, host.said)
            self.assertTrue(found == "nothing" or int(step) >= done, host.said)

    def test_copies_that_have_no_place_are_told(self):
        folder = self.fresh()
        words = self.nodes("1:2", folder, "--copy-state", steps=5)
        job = run(words)
        self.assertEqual(job.code, 0, job.said + job.error)
        self.assertIn("no second copy of the kept state in this round: a node has more than half of the ranks",
                      job.said)
        job = run(dtrain("--copy-state", WORKER, folder, 5, WIDTH))
        self.assertEqual(job.code, 2)
        self.assertIn("copies need another node, and the job has one (--nnodes)", job.error)

    def test_checkpoints_that_are_all_damaged_are_an_error_but_the_kept_state_wins(self):
        folder = self.fresh()
        steps = [folder / "checkpoints" / f"step-{step:08}" for step in (2, 3)]
        with Job(dtrain("--keep-state", "--max-restarts", 1, WORKER, folder, 10**9, WIDTH)) as job:
            job.until(lambda: job.made[0] > 3)
            for step in steps:
                step.mkdir(parents=True)
                (step / "dtrain.json").write_text("{")
            os.kill(job.pids[0, 1], signal.SIGKILL)
            job.until(lambda: job.made[1] > 3)
            self.assertRegex(job.said, r"round 1 begins after step \d+ from memory")
        for words in ("--keep-state",), ():
            job = run(dtrain(*words, "--max-restarts", 0, WORKER, folder, 5, WIDTH))
            self.assertEqual(job.code, 1, job.said + job.error)
            self.assertNotIn("begins", job.said)
            self.assertRegex(job.error, f"kept_worker: dtrain: {steps[0].parent} has no checkpoint that can be loaded: "
                             f"{steps[1]}/dtrain.json: its JSON is damaged; {steps[0]}/dtrain.json: its JSON is ")
        for step in steps:  # as a first save that was killed
            step.rename(f"{step}.tmp-12-0")
        job = run(dtrain("--keep-state", "--max-restarts", 0, WORKER, folder, 5, WIDTH))
        self.assertEqual(job.code, 0, job.said + job.error)
        self.assertIn("round 0 begins after step 0 from nothing", job.said)

    def test_a_program_in_between_that_closes_the_descriptor_is_one_clear_error(self):
        wrapper = ("import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))")
        job = run(dtrain("--keep-state", "--max-restarts", 1, "--no-python", sys.executable, "-c", wrapper, WORKER,
                         self.fresh(), 5, WIDTH, ranks=1))
        self.assertEqual(job.code, 1)
        self.assertIn("the launcher keeps this rank's state in descriptor 100 (DTRAIN_STATE_FD), and it is closed here",
                      job.said + job.error)
        for shell in (["bash", "-c", '"$@"; exit $?', "bash"], ["env", "A=1"], ["nice"]):
            job = run(dtrain("--keep-state", "--max-restarts", 1, *shell, WORKER, self.fresh(), 5, WIDTH, ranks=1))
            self.assertEqual(job.code, 0, job.said + job.error)
            self.assertNotIn("no kept state", job.said)

    def test_too_little_memory_is_one_clear_error(self):
        job = run(dtrain("--keep-state", "--max-restarts", 0, "bash", "-c", 'ulimit -f 100; exec "$@"', "bash", WORKER,
                         self.fresh(), 5, WIDTH, ranks=1))
        self.assertEqual(job.code, 1)
        self.assertRegex(job.said + job.error, "rank 0 cannot keep the state of step 1: keeping the state of this rank "
                         r"takes 2 MiB of memory, twice its size, and the limit of a file's size is 0 MiB")


if __name__ == "__main__":
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
