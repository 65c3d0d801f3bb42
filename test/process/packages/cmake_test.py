#!/usr/bin/env python3
"""The library as a project outside of the tree uses it: installed, and as a folder of that project. No options are set.

    test/process/packages/cmake_test.py BUILD [-v] [Case.test]

BUILD is a build folder of dtrain's with library and launcher. The cases of All take minutes: they compile the library
within the other project, with other compilers and configurations. They are run with DTRAIN_TEST_ALL=1 (make
test-packages).
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEADLINE = 1500
# Compilers do not warn of it by themselves, and dtrain's own sources may not have it.
CARELESS = """
#include <vector>
int careless(int argc, const std::vector<int>& values) {
  int sum = 0;
  for (int i = 0; i < values.size(); ++i) { int sum = values[i]; (void)sum; }
  return sum;
}
"""
SUBDIRECTORY = f"""
cmake_minimum_required(VERSION 3.25)
project(outer LANGUAGES CXX)
add_subdirectory({ROOT} dtrain)
add_executable(train train.cc careless.cc)
target_link_libraries(train PRIVATE dtrain::strategies)
"""
PREDICT_MAIN = ("_ZN6dtrain12predict_mainEiPPcRKSt8functionIFNS_9PredictorERKSt6vectorINSt7__cxx1112basic_stringIcSt11"
                "char_traitsIcESaIcEEESaISA_EEEE")
LOADS = f"""
cmake_minimum_required(VERSION 3.25)
project(loads LANGUAGES CXX)
find_package(dtrain REQUIRED COMPONENTS data)
add_executable(loads loads.cc)
target_link_libraries(loads PRIVATE dtrain::data)
target_link_options(loads PRIVATE LINKER:-u,_ZN6dtrain13ParquetLoaderC1ENS_20ParquetLoaderOptionsE
  LINKER:-u,{PREDICT_MAIN})
"""
OPTIONS = """
#include <cstdio>
#include "dtrain/parquet_options.h"
int main() {
  const auto options = dtrain::ParquetLoaderOptions::from_environment();
  std::printf("%s %lld\\n", options.paths.at(0).c_str(), static_cast<long long>(options.window_size_bytes));
}
"""
FETCHED = f"""
include(FetchContent)
FetchContent_Declare(dtrain SOURCE_DIR {ROOT})
FetchContent_MakeAvailable(dtrain)
"""


def has_data():
    return (BUILD / "package/dtrainDataConfig.cmake").exists()


class Project(unittest.TestCase):
    """A copy of examples/minimal in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.project, self.out = self.folder / "project", self.folder / "out"
        shutil.copytree(ROOT / "examples/minimal", self.project)
        self.write("careless.cc", CARELESS)

    def write(self, name, text):
        (self.project / name).write_text(text)

    def says(self, *command, code=0):
        # What chooses a compiler, a torch or flags is the test's.
        chosen = re.compile(r"(C(XX|C|XXFLAGS|ONDA_PREFIX|MAKE_\w+)|LDFLAGS|VIRTUAL_ENV|(LibTorch|Torch|dtrain)_\w+)$")
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=self.folder, timeout=DEADLINE, text=True,
                              env={name: value for name, value in os.environ.items() if not chosen.match(name)})
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def configure(self, *args, code=0):
        return self.says("cmake", "-S", self.project, "-B", self.out, *args, code=code)

    def build_and_train(self):
        self.assertNotIn("warning", self.says("cmake", "--build", self.out, "-j", str(os.cpu_count())))
        self.train(self.out / "train")

    def train(self, program):
        alone = self.says(program)
        self.assertRegex(alone, r"(?s)^epoch 0: loss \d+\.\d+\n.*epoch 4: loss 0\.0000\n$")
        for strategy in "ddp", "zero1", "zero2", "fsdp":
            both = self.says(BUILD / "bin/dtrain", "run", "--nproc", "2", "--strategy", strategy, program)
            for line in alone.splitlines():
                self.assertIn(f"[0] {line}\n", both)


class Prefix(Project):
    """dtrain is installed into an empty prefix."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name) / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], stdout=subprocess.DEVNULL, check=True,
                       timeout=DEADLINE)
        cls.found = f"-Ddtrain_ROOT={cls.prefix}"

    def configure_with_careless(self, *args):
        self.write("CMakeLists.txt", (self.project / "CMakeLists.txt").read_text()
                   + "target_sources(train PRIVATE careless.cc)\n")
        self.assertNotIn("Warning", self.configure(self.found, *args))


class Installed(Prefix):
    def test_find_package(self):
        self.configure_with_careless(f"-DLibTorch_ROOT={TORCH}")
        self.build_and_train()

    def test_what_is_installed(self):
        files = [path.relative_to(self.prefix) for path in self.prefix.rglob("*") if path.is_file()]
        headers = {path.name for path in files if path.suffix == ".h"}
        there = [*(ROOT / "strategies/include/dtrain").iterdir()]
        if has_data():
            there += (ROOT / "data/include/dtrain").iterdir()
        self.assertEqual(headers, {path.name for path in there} - {"parquet_loader_c.h", "mixture_loader_c.h"})
        self.assertIn(pathlib.Path("bin/dtrain"), files)
        for path in files:
            if path.suffix in (".cmake", ".pc", ".h"):
                text = (self.prefix / path).read_text()
                for place in (str(BUILD), str(ROOT) + "/strategies", "nlohmann", "fmt::", "-Werror"):
                    self.assertNotIn(place, text, path)

    def test_find_package_with_data(self):
        """A loader's options are quick to compile; its constructor is linked by its name, and needs torch and Arrow."""
        if not has_data():
            self.skipTest("built without Arrow")
        self.write("CMakeLists.txt", LOADS)
        self.write("loads.cc", OPTIONS)
        self.configure(self.found, f"-DLibTorch_ROOT={TORCH}", f"-DArrowWheel_ROOT={TORCH.parent}/pyarrow")
        self.says("cmake", "--build", self.out)
        said = self.says("env", "DTRAIN_DATASET=clicks", 'DTRAIN_LOADER={"window_size_bytes": 7}', self.out / "loads")
        self.assertEqual(said, "clicks 7\n")
        shutil.rmtree(self.out)
        said = " ".join(self.configure(self.found, f"-DLibTorch_ROOT={TORCH}", "-DDTRAIN_TORCH_PYTHON=/bin/false",
                                       f"-DArrowWheel_ROOT={self.folder}", code=1).split())
        self.assertRegex(said, r"dtrain::data needs Arrow \d+\.\d+\. `pip install pyarrow`")
        self.write("CMakeLists.txt", LOADS.replace("data)", "other)", 1))
        said = " ".join(self.configure(self.found, f"-DLibTorch_ROOT={TORCH}", code=1).split())
        self.assertIn("dtrain has no component other; it has data.", said)

    def test_the_demo_waits_for_no_more_than_its_example_needs(self):
        inputs = self.says("ninja", "-C", BUILD, "-t", "inputs", "bin/train")
        self.assertIn("libdtrain_parallel.a", inputs)
        for part in ("strategies", "shards"):
            self.assertNotIn(f"libdtrain_{part}.a", inputs)

    def test_a_torch_of_another_version_is_refused(self):
        other = self.folder / "torch"
        shutil.copytree(TORCH / "include/torch/headeronly", other / "include/torch/headeronly")
        (other / "lib").symlink_to(TORCH / "lib")
        header = other / "include/torch/headeronly/version.h"
        header.write_text(re.sub(r"(TORCH_VERSION_MINOR) \d+", r"\1 4", header.read_text()))
        said = " ".join(self.configure(self.found, f"-DLibTorch_ROOT={other}", code=1).split())
        self.assertRegex(said, r"this dtrain was compiled with torch \d+\.\d+, and \S+/torch is torch \d+\.4\.\d+\. "
                         r"Choose a torch \d+\.\d+ \(for example -DLibTorch_ROOT=\.\.\.\), or build dtrain")

    def test_without_torch(self):
        said = " ".join(self.configure(self.found, "-DDTRAIN_TORCH_PYTHON=/usr/bin/python3", code=1).split())
        self.assertRegex(said, r"dtrain needs LibTorch \d+\.\d+\. /usr/bin/python3 has no torch wheel\. `pip install "
                         r"torch` into a virtual environment and activate it, or choose one: -DLibTorch_ROOT")

    def test_how_torch_is_found(self):
        python = TORCH.parents[3] / "bin/python"
        for how in (f"-DTorch_ROOT={TORCH}", f"-DTorch_DIR={TORCH}/share/cmake/Torch",
                    f"-DCMAKE_PREFIX_PATH={TORCH}/share/cmake", f"-DCMAKE_PREFIX_PATH={TORCH}",
                    f"-DDTRAIN_TORCH_PYTHON={python}"):
            self.configure(self.found, how)
            shutil.rmtree(self.out)


class Folder(Project):
    def test_add_subdirectory(self):
        self.write("CMakeLists.txt", SUBDIRECTORY)
        said = self.configure(f"-DLibTorch_ROOT={TORCH}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        self.assertNotIn("Warning", said)
        # Its targets are the library's, and none has a name that a user's may have.
        targets = set(re.findall(r"(?m)^\.\.\. (\w+)$", self.says("cmake", "--build", self.out, "--target", "help")))
        ours = {name for name in targets if name.startswith("dtrain")}
        self.assertEqual(targets - ours - {"all", "clean", "depend", "edit_cache", "rebuild_cache", "train"}, set())
        self.assertLessEqual({"dtrain_strategies", "dtrain_parallel", "dtrain_data_parallel"}, ours)
        # The user's sources are compiled as the user wants.
        commands = json.loads((self.out / "compile_commands.json").read_text())
        theirs = [entry["command"] for entry in commands if entry["file"].endswith("project/careless.cc")]
        self.assertEqual(len(theirs), 1)
        self.assertNotRegex(theirs[0], r"-W|_GLIBCXX_ASSERTIONS|-fno-strict|-fPIC|pch")
        self.assertIn("-std=gnu++20", theirs[0])


@unittest.skipUnless(os.environ.get("DTRAIN_TEST_ALL") == "1", "takes minutes: make test-packages")
class All(Prefix):
    def test_find_package_with_clang_and_optimised(self):
        self.configure_with_careless(f"-DLibTorch_ROOT={TORCH}", "-DCMAKE_CXX_COMPILER=clang++",
                                     "-DCMAKE_BUILD_TYPE=Release")
        self.build_and_train()

    def test_pkg_config(self):
        environment = f"PKG_CONFIG_PATH={next(self.prefix.rglob('pkgconfig'))}"
        flags = self.says("env", environment, "pkg-config", f"--define-variable=torch={TORCH}", "--cflags", "--libs",
                          "dtrain").split()
        program = self.folder / "train"
        self.says("g++", self.project / "train.cc", "-o", program, *flags)
        self.train(program)

    def test_add_subdirectory(self):
        for args in ([], ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_COMPILER=clang++"]):
            with self.subTest(args):
                self.write("CMakeLists.txt", SUBDIRECTORY)
                self.configure(f"-DLibTorch_ROOT={TORCH}", *args)
                self.build_and_train()
                shutil.rmtree(self.out)

    def test_fetch_content(self):
        text = (self.project / "CMakeLists.txt").read_text()
        self.write("CMakeLists.txt", text.replace("find_package(dtrain REQUIRED)\n", FETCHED))
        self.configure(f"-DLibTorch_ROOT={TORCH}", "-DCMAKE_BUILD_TYPE=Release")
        self.build_and_train()


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    # The torch that it was made with.
    TORCH = pathlib.Path(re.search("(?m)^torch=(.+)$", (BUILD / "package/dtrain.pc").read_text())[1])
    unittest.main()
