#!/usr/bin/env python3
"""The Debian packages dtrain and libdtrain-dev: what `make deb` packs, installed into a bare Debian 12 and purged.

    test/process/packages/deb_test.py BUILD PYTHON [-v] [Case.test]

BUILD is a build folder of dtrain's with launcher and library, PYTHON one that has the torch of that build. The packages
are made anew. Needs root, and the mirror of this machine. Takes minutes: run with DTRAIN_TEST_ALL=1 (make
test-packages).
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from bare_system import ROOT, BareSystem, said_by

# What lintian may say, and why it stays.
TOLERATED = {
    "W: libdtrain-dev: pkg-config-unavailable-for-cross-compilation":
        "the libraries are in /usr/lib, as `make install` has them in PREFIX/lib; there is one architecture",
}
MAINTAINER = "A Packager <packager@example.org>"
MOST_BYTES = {"dtrain": 4 << 20, "libdtrain-dev": 4 << 20}
# What apt and dpkg write for themselves, whatever is installed.
OF_APT = re.compile(r"var/(cache|log|lib/apt)(/|$)|var/lib/dpkg$|var/lib/dpkg/(status|available)(-old)?$|"
                    r"var/lib/dpkg/(lock|info$|triggers|updates|diversions|alternatives$)|etc/ld\.so\.cache$")
FILES = ["usr/bin/dtrain", "usr/share/man/man1/dtrain.1.gz", "usr/share/bash-completion/completions/dtrain",
         "usr/share/zsh/vendor-completions/_dtrain", "usr/share/fish/vendor_completions.d/dtrain.fish",
         "usr/share/dtrain/config.schema.json",
         "usr/share/doc/dtrain/copyright", "usr/share/doc/dtrain/changelog.gz"]


def field(package, name):
    return said_by(["dpkg-deb", "--field", package, name]).strip()


def names_of(depends):
    """Packages of a Depends, each without its version."""
    return {entry.split()[0] for entry in depends.split(",") if entry.strip()}


@unittest.skipUnless(os.environ.get("DTRAIN_TEST_ALL") == "1", "takes minutes: make test-packages")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        said_by(["cpack", "--config", "CPackConfig.cmake", "-B", cls.folder / "made"], cwd=BUILD,
                env={**os.environ, "DEBFULLNAME": "A Packager", "DEBEMAIL": "packager@example.org"})
        cls.launcher, = (cls.folder / "made").glob("dtrain_*.deb")
        cls.library, = (cls.folder / "made").glob("libdtrain-dev_*.deb")


class Files(Packages):
    """The packages themselves."""

    def test_names_and_sizes(self):
        version = re.search(r"project\(dtrain VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        for package, name in ((self.launcher, "dtrain"), (self.library, "libdtrain-dev")):
            self.assertEqual(package.name, f"{name}_{version}_amd64.deb")
            self.assertEqual(field(package, "Package"), name)
            self.assertEqual(field(package, "Maintainer"), MAINTAINER)
            self.assertLess(package.stat().st_size, MOST_BYTES[name])

    def test_depends_is_what_the_program_is_linked_with(self):
        program = self.unpacked(self.launcher) / "usr/bin/dtrain"
        needed = re.findall(r"NEEDED\s+(\S+)", said_by(["objdump", "-p", program]))
        self.assertIn("libc.so.6", needed)
        depends = field(self.launcher, "Depends")
        packages = set()
        for library in needed:
            found = re.findall(r"(?m)^([\w.+-]+)(?::\w+)?: ", said_by(["dpkg-query", "--search", f"*/{library}"]))
            self.assertTrue(set(found) & names_of(depends), f"{library} is of {found}: {depends}")
            packages |= set(found)
        self.assertLessEqual(names_of(depends), packages)
        # The version is that of the newest symbol in use.
        newest = max(tuple(int(part) for part in version.split("."))
                     for version in re.findall(r"GLIBC_([\d.]+)\)?\s", said_by(["objdump", "-T", program])))
        self.assertRegex(depends, rf"libc6 \(>= {'.'.join(map(str, newest))}\)")

    def test_lintian(self):
        said = said_by(["lintian", "--allow-root", "--no-cfg", "--fail-on", "none", "--tag-display-limit", "0",
                        self.launcher, self.library])
        tags = set(re.findall(r"(?m)^([EW]: \S+: \S+)", said))
        self.assertEqual(tags, set(TOLERATED), said)

    def unpacked(self, package):
        there = self.folder / package.name.removesuffix(".deb")
        if not there.exists():
            said_by(["dpkg-deb", "--extract", package, there])
        return there


class InABareSystem(Packages):
    """Installed by apt, with what apt installs for them, used, and purged."""

    def setUp(self):
        self.bare = self.enterContext(BareSystem())
        for package in (self.launcher, self.library):
            shutil.copy(package, self.bare.root / "root")
        self.bare.says("apt-get update")

    def install(self, *packages, options=""):
        names = " ".join(f"/root/{package.name}" for package in packages)
        return self.bare.says(f"apt-get install --yes {options} {names}")

    def assert_as(self, before):
        """All files and folders are as before, apart from apt's own, and dpkg knows of no dtrain."""
        after = self.bare.files()
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        self.assertEqual(sorted(path for path in changed if not OF_APT.match(path)), [])
        self.assertEqual(sorted(path for path in after if "dtrain" in path and path not in before), [])
        self.assertEqual(self.bare.says("dpkg-query --list | grep dtrain || true"), "")

    def test_the_launcher_runs_and_leaves_nothing(self):
        before = self.bare.files()
        self.install(self.launcher)
        self.assertRegex(self.bare.says("dtrain --version"), r"^dtrain \d+\.\d+\.\d+")
        self.bare.says("dtrain run --nproc 2 true")
        self.assertIn("[1] here\n", self.bare.says("dtrain run --nproc 2 echo here"))
        installed = self.bare.files()
        for path in FILES:
            self.assertIn(path, installed)
        self.bare.says("apt-get purge --yes --auto-remove dtrain")
        self.assert_as(before)

    def test_the_library_leaves_nothing(self):
        before = self.bare.files()
        self.install(self.launcher, self.library)
        self.assertIn("usr/include/dtrain/dtrain.h", self.bare.files())
        self.bare.says("apt-get purge --yes --auto-remove dtrain libdtrain-dev")
        self.assert_as(before)

    def test_manual_page_and_completions(self):
        self.bare.says("apt-get install --yes --no-install-recommends man-db bash-completion zsh fish")
        self.install(self.launcher)
        self.assertRegex(self.bare.says("MANWIDTH=80 man --pager=cat dtrain"), r"(?m)^SYNOPSIS\n")
        for shell, complete in (
                ("bash", '. /usr/share/bash-completion/bash_completion; _completion_loader dtrain; complete -p dtrain'),
                ("zsh", 'autoload -Uz compinit; compinit -u; [[ $_comps[dtrain] == _dtrain ]] && echo dtrain'),
                ("fish", 'complete --do-complete "dtrain r"')):
            with self.subTest(shell):
                self.assertRegex(self.bare.says(f"{shell} -c '{complete}'"), r"dtrain|\brun\b")

    def test_a_cmake_project(self):
        """examples/minimal with libdtrain-dev and the torch wheel of this machine, on one rank and on two."""
        venv = pathlib.Path(PYTHON).parents[1]
        self.bare.bind(venv)
        self.bare.apt_install("cmake", "g++", "make", "python3")
        self.install(self.launcher, self.library, options="--no-install-recommends")
        shutil.copytree(ROOT / "examples/minimal", self.bare.root / "root/minimal")
        self.bare.says(f"cd /root/minimal && cmake -B build -DDTRAIN_TORCH_PYTHON={PYTHON} && cmake --build build")
        alone = self.bare.says("/root/minimal/build/train")
        self.assertRegex(alone, r"(?s)^epoch 0: loss \d+\.\d+\n.*epoch 4: loss 0\.0000\n$")
        both = self.bare.says("dtrain run --nproc 2 /root/minimal/build/train")
        for line in alone.splitlines():
            self.assertIn(f"[0] {line}\n", both)


if __name__ == "__main__":
    BUILD, PYTHON = pathlib.Path(sys.argv.pop(1)).resolve(), os.path.abspath(sys.argv.pop(1))
    unittest.main()
