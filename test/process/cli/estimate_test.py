"""dtrain estimate on files: headers are read, and values are not. usage: estimate_test.py path/to/dtrain"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

DTRAIN = pathlib.Path(sys.argv.pop(1)).resolve()
WIDTH = 1024


def tensors_of(layers):
    found = {"model.embed.weight": [32000, WIDTH], "model.norm.weight": [WIDTH]}
    for layer in layers:
        found[f"model.layers.{layer}.mlp.weight"] = [WIDTH, WIDTH]
        found[f"model.layers.{layer}.norm.weight"] = [WIDTH]
    return found


def write(path, tensors, dtype="BF16", size=2):
    """A safetensors file whose values are a hole."""
    header, at = {}, 0
    for name, shape in tensors.items():
        count = size
        for extent in shape:
            count *= extent
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


def estimate(*words):
    return subprocess.run([DTRAIN, "estimate", *map(str, words)], capture_output=True, text=True, timeout=60)


class Estimate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_file_and_a_model_in_several_files_are_the_same(self):
        whole = self.folder / "whole.safetensors"
        write(whole, tensors_of(range(4)))
        one = estimate(whole, "--nproc", 4, "--json")
        self.assertEqual(one.returncode, 0, one.stderr)
        facts = json.loads(one.stdout)
        rest = 32000 * WIDTH + WIDTH
        elements = rest + 4 * (WIDTH * WIDTH + WIDTH)
        self.assertEqual((facts["parameters"], facts["in_no_unit"]), (elements, rest))
        self.assertEqual(facts["units"], ["4 of model.layers.N"])
        self.assertEqual(facts["strategies"][0]["total"], 16 * elements)

        split = self.folder / "split"
        split.mkdir()
        layers = tensors_of(range(4))
        parts = {"a.safetensors": dict(list(layers.items())[:5]), "b.safetensors": dict(list(layers.items())[5:])}
        for name, tensors in parts.items():
            write(split / name, tensors)
        index = {"metadata": {}, "weight_map": {tensor: name for name, part in parts.items() for tensor in part}}
        (split / "model.safetensors.index.json").write_text(json.dumps(index))
        for path in (split, split / "model.safetensors.index.json"):
            several = estimate(path, "--nproc", 4, "--json")
            self.assertEqual(several.stdout, one.stdout, several.stderr)

    def test_of_a_checkpoint_the_optimizer_does_not_count(self):
        step = self.folder / "step-00000007"
        step.mkdir()
        files = {"model.safetensors": {"net.weight": [30, 10]},
                 "optimizer.safetensors": {"net.weight.exp_avg": [30, 10], "net.weight.exp_avg_sq": [30, 10]}}
        told = []
        for name, tensors in files.items():
            write(step / name, tensors, dtype="F32", size=4)
            told.append({"name": name, "bytes": (step / name).stat().st_size,
                         "crc32c": {tensor: "00000000" for tensor in tensors}})
        (step / "dtrain.json").write_text(json.dumps({"format": "dtrain checkpoint", "version": 1, "step": 7,
                                                      "world_size": 2, "files": told}))
        for path in (step, self.folder):
            done = estimate(path, "--ranks", 2, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["parameters"], 300)

    def test_the_exit_code_says_whether_a_strategy_fits(self):
        self.assertEqual(estimate("--parameters", "7B", "--ranks", 64, "--memory", "80GB").returncode, 0)
        none = estimate("--parameters", "7B", "--ranks", 64, "--memory", "1GB")
        self.assertEqual(none.returncode, 1)
        self.assertIn("too large", none.stdout)

    def test_what_is_wrong_is_one_line(self):
        damaged = self.folder / "damaged.safetensors"
        damaged.write_bytes(b"\xff" * 20)
        numbers = self.folder / "numbers.safetensors"
        write(numbers, {"positions": [5]}, dtype="I64", size=8)
        for words, why in (((self.folder / "none", "--nproc", 2), "does not exist"),
                           ((damaged, "--nproc", 2), "damaged.safetensors: "),
                           ((numbers, "--nproc", 2), "has no parameters of a floating type"),
                           (("--nproc", 2), "name the files of a model"),
                           (("--parameters", "7B"), "say how many ranks there are")):
            done = estimate(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
