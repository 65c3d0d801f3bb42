"""Checkpoints that are damaged: each file is told by its name, and the step before is loaded. If none is left, no rank
begins anew, but where only unfinished saves are."""
import os
import re
import shutil
import unittest

from checkpoint_cases import Case, call, ckpt, said, told

LAST = "step-00000005"
BEFORE = "step-00000004"


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def cut(path, bytes=1):
    os.truncate(path, os.path.getsize(path) - bytes)


# What is done to a file, and what is said of it.
DAMAGE = {
    "bit": (lambda path: flip(path, -1), " is damaged: the crc32c of [a-zA-Z_.0-9]+ is [0-9a-f]{8}, and should be"),
    "header": (lambda path: flip(path, 8), " is damaged: its header does not begin with {"),
    "cut": (cut, " has [0-9]+ bytes, and should have [0-9]+"),
    "gone": (os.remove, " cannot be opened: No such file"),
}
DAMAGE_OF_MANIFEST = {
    "bit": (lambda path: flip(path, -1), ": its JSON is damaged"),
    "cut": (lambda path: cut(path, 2), ": its JSON is damaged"),
    "gone": DAMAGE["gone"],
}


class Damage(Case):
    def setUp(self):
        super().setUp()
        self.save(2, "step=4")
        self.save(2, "step=5")
        self.file = os.path.join(self.folder, LAST, "model.safetensors")

    def check(self, pattern, *words):
        done = call(3, "load", self.folder, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for text in said(done).values():
            self.assertRegex(text, 'loaded 4 {"at":40} of 2 skipped .*' + pattern)
        self.refused(call(3, "load", self.folder, "strict", *words), ".*" + pattern, 3)
        told = ckpt("verify", os.path.join(self.folder, LAST))
        self.assertEqual(told.returncode, 1, told.stdout + told.stderr)
        return told.stdout + told.stderr

    def test_a_file_that_was_cut(self):
        os.truncate(self.file, os.path.getsize(self.file) - 1)
        self.assertIn("model.safetensors", self.check("model.safetensors has [0-9]+ bytes, and should have"))

    def test_a_file_that_is_gone(self):
        os.remove(self.file)
        self.check("model.safetensors cannot be opened: No such file")

    def test_a_bit_that_was_flipped(self):
        flip(self.file, -1000)
        done = call(2, "load", self.folder, "unverified")
        self.assertIn("wrong values of", said(done)[0] + said(done)[1], "without verify it is not seen")
        self.assertIn("embed.weight", self.check("crc32c of embed.weight is"))

    def test_a_header_that_was_damaged(self):
        with open(self.file, "r+b") as file:
            file.seek(8)
            file.write(b"[")
        self.check("model.safetensors is damaged: its header does not begin with {")

    def test_a_manifest_that_was_damaged(self):
        with open(os.path.join(self.folder, LAST, "dtrain.json"), "r+b") as file:
            file.write(b"[")
        self.check("dtrain.json")


class EachFile(Case):
    def saved(self, folder, *words):
        for step in (4, 5):
            done = call(2, "save", folder, f"step={step}", *words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return sorted(name for name in os.listdir(os.path.join(folder, LAST)) if not name.endswith(".index.json"))

    def test_each_file_is_told_by_its_name_and_the_step_before_is_loaded(self):
        cases, found = {}, set()
        for words in ([], ["most=1800"]):
            run = self.folder + "".join(["-", *words])
            files = self.saved(run, *words)
            found.update(files)
            for file in files:
                for how, (damage, said_of_it) in (DAMAGE_OF_MANIFEST if file == "dtrain.json" else DAMAGE).items():
                    if (name := f"{file}-{how}") in cases:
                        continue  # dtrain.json of the second run
                    shutil.copytree(run, os.path.join(self.folder, name))
                    damage(os.path.join(self.folder, name, LAST, file))
                    cases[name] = (file, how, re.escape(os.path.join(self.folder, name, LAST, file)) + said_of_it)
        self.assertEqual(found, {"dtrain.json", "model.safetensors", "optimizer.safetensors",
                                 *(f"{half}-0000{i}-of-00002.safetensors" for half in ("model", "optimizer")
                                   for i in (1, 2))})
        self.assertEqual(len(cases), 6 * 4 + 3)
        for strict in ([], ["strict"]):
            texts = told(call(3, "load-each", self.folder, *strict), 3)
            for name, (file, how, pattern) in cases.items():
                with self.subTest(name, strict=bool(strict)):
                    begin = "^dtrain: [^|]*" if strict else r'^loaded 4 {"at":40} of 2 skipped [^|]*'
                    self.assertRegex(texts[name]["load"], begin + pattern + "[^|]*$")
                    seen = file == "dtrain.json" or how in ("cut", "gone")  # without reading tensors
                    self.assertEqual(texts[name]["latest"], "4" if seen else "5")
        for name, (file, how, _) in cases.items():
            if (file, how) == ("dtrain.json", "gone"):
                continue  # then it is a folder of plain safetensors files
            with self.subTest(name):
                done = ckpt("verify", os.path.join(self.folder, name, LAST))
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn(file, done.stdout + done.stderr)


class NothingLeft(Case):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder + "-undamaged"
        for step in (4, 5):
            call(2, "save", self.run_folder, f"step={step}")

    def each(self, name, change):
        """Both steps, changed."""
        folder = os.path.join(self.folder, name)
        shutil.copytree(self.run_folder, folder)
        for step in (BEFORE, LAST):
            change(os.path.join(folder, step))

    def listed(self):
        return sorted(os.path.join(folder, name) for folder, folders, files in os.walk(self.folder)
                      for name in [*folders, *files])

    def test_damage_of_all_steps_is_an_error_that_names_them(self):
        def link(step):
            shutil.rmtree(step)
            os.symlink("/nowhere/" + os.path.basename(step), step)
        whys = {"cut": (lambda step: cut(step + "/model.safetensors"), "/model.safetensors has "),
                "gone": (lambda step: os.remove(step + "/optimizer.safetensors"), "/optimizer.safetensors cannot be "),
                "manifest": (lambda step: os.truncate(step + "/dtrain.json", 20), "/dtrain.json: its JSON is damaged"),
                "empty-manifest": (lambda step: os.truncate(step + "/dtrain.json", 0), "/dtrain.json: "),
                "no-manifest": (lambda step: os.remove(step + "/dtrain.json"), "/dtrain.json cannot be opened: No "),
                "links": (link, "/dtrain.json cannot be opened: No such"),
                "bits": (lambda step: flip(step + "/optimizer.safetensors", -1), "/optimizer.safetensors is damaged: ")}
        for name, (change, _) in whys.items():
            self.each(name, change)
        before = self.listed()
        texts = told(call(3, "load-each", self.folder), 3)
        self.assertEqual(sorted(texts), sorted([*whys, "none"]))
        for name, (_, why) in whys.items():
            folder = os.path.join(self.folder, name)
            with self.subTest(name):
                self.assertRegex(texts[name]["load"], "^dtrain: " + re.escape(folder) + " has no checkpoint that can "
                                 "be loaded: .*" + re.escape(f"{folder}/{LAST}{why}") + ".*; .*" +
                                 re.escape(f"{folder}/{BEFORE}{why}") + ".* Put an undamaged copy of one in its place; "
                                 "or, to begin anew, move these away or name another folder$")
                if name == "bits":  # which latest() does not read
                    self.assertEqual((texts[name]["latest"], texts[name]["undamaged"]), ("5", "5"))
                else:
                    self.assertEqual((texts[name]["latest"], texts[name]["undamaged"]), (texts[name]["load"], "-1"))
        self.assertEqual(self.listed(), before)

    def test_what_is_unfinished_is_nothing(self):
        os.makedirs(os.path.join(self.folder, "empty"))
        self.each("whole-attempts", lambda step: os.rename(step, step + ".tmp-12-0"))
        self.each("put-away", lambda step: os.rename(step, step + ".tmp-12-old"))
        self.each("others", lambda step: os.rename(step, step.replace("step-0", "step-")))
        for name, file in (("no-header", "model.safetensors"), ("no-manifest", "dtrain.json")):
            self.each(name, lambda step, file=file: (os.truncate(f"{step}/{file}", 0),
                                                     os.rename(step, step + ".tmp-12-0")))
        texts = told(call(3, "load-each", self.folder), 3)
        self.assertEqual(len(texts), 7)
        for name, text in texts.items():
            with self.subTest(name):
                error = f"dtrain: {self.folder}/{name} has no checkpoint that can be loaded"
                self.assertEqual(text, {"latest": "-1", "undamaged": "-1", "load": error})


if __name__ == "__main__":
    unittest.main()
