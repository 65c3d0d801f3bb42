#!/usr/bin/env python3
"""The Python package as a wheel brings it: with the sources of its extension, which it compiles when it is first used.

    test/process/packages/wheel_test.py BUILD PYTHON [-v] [Case.test]

BUILD is a build folder of dtrain's with the launcher, PYTHON one that has torch. What compiles the extension, and the
cases of Wheel, which are about the files that `make wheel` makes, take minutes: they run with DTRAIN_TEST_ALL=1 (make
test-packages).
"""
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEADLINE = 900
LOAD = "import dtrain; print(dtrain._extension.load().__file__)"
SUM = """
import dtrain, torch, torch.distributed as dist
dist.init_process_group("dtrain")
tensor = torch.full((1000,), float(dist.get_rank() + 1))
dist.all_reduce(tensor)
print("sum", tensor.unique().tolist())
dist.destroy_process_group()
"""
MOST_BYTES = 4 << 20
EPOCH = """
import dtrain, glob, sys
loader = dtrain.ParquetLoader(glob.glob("cache/*/train"), batch_size=64, rank=0, world_size=1)
print(sorted(value for batch in loader for value in batch["id"].tolist()) == list(range(1000)))
"""
SLOW = unittest.skipUnless(os.environ.get("DTRAIN_TEST_ALL") == "1", "takes minutes: make test-packages")


class Package(unittest.TestCase):
    """The package's files as they are installed, without pip."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.site = pathlib.Path(folder.name, "site")
        build = pathlib.Path(folder.name, "build")
        for command in (["cmake", "-S", ROOT, "-B", build, "-DDTRAIN_STRATEGIES=OFF", "-DDTRAIN_LAUNCHER=OFF",
                         "-DDTRAIN_TESTS=OFF", "-DDTRAIN_PYTHON_SOURCES=ON"],
                        ["cmake", "--install", build, "--component", "wheel", "--prefix", cls.site]):
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=DEADLINE)
        for package in (ROOT / "strategies/python/dtrain", ROOT / "data/python/dtrain_data"):
            for module in package.glob("*.py"):
                shutil.copy(module, cls.site / package.name)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"
        # Torch would load a dtrain of this tree by its entry point.
        self.env = {**os.environ, "PYTHONPATH": str(self.site), "TORCH_EXTENSIONS_DIR": str(self.cache),
                    "PYTHONDONTWRITEBYTECODE": "1"}
        self.env.pop("XDG_CACHE_HOME", None)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def python(self, text, **env):
        return subprocess.run([PYTHON, "-c", text], env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE)

    def fails(self, text, **env):
        done = self.python(text, **env)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.strip().partition("ImportError: ")[2]

    def kept(self):
        return sorted(str(path.relative_to(self.cache)) for path in self.cache.rglob("*") if path.is_file())

    @SLOW
    def test_the_ranks_of_a_job_compile_it_once_and_later_programs_do_not(self):
        job = [str(BUILD / "bin/dtrain"), "run", "--nproc", "2", self.program("sum.py", SUM)]
        lines = []
        for _ in range(2):
            done = subprocess.run(job, env={**self.env, "PYTHON_EXEC": PYTHON}, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.splitlines()), ["[0] sum [3.0]", "[1] sum [3.0]"])
            lines.append(re.findall(r"\[\d\] dtrain: (.*)", done.stderr))
        self.assertEqual(len(lines[0]), 2, lines)
        self.assertRegex(lines[0][0], r"compiling the backend for torch 2\.\S+, once: this takes a minute or two")
        self.assertRegex(lines[0][1], rf"compiled in \d+ s, kept in {self.cache}/dtrain/cpython-\S+")
        self.assertEqual(lines[1], [])
        self.assertEqual([pathlib.Path(name).name for name in self.kept()], ["_C.so", "lock"])

    def test_what_is_missing_is_named_with_what_to_do(self):
        self.assertRegex(self.fails(LOAD, CXX="nonesuch-g++ -g"),
                         r"^dtrain: there is no nonesuch-g\+\+ here, which CXX names\. Install one \(Debian and "
                         r"Ubuntu: apt-get install g\+\+; .*\), or set CXX$")
        self.assertRegex(self.fails(LOAD, CXX="", PATH="/nonesuch"), r"^dtrain: there is no c\+\+ here, which compiles")
        self.assertRegex(self.fails("import sysconfig; sysconfig.get_path = lambda name: '/nonesuch'; " + LOAD),
                         r"^dtrain: there is no /nonesuch/Python\.h, .* apt-get install python3-dev")
        self.assertRegex(self.fails("import torch; torch.__version__ = '2.9.1+cpu'; " + LOAD),
                         r"^dtrain: the backend needs torch 2\.11 or newer, and this is torch 2\.9\.1\. Install one: "
                         r"\S+ -m pip install 'torch>=2\.11'$")
        (self.folder / "file").touch()
        self.assertRegex(self.fails(LOAD, TORCH_EXTENSIONS_DIR=str(self.folder / "file")),
                         r"^dtrain: the backend cannot be compiled: .*Not a directory.*\. TORCH_EXTENSIONS_DIR names "
                         "another")

    def test_a_compiler_that_fails_is_shown_and_nothing_is_left(self):
        compiler = self.program("c++", "#!/bin/sh\necho words of the compiler >&2\nexit 1\n")
        said = self.fails(LOAD, CXX=compiler)
        self.assertRegex(said, r"^dtrain: the backend did not compile\. .*\n" + re.escape(compiler)
                         + r" -std=c\+\+20 .*\nwords of the compiler")
        self.assertEqual([pathlib.Path(name).name for name in self.kept()], ["lock"])

    def test_a_process_that_is_killed_while_it_compiles_is_in_nobodys_way(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        compiler = self.program("c++", f"#!/bin/sh\necho here >{fifo}\nexec sleep {DEADLINE}\n")
        first = subprocess.Popen([PYTHON, "-c", LOAD], env={**self.env, "CXX": compiler}, start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # It has the lock, and files that are not whole.
            self.assertTrue(select.select([reader], [], [], DEADLINE)[0])
        finally:
            os.killpg(first.pid, signal.SIGKILL)
            first.wait(DEADLINE)
        self.assertIn("did not compile", self.fails(LOAD, CXX="false"))
        self.assertEqual([pathlib.Path(name).name for name in self.kept()], ["lock"])

    def test_a_program_that_uses_another_backend_needs_no_compiler(self):
        done = self.python("import dtrain, torch.distributed as d; d.init_process_group('gloo', store=d.HashStore(), "
                           "rank=0, world_size=1)", CXX="nonesuch-g++")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(self.cache.exists())

    def test_it_is_compiled_with_the_definitions_of_torchs_wheel(self):
        cmake = (ROOT / "cmake/FindLibTorch.cmake").read_text()
        ours = re.search(r"LibTorch::headers INTERFACE\n\s+(USE_DISTRIBUTED[^)]*)\)", cmake)[1].split()
        self.assertEqual(self.python("import dtrain._build as b; print(*b.TORCH_DEFINITIONS)").stdout.split(), ours)

    def test_every_source_has_one_unit(self):
        sources = self.site / "dtrain/_sources"
        listed = [name for unit in json.loads((sources / "units.json").read_text()) for name in unit["sources"]]
        there = [str(path.relative_to(sources)) for path in sources.rglob("*.cc")]
        self.assertEqual(sorted(listed), sorted(there))
        self.assertEqual([path.name for path in (sources / "include").iterdir()], ["nlohmann"])

    def test_every_source_of_data_has_a_unit(self):
        """All of data/ but what is for C++ programs with torch."""
        sources = self.site / "dtrain_data/_sources"
        targets = json.loads((sources / "units.json").read_text())
        listed = [name for units in targets.values() for unit in units for name in unit["sources"]]
        there = {str(path.relative_to(sources)) for path in sources.rglob("*.cc")}
        self.assertEqual(set(listed), there)
        ours = {str(path.relative_to(ROOT)) for path in (ROOT / "data").rglob("*.cc")}
        for_torch = {name for name in ours if name.startswith(("data/torch/", "data/predict/"))}
        self.assertEqual(ours - there, for_torch)
        for path in [*sources.rglob("data/**/*.cc"), *sources.rglob("data/**/*.h")]:
            for name in re.findall(r'^#include "((?:data|strategies)/[^"]+)"', path.read_text(), re.MULTILINE):
                self.assertTrue((sources / name).exists(), f"{path} includes {name}")

    def test_a_python_without_arrow_is_told_what_to_do(self):
        text = "import sys; from dtrain_data import native; sys.argv = ['dtrain-data', 'cache']; native.main()"
        done = subprocess.run(["/usr/bin/python3", "-S", "-c", text], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual((done.returncode, done.stdout), (127, ""), done.stderr)
        self.assertRegex(done.stderr, r"^dtrain: dtrain-data needs Arrow, which pyarrow brings, and /usr/bin/python3 "
                                      r"has none: /usr/bin/python3 -m pip install 'pyarrow>=24'\n$")

    def test_the_program_ignores_no_signal_that_python_ignores(self):
        text = ("import sys; from dtrain_data import native; native.built = lambda name: '/bin/grep'; "
                "sys.argv = ['dtrain-data', 'SigIgn', '/proc/self/status']; native.main()")
        done = subprocess.run(["/usr/bin/python3", "-S", "-c", text], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=DEADLINE, check=True)
        ignored = int(done.stdout.split()[1], 16)
        self.assertEqual([number for number in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> number - 1 & 1], [])

    def test_a_signal_ends_what_compiles_for_it_too(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        # Whichever moment the signal finds: one program after the other is started, and many of them end at once.
        compiler = self.program("c++", f"#!/bin/sh\nexec 3>{fifo}\necho here >&3\nfor i in $(seq 300)\n"
                                       "do sleep 60 & /bin/true & /bin/true\ndone\nwait\nexit 1\n")
        program = subprocess.Popen([PYTHON, "-c", "from dtrain_data.native import main; main()"],
                                   env={**self.env, "CXX": compiler}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(fifo) as lines:
            self.assertEqual(lines.readline(), "here\n")
            program.terminate()
            self.assertEqual(program.wait(DEADLINE), -signal.SIGTERM)
            self.assertTrue(select.select([lines], [], [], 30)[0])
            self.assertEqual(set(lines.read().split()) - {"here"}, set())  # to its end: nobody has the FIFO any more

    @SLOW
    def test_data_are_prepared_and_read_by_what_it_compiles(self):
        programs = self.folder / "bin"
        programs.mkdir()
        shutil.copy(BUILD / "bin/dtrain", programs)
        self.program("bin/dtrain-data", f"#!{PYTHON}\nfrom dtrain_data.native import main\nmain()\n")
        prepare_and_read(self, programs / "dtrain", PYTHON, self.folder, self.env)
        self.assertEqual(sorted(pathlib.Path(name).name for name in self.kept()),
                         ["dtrain-data", "libdtrain_data.so", "lock"])


def prepare_and_read(case, dtrain, python, folder, env):
    """A table through `dtrain preprocess` into a cache, and from there through an epoch of dtrain.ParquetLoader."""
    (folder / "raw.csv").write_text("id,x\n" + "".join(f"{at},{at / 2}\n" for at in range(1000)))
    (folder / "job.yaml").write_text("dataset: {input: raw.csv, steps: [{normalize: {x: zscore}}]}\n"
                                     "backend: {cache_dir: cache}\n")
    for command in ([dtrain, "preprocess", "--config", "job.yaml", "--json"], [python, "-W", "ignore", "-c", EPOCH]):
        done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=DEADLINE)
        case.assertEqual(done.returncode, 0, done.stderr)
        case.assertRegex(done.stderr, r"(?m)^dtrain: compiling \S+ for pyarrow \S+, once: this takes a minute or two$")
    case.assertEqual(done.stdout, "True\n")


@SLOW
class Wheel(unittest.TestCase):
    """What `make wheel` made."""

    DIST = ROOT / "build/wheel/dist"

    @classmethod
    def setUpClass(cls):
        cls.wheel, = cls.DIST.glob("*.whl")
        cls.sdist, = cls.DIST.glob("*.tar.gz")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def says(self, *command, **more):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=self.folder, timeout=DEADLINE, text=True, **more)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_its_name_size_and_contents(self):
        self.assertRegex(self.wheel.name, r"^dtrain-\d+\.\d+\.\d+-py3-none-(manylinux_2_2\d_x86_64\.)?"
                         r"manylinux_2_28_x86_64\.whl$")
        self.assertLessEqual(self.wheel.stat().st_size, MOST_BYTES)
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            data = next(name for name in names if name.endswith(".data/scripts/dtrain")).removesuffix("scripts/dtrain")
            self.assertEqual(archive.read(data + "scripts/dtrain")[:4], b"\x7fELF")
            for name in ("man/man1/dtrain.1", "bash-completion/completions/dtrain", "zsh/site-functions/_dtrain",
                         "fish/vendor_completions.d/dtrain.fish", "dtrain/config.schema.json"):
                self.assertIn(f"{data}data/share/{name}", names)
            self.assertNotIn(data + "scripts/torchrun", names)
            info = next(name for name in names if name.endswith("METADATA"))
            self.assertEqual(re.findall(r"(?m)^Requires-Dist: (.*)", archive.read(info).decode()),
                             ['pyarrow>=24; extra == "data"'])
            entries = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
            self.assertIn("[torch.backends]\ndtrain = dtrain:_autoload", entries)

    def test_the_same_commit_gives_the_same_bytes(self):
        first = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.wheel, self.sdist)}
        other = self.folder / "another folder"
        self.says("git", "clone", "-q", ROOT, other)
        (other / ".venv-wheel").symlink_to(ROOT / ".venv-wheel")
        self.says(other / "scripts/wheel.sh")
        again = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                 for path in (other / "build/wheel/dist").iterdir()}
        self.assertEqual(again, first)

    def test_the_program_needs_an_old_c_library_and_nothing_else(self):
        with zipfile.ZipFile(self.wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".data/scripts/dtrain"))
            (self.folder / "dtrain").write_bytes(archive.read(name))
        needed = set(re.findall(r"NEEDED +(\S+)", self.says("objdump", "-p", "dtrain")))
        self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
                                      "ld-linux-x86-64.so.2"})
        versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", self.says("objdump", "-T", "dtrain"))
        self.assertLessEqual(max((int(major), int(minor)) for major, minor in versions), (2, 28))

    def test_its_extra_brings_what_prepares_and_reads_data(self):
        """With pyarrow from PyPI in a venv of its own; torch is the one of PYTHON."""
        self.says("/usr/bin/python3", "-m", "venv", "runs")
        self.says("runs/bin/pip", "install", f"{self.wheel}[data]")
        torch = self.says(PYTHON, "-c", "import torch; print(torch.__path__[0])").strip()
        site, = (self.folder / "runs/lib").glob("python*/site-packages")
        (site / "torch.pth").write_text(f"{pathlib.Path(torch).parent}\n")
        prepare_and_read(self, self.folder / "runs/bin/dtrain", self.folder / "runs/bin/python", self.folder,
                         {**os.environ, "XDG_CACHE_HOME": str(self.folder / "kept")})

    def test_the_sdist_builds_with_this_machines_compiler(self):
        """By pip, which takes its build tools from PyPI, in a venv that has nothing; then the wheel in another one."""
        clean = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX", "SOURCE_DATE_EPOCH")}
        for venv in ("builds", "runs"):
            self.says("/usr/bin/python3", "-m", "venv", venv)
        self.says("builds/bin/pip", "wheel", "--no-deps", "--wheel-dir", "made", self.sdist, env=clean)
        made, = (self.folder / "made").iterdir()
        self.says("runs/bin/pip", "install", "--no-index", made)
        self.assertRegex(self.says("runs/bin/dtrain", "--version"), r"^dtrain \d+\.\d+\.\d+")
        self.says("runs/bin/dtrain", "run", "--nproc", "2", "true")


if __name__ == "__main__":
    BUILD, PYTHON = pathlib.Path(sys.argv.pop(1)).resolve(), os.path.abspath(sys.argv.pop(1))
    unittest.main()
