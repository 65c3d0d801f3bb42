#!/usr/bin/env python3
"""scripts/tidy.py finds a breach of each of its rules about rooms, and nothing in a tree that keeps them."""
import contextlib
import io
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import rooms  # noqa: E402
import tidy  # noqa: E402

HEADER = "#pragma once\n// What this file is for.\n"


def including(*names, first=HEADER):
    return first + "".join(f'#include "{name}"\n' for name in names)


class Tidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-tidy-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write({
            "rendezvous/base/result.h": HEADER,
            "rendezvous/net/dial.h": including("rendezvous/base/result.h"),
            "rendezvous/tls/link_socket.h": HEADER,
            "launcher/base/text.h": HEADER,
            "launcher/job/group_core.h": including("launcher/base/text.h", "rendezvous/rounds/messages.h"),
            "launcher/job/group_core.cc": '#include "launcher/job/group_core.h"\n',
            "launcher/process/spawn.h": including("launcher/job/group_core.h", "<sys/wait.h>"),
            "rendezvous/rounds/messages.h": HEADER,
            "cli/main.cc": including("cli/base/fail.h", "launcher/job/group_core.h", first="// Commands.\n"),
            "cli/base/fail.h": HEADER,
            "strategies/include/dtrain/errors.h": HEADER,
            "strategies/comm/base/failure.h": including("dtrain/errors.h"),
            "strategies/comm/memory/arena.h": including("strategies/comm/base/failure.h"),
            "test/unit/launcher/job/group_core_test.cc": "",
            "test/unit/launcher/CMakeLists.txt": "job/group_core_test.cc\n",
        })

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(re.sub('"(<[^"]*>)"', r"\1", text))

    def breaches(self, files=None):
        """What tidy says of the tree with these files in it, without the last line."""
        self.write(files or {})
        said = io.StringIO()
        with mock.patch.object(tidy, "ROOT", self.root), contextlib.redirect_stdout(said):
            code = tidy.main([])
        lines = said.getvalue().splitlines()[:-1]
        self.assertEqual(code, 1 if lines else 0)
        return lines

    def assert_one(self, lines, *parts):
        self.assertEqual(len(lines), 1, lines)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_a_tree_that_keeps_the_rules(self):
        self.assertEqual(self.breaches(), [])

    def test_an_include_of_a_folder_above(self):
        self.assert_one(self.breaches({"launcher/base/up.h": including("cli/base/fail.h")}),
                        "launcher/base/up.h:3:", "launcher/ may include rendezvous, not cli/")

    def test_a_file_without_a_room(self):
        self.assert_one(self.breaches({"launcher/stray.h": HEADER}),
                        "launcher/stray.h:1:", "launcher/ is no room", "scripts/rooms.py")
        (self.root / "launcher/stray.h").unlink()
        self.assert_one(self.breaches({"launcher/attic/stray.h": HEADER}), "launcher/attic/ is no room")

    def test_an_include_of_a_room_above(self):
        self.assert_one(self.breaches({"launcher/job/up.h": including("launcher/process/spawn.h")}),
                        "launcher/job/up.h:3:", "launcher/job/ may include launcher/base, not launcher/process/")
        (self.root / "launcher/job/up.h").unlink()
        self.assert_one(self.breaches({"strategies/comm/base/up.h": including("strategies/comm/memory/arena.h")}),
                        "strategies/comm/base/ may include nothing else, not strategies/comm/memory/")

    def test_an_include_of_a_room_that_is_not_in_the_list(self):
        self.assert_one(self.breaches({"launcher/output/pipe.h": including("launcher/status/report.h")}),
                        "launcher/output/ may include launcher/base, launcher/job, launcher/process, "
                        "launcher/terminal, not launcher/status/")

    def test_an_include_behind_the_face_of_a_lower_folder(self):
        self.assert_one(self.breaches({"launcher/hosting/deep.h": including("rendezvous/tls/link_socket.h")}),
                        "launcher/hosting/deep.h:3:", "launcher/ does not see rendezvous/tls/")

    def test_a_room_that_is_too_full(self):
        files = {f"launcher/output/part{i}.h": HEADER for i in range(rooms.ROOM_FILES_MAX)}
        files["launcher/output/CMakeLists.txt"] = "\n"
        self.assertEqual(self.breaches(files), [])
        self.assert_one(self.breaches({"launcher/output/more.h": HEADER}), "launcher/output:1:", "split it")

    def test_effects_where_decisions_are_made(self):
        for name, first in [("launcher/job/facts.h", HEADER),  # by its room
                            ("launcher/process/sweep_plan.h", HEADER),  # by its name
                            ("launcher/process/facts.h", "#pragma once\n// Facts. Pure.\n")]:  # by its word
            with self.subTest(name):
                self.assert_one(self.breaches({name: including("<sys/socket.h>", first=first)}),
                                f"{name}:3:", "<sys/socket.h> in a file that only decides")
                self.assert_one(self.breaches({name: first + "inline auto now() { return SteadyClock().now(); }\n"}),
                                f"{name}:3:", "SteadyClock in a file that only decides")
                self.assertEqual(self.breaches({name: including("<sys/types.h>", first=first)}), [])
        self.write({"launcher/process/facts.cc": including("<sys/socket.h>", first="")})
        self.assert_one(self.breaches(), "launcher/process/facts.cc:1:")  # its header has given its word

    def test_effects_where_nothing_is_promised(self):
        self.assertEqual(self.breaches({"launcher/process/facts.h": including("<sys/socket.h>")}), [])

    def test_a_decision_without_a_test(self):
        name, test = "launcher/job/rank_set.cc", "test/unit/launcher/job/rank_set_test.cc"
        self.assert_one(self.breaches({name: "// Ranks.\n"}), f"{name}:1:", f"no test: write {test}")
        self.assert_one(self.breaches({name: "// Ranks. Tested by test/sim/ranks.cc.\n"}),
                        "tested by test/sim/ranks.cc, which does not exist")
        self.assertEqual(self.breaches({"test/sim/ranks.cc": ""}), [])
        listed = {"test/unit/launcher/CMakeLists.txt": "job/group_core_test.cc job/rank_set_test.cc\n"}
        self.assertEqual(self.breaches({name: "// Ranks.\n", test: "", **listed}), [])

    def test_a_word_in_the_header_counts_for_the_source(self):
        self.assertEqual(self.breaches({
            "launcher/job/rank_set.h": "#pragma once\n// Ranks. Tested by test/sim/ranks.cc.\n",
            "launcher/job/rank_set.cc": '#include "launcher/job/rank_set.h"\n',
            "test/sim/ranks.cc": ""}), [])


    def test_a_test_that_nobody_runs(self):
        self.assertEqual(self.breaches({
            "test/unit/launcher/job/rank_set_test.cc": "", "test/process/CMakeLists.txt": "foreach(name stop rounds)\n",
            "test/process/stop_test.py": "", "test/process/fence_test.py": ""}),
            ["test/process/fence_test.py:1: no CMakeLists.txt names this test; add it to the nearest one above",
             "test/unit/launcher/job/rank_set_test.cc:1: no CMakeLists.txt names this test; add it to the nearest one "
             "above"])

    def test_what_the_library_throws_says_whose_it_is(self):
        lines = self.breaches({
            "strategies/comm/base/failure.cc": '#include "strategies/comm/base/failure.h"\n'
            'void f() {\n  throw std::runtime_error("for the room above");\n'
            '  throw ConfigError(\n      fmt::format("RANK={} is none; correct it", 1));\n'
            '  TORCH_CHECK(name == "world", "dtrain: \'", name, "\' is no group");\n'
            '  throw ConfigError(complaint);\n}\n',
            "strategies/session/session.cc": '// Joining.\nvoid g() { throw std::runtime_error("no store"); }\n'})
        self.assertEqual(lines, [
            "strategies/comm/base/failure.cc:4: ConfigError: its text begins with 'dtrain: '",
            "strategies/session/session.cc:2: std::runtime_error: its text begins with 'dtrain: '"])

    def test_sources_that_are_compiled_as_one_have_names_of_their_own(self):
        def source(text):
            says = "// A. Tested by test/unit/launcher/job/group_core_test.cc.\n"
            return says + "int outside();\nnamespace {\n" + text + "}  // namespace\n"
        lines = self.breaches({
            "launcher/CMakeLists.txt": "dtrain_add_library(dtrain_launcher SOURCES job/a.cc job/b.cc)\n"
                                       "dtrain_add_library(dtrain_other\n  SOURCES job/c.cc)\n",
            "launcher/job/a.cc": source("using Json = one::json;\nconstexpr int kMost = 3;\n"
                                        "int f(int a) {\n  int inside = 0;\n}\n"),
            "launcher/job/b.cc": source("using Json = one::json;\nconstexpr long kMost{4};\n"
                                        "void f() {\n  int inside = 0;\n}\nstruct G {};\n"),
            "launcher/job/c.cc": source("using Json = two::json;\nvoid f();\n")})
        self.assertEqual(lines, [
            "launcher/job/b.cc:1: 'kMost' has a namesake in launcher/job/a.cc, with which it is compiled as one",
            "launcher/job/b.cc:1: 'f' has a namesake in launcher/job/a.cc, with which it is compiled as one"])


class RoomTable(unittest.TestCase):
    def test_a_circle_cannot_be_written_down(self):
        with mock.patch.object(rooms, "ROOMS", {"cli": {"one": "two", "two": "one"}}):
            with self.assertRaisesRegex(ValueError, "cli/one may include two"):
                rooms.table()
            report = tidy.Report()
            self.assertEqual(tidy.read_room_table(report), {})
            self.assertIn("move that room up", report.breaches[0])

    def test_every_room_is_there_and_in_the_architecture(self):
        text = (ROOT / "docs/architecture.md").read_text()
        rows = dict(re.findall(r"(?m)^\| ([\w/]+) \| [^|]* \|( [^|]* | )\|$", text))
        for folder, names in rooms.ROOMS.items():
            for name, allowed in names.items():
                with self.subTest(f"{folder}/{name}"):
                    self.assertTrue((ROOT / folder / name).is_dir())
                    self.assertEqual(rows.get(f"{folder}/{name}", "").replace(",", "").split(), allowed.split())
                    self.assertIn(f"{folder}/{name}", rows)


if __name__ == "__main__":
    unittest.main()
