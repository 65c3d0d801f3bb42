"""Checkpoints that ranks of dtrain save are loaded by other numbers of ranks, and by Python; and the other way."""
import contextlib
import glob
import json
import os
import re
import resource
import signal
import struct
import subprocess
import time
import unittest

import torch
from checkpoint_cases import DTRAIN, WORKER, Case, call, ckpt, said

import safetensors
import safetensors.torch as st
from torch.distributed.checkpoint import load as dcp_load

STEP = "step-00000005"


def expected(dtype, shape, step, tensor):
    count = 1
    for size in shape:
        count *= size
    values = (torch.arange(count) + tensor * 7 + step * 13) % (2 if dtype == torch.bool else 101)
    return values.to(dtype).reshape(shape)


MODEL = {
    "embed.weight": (torch.float32, (61, 7)), "blocks.0.weight": (torch.bfloat16, (33, 5)),
    "blocks.0.bias": (torch.float16, (33,)), "blocks.1.scale": (torch.float64, ()),
    "blocks.1.empty": (torch.float32, (0, 3)), "ids": (torch.int64, (11,)), "small": (torch.int32, (3, 1, 2)),
    "short": (torch.int16, (9,)), "signed": (torch.int8, (5,)), "bytes": (torch.uint8, (13,)),
    "mask": (torch.bool, (17,)), 'näme "quoted"': (torch.float32, (4,)),
}


def model(step=5):
    return {name: expected(dtype, shape, step, i) for i, (name, (dtype, shape)) in enumerate(MODEL.items())}


class Ranks(Case):
    def test_any_number_of_ranks_loads_what_any_number_saved(self):
        for saved, seed in [(1, 0), (2, 1), (3, 2), (4, 3)]:
            self.fine(call(saved, "save", self.folder, "step=5", f"seed={seed}"), "saved 5", saved)
            for loading, other in [(1, 4), (2, 0), (3, 5), (4, 6)]:
                with self.subTest(f"{saved} to {loading}"):
                    done = call(loading, "load", self.folder, f"seed={other}", *["unverified"] * (loading % 2))
                    self.fine(done, f'loaded 5 {{"at":50}} of {saved} skipped ', loading)
        self.assertEqual(self.names(), [STEP])

    def test_files_do_not_depend_on_the_ranks(self):
        files = {}
        for ranks in (1, 3):
            self.save(ranks, "step=5")
            for name in ("model.safetensors", "optimizer.safetensors"):
                with open(os.path.join(self.folder, STEP, name), "rb") as file:
                    files.setdefault(name, set()).add(file.read())
        self.assertEqual([len(bytes) for bytes in files.values()], [1, 1])

    def test_old_steps_go(self):
        for step in (1, 2, 3, 4):
            self.save(2, f"step={step}", "keep=2")
        self.assertEqual(self.names(), ["step-00000003", "step-00000004"])
        self.fine(call(2, "load", self.folder), 'loaded 4 {"at":40} of 2 skipped ', 2)

    def test_a_save_in_the_background_has_the_values_of_its_call(self):
        self.fine(call(2, "save-and-change", self.folder, "step=5"), "polled 5", 2)
        self.fine(call(3, "load", self.folder), 'loaded 5 {"at":50} of 2 skipped ', 3)
        done = call(2, "save-many", self.folder, "async", "step=6", "until=12", "keep=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.names(), ["step-00000009", "step-00000010", "step-00000011"])

    def test_a_thread_in_the_background_leaves_the_cores_to_others(self):
        job = subprocess.Popen([DTRAIN, "run", "--nproc", "1", WORKER, "save-many", self.folder, "async", "mib=64"],
                               stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                               env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        try:
            deadline, seen = time.monotonic() + 60, set()
            while 19 not in seen and time.monotonic() < deadline:
                for path in glob.glob("/proc/[0-9]*/task/[0-9]*/stat"):
                    with contextlib.suppress(OSError):
                        if self.is_of_worker(path):
                            with open(path) as file:
                                seen.add(int(file.read().rpartition(")")[2].split()[16]))
        finally:
            job.terminate()
            job.wait(60)
        self.assertIn(19, seen)
        self.assertLess(min(seen), 19, "the thread that trains")

    def is_of_worker(self, path):
        with open(path.partition("/task/")[0] + "/cmdline", "rb") as file:
            line = file.read()
        return line.startswith(WORKER.encode() + b"\0") and self.folder.encode() in line

    def test_a_type_is_converted_where_that_is_allowed(self):
        self.save(2, "step=5")
        self.fine(call(2, "load", self.folder, "convert"), 'loaded 5 {"at":50} of 2 skipped ', 2)

    def test_what_does_not_fit_is_told(self):
        self.save(2, "step=4")
        self.save(2, "step=5")
        why = "the checkpoint of step 5 cannot be loaded: rank 0: "
        self.refused(call(2, "load", self.folder, "shape"),
                     why + r"embed.weight has the shape \[61, 7\] in the files, and \[7, 61\] in the program", 2)
        self.refused(call(2, "load", self.folder, "rename"),
                     why + "the files lack other; they have embed.weight, for which nobody asks", 2)
        self.refused(call(2, "load", self.folder + "-none"), ".*has no checkpoint that can be loaded", 2)

    def test_what_cannot_be_saved_is_told(self):
        why = "the checkpoint of step 5 cannot be saved: rank "
        self.refused(call(2, "save", self.folder, "step=5", "hole"),
                     why + "0: the parts of embed.weight are not the whole: no rank has its element 218", 2)
        self.refused(call(2, "save", self.folder, "step=5", "fp8"),
                     why + "0: embed.weight has the type Float8_e4m3fn, which checkpoints do not have", 2)
        self.refused(call(3, "save", self.folder, "step=5", "differ"), ".*rank 2 gives another step, or other names", 3)
        self.assertEqual(self.names(), [])


class Python(Case):
    def check(self, read):
        self.assertEqual(set(read), set(MODEL))
        for name, tensor in model().items():
            self.assertEqual(read[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(read[name], tensor), name)

    def test_safetensors_opens_a_file(self):
        self.save(3, "step=5", "seed=8")
        self.check(st.load_file(os.path.join(self.folder, STEP, "model.safetensors")))
        with safetensors.safe_open(os.path.join(self.folder, STEP, "model.safetensors"), "pt") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})
        optimizer = st.load_file(os.path.join(self.folder, STEP, "optimizer.safetensors"))
        self.assertTrue(torch.equal(optimizer["embed.weight.exp_avg_sq"], expected(torch.float32, (61, 7), 5, 1)))

    def test_an_index_leads_to_several_files(self):
        self.save(2, "step=5", "most=300")
        step = os.path.join(self.folder, STEP)
        with open(os.path.join(step, "model.safetensors.index.json")) as file:
            index = json.load(file)
        files = set(index["weight_map"].values())
        self.assertGreater(len(files), 2)
        self.assertLessEqual(files, set(os.listdir(step)))
        self.assertEqual(index["metadata"]["total_size"], sum(t.nbytes for t in model().values()))
        read = {}
        for name in files:
            part = st.load_file(os.path.join(step, name))
            self.assertEqual(set(part), {tensor for tensor, at in index["weight_map"].items() if at == name})
            read.update(part)
        self.check(read)
        self.fine(call(3, "load", self.folder), 'loaded 5 {"at":50} of 2 skipped ', 3)
        self.fine(call(3, "load-plain", step), "loaded", 3)

    def test_torchs_own_reader_loads_them(self):
        from torch.distributed.checkpoint import HuggingFaceStorageReader
        for words in ([], ["most=300"]):
            self.save(2, "step=5", *words)
            names = [name for name in MODEL if name not in ("mask", "blocks.1.empty")]
            state = {name: torch.zeros_like(model()[name]) for name in names}
            dcp_load(state, storage_reader=HuggingFaceStorageReader(os.path.join(self.folder, STEP)), no_dist=True)
            for name in names:
                self.assertTrue(torch.equal(state[name], model()[name]), name)

    def test_what_python_saved_is_loaded(self):
        os.makedirs(self.folder)
        path = os.path.join(self.folder, "model.safetensors")
        st.save_file(model(), path, metadata={"format": "pt"})
        for ranks, place in [(1, path), (3, path), (2, self.folder)]:
            self.fine(call(ranks, "load-plain", place, "seed=3"), "loaded", ranks)
        names = list(MODEL)
        parts = {"model-00001-of-00002.safetensors": names[:5], "model-00002-of-00002.safetensors": names[5:]}
        for name, part in parts.items():
            st.save_file({tensor: model()[tensor] for tensor in part}, os.path.join(self.folder, name))
        with open(path + ".index.json", "w") as file:
            json.dump({"weight_map": {tensor: name for name, part in parts.items() for tensor in part}}, file)
        os.remove(path)
        self.fine(call(2, "load-plain", self.folder, "seed=3"), "loaded", 2)


def read_all(folder):
    """The tensors of a folder, through its index if it has one."""
    index = os.path.join(folder, "model.safetensors.index.json")
    names = ["model.safetensors"]
    if os.path.exists(index):
        with open(index) as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
    read = {}
    for name in names:
        read.update(st.load_file(os.path.join(folder, name)))
    return read


class Command(Case):
    def test_it_agrees_with_the_library(self):
        self.save(3, "step=5", "seed=8", "most=300")
        done = ckpt("inspect", self.folder, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["step"], told["world_size"], told["extra"]), (5, 3, {"at": 50}))
        tensors = {t["name"]: t for file in told["files"] for t in file["tensors"] if file["name"][0] == "m"}
        self.assertEqual(set(tensors), set(MODEL))
        self.assertEqual(tensors["embed.weight"]["shape"], [61, 7])
        done = ckpt("verify", self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_reads_what_python_saved(self):
        os.makedirs(self.folder)
        path = os.path.join(self.folder, "other.safetensors")
        st.save_file(model(), path)
        for command in ("inspect", "verify"):
            done = ckpt(command, path)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("embed.weight" if command == "inspect" else "12 tensors", done.stdout)

    def test_consolidate_writes_what_the_library_would_have_written(self):
        self.save(2, "step=5")
        with open(os.path.join(self.folder, STEP, "model.safetensors"), "rb") as file:
            whole = file.read()
        self.save(3, "step=5", "most=300")
        out = self.folder + "-out"
        done = ckpt("consolidate", self.folder, out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"-out: 1 file with 12 tensors, \d+ bytes; each tensor was compared")
        self.assertEqual(os.listdir(out), ["model.safetensors"])
        with open(os.path.join(out, "model.safetensors"), "rb") as file:
            self.assertEqual(file.read(), whole)
        done = ckpt("consolidate", self.folder, out)
        self.assertEqual(done.returncode, 2)
        self.assertIn("exists; name a folder that does not", done.stderr)
        # As several files, and back to ranks.
        done = ckpt("consolidate", out, out + "2", "--max-size", "700B")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(os.listdir(out + "2")), 3)
        read = read_all(out + "2")
        self.assertEqual(set(read), set(MODEL))
        for name, tensor in model().items():
            self.assertTrue(torch.equal(read[name], tensor), name)
        self.fine(call(2, "load-plain", out + "2", "seed=3"), "loaded", 2)

    def test_convert_rounds_as_torch_does(self):
        torch.manual_seed(1)
        bits = torch.randint(-2**31, 2**31, (100000,), dtype=torch.int64).to(torch.int32)
        wild = bits.view(torch.float32)
        tame = torch.randn(100000) * 10.0 ** torch.randint(-9, 5, (100000,))
        source = {"m.tame": tame.clamp(-65000, 65000), "m.wild": wild[wild.isnan() | (wild.abs() < 3e38)],
                  "m.ids": torch.arange(5), "other": torch.randn(3).half()}
        os.makedirs(self.folder)
        st.save_file(source, os.path.join(self.folder, "model.safetensors"))
        out = self.folder + "-out"
        done = ckpt("convert", self.folder, out, "--dtype=bfloat16", "--rename", "m.=model.")
        self.assertEqual(done.returncode, 0, done.stderr)
        read = read_all(out)
        self.assertEqual(set(read), {"model.tame", "model.wild", "model.ids", "other"})
        for name, tensor in source.items():
            wanted = tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
            got = read[name.replace("m.", "model.")]
            self.assertEqual(got.dtype, wanted.dtype)
            self.assertTrue(torch.equal(got.nan_to_num(7), wanted.nan_to_num(7)), name)
        done = ckpt("convert", self.folder, out + "16", "--dtype=float16")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"tensor m.wild has \d+ numbers that are too large for F16")
        self.assertFalse(os.path.exists(out + "16"))
        del source["m.wild"]
        st.save_file(source, os.path.join(self.folder, "model.safetensors"))
        done = ckpt("convert", self.folder, out + "16", "--dtype=float16")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(torch.equal(read_all(out + "16")["m.tame"], source["m.tame"].half()))

    def test_what_is_damaged_is_not_consolidated(self):
        self.save(2, "step=5", "most=300")
        path = sorted(glob.glob(os.path.join(self.folder, STEP, "model-*")))[1]
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        done = ckpt("consolidate", self.folder, self.folder + "-out")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "tensor .* is damaged: its crc32c")
        self.assertEqual(os.listdir(os.path.dirname(self.folder)), ["run"])

    def convert_zeros(self, *ignored):
        """The conversion of four GB of zeros that are on no disk, seconds of work, once it has begun."""
        elements = 500_000_000
        header = json.dumps({"a": {"dtype": "F64", "shape": [elements], "data_offsets": [0, 8 * elements]}}).encode()
        os.makedirs(self.folder, exist_ok=True)
        with open(os.path.join(self.folder, "model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + 8 * elements)
        process = subprocess.Popen([DTRAIN, "ckpt", "convert", self.folder, self.folder + "-out", "--dtype=bfloat16"],
                                   stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: [signal.signal(each, signal.SIG_IGN) for each in ignored])
        self.until(process, lambda: self.written(process) > 0)
        return process

    def until(self, process, condition):
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and not condition():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.002)

    def written(self, process):
        """Bytes of the new file, as far as the process has come."""
        for fd in glob.glob(f"/proc/{process.pid}/fd/*"):
            with contextlib.suppress(OSError):
                if re.search(r"-out\.tmp-\w+/model\.safetensors$", os.readlink(fd)):
                    with open(fd.replace("/fd/", "/fdinfo/")) as facts:
                        return int(facts.readline().split()[1])
        return 0

    def test_a_signal_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGUSR1):
            process = self.convert_zeros()
            process.send_signal(number)
            self.assertEqual(process.wait(60), -number)
            self.assertEqual(os.listdir(os.path.dirname(self.folder)), ["run"])

    def test_a_signal_that_is_ignored_stops_nothing(self):
        process = self.convert_zeros(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        far = self.written(process) + (64 << 20)
        self.until(process, lambda: self.written(process) > far)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), -signal.SIGTERM)

    def test_a_file_beyond_ulimit_is_an_error_and_leaves_nothing(self):
        self.save(2, "step=5")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        done = subprocess.run([DTRAIN, "ckpt", "consolidate", self.folder, self.folder + "-out"], text=True,
                              capture_output=True, preexec_fn=limit, timeout=60)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("cannot be written: File too large", done.stderr)
        self.assertEqual(os.listdir(os.path.dirname(self.folder)), ["run"])


if __name__ == "__main__":
    unittest.main()
