"""What bash, zsh and fish offer for dtrain's command lines: real shells, with the script that `dtrain completion SHELL`
prints; and the manual page as groff reads it. usage: completion_test.py path/to/dtrain [unittest's arguments]"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from terminal import Terminal

DTRAIN = pathlib.Path(sys.argv.pop(1)).resolve()
DEADLINE_S = 60

# (the line before TAB, what is offered, what is not)
CASES = [
    ("dtrain ", ["run", "doctor", "completion", "help"], ["--nproc", "notes.txt"]),
    ("dtrain he", ["help"], ["doctor"]),
    ("dtrain help exit", ["exit-codes"], ["environment"]),
    ("dtrain completion ", ["bash", "zsh", "fish"], ["notes.txt"]),
    ("dtrain run --np", ["--nproc", "--nproc-per-node"], ["--no-python"]),
    ("dtrain run --nproc 2 --dr", ["--dry-run"], ["--contain"]),
    ("dtrain run --contain ", ["auto", "cgroup", "subreaper", "pidns"], ["notes.txt"]),
    ("dtrain run --contain=cg", ["cgroup"], ["pidns"]),
    ("dtrain run --nproc_per_node 2 --contain p", ["pidns"], ["cgroup"]),
    ("dtrain run --rdzv-endpoint localhost:29400 --contain ", ["cgroup", "pidns"], ["notes.txt"]),
    ("dtrain run --rdzv-endpoint=localhost:29400 --dr", ["--dry-run"], ["--contain"]),
    ("dtrain run --rdzv-endpoint :29400 --dr", ["--dry-run"], ["--contain"]),
    ("dtrain run -t 0:1,1:3 --nnodes 1:2 --contain=p", ["pidns"], ["cgroup"]),
    ("dtrain run --nnodes 1:2 no", ["notes.txt"], ["--no-python"]),
    ("torchrun --rdzv-endpoint=::1 --nproc-", ["--nproc-per-node"], ["--contain"]),
    ("dtrain run -t 3 --log-dir ", ["logs"], ["notes.txt"]),
    ("dtrain run --report no", ["notes.txt"], []),
    ("dtrain run --signals-to-handle TERM,US", ["USR1", "USR2"], ["QUIT"]),
    ("dtrain run no", ["notes.txt"], ["--no-python"]),
    ("dtrain la", ["launch"], ["logs"]),
    ("dtrain launch --np", ["--nproc", "--nproc-per-node"], ["--no-python"]),
    ("dtrain launch --nproc 2 --use", ["--use-env"], ["--contain"]),
    ("dtrain launch --contain ", ["cgroup", "pidns"], ["notes.txt"]),
    ("dtrain launch --use-env no", ["notes.txt"], ["--no-python"]),
    ("dtrain launch ./train --co", [], ["--contain", "--color"]),
    ("dtrain plan --js", ["--json"], ["--join"]),
    ("dtrain plan --nproc 2 --dr", ["--dry-run"], ["--json"]),
    ("dtrain run --js", [], ["--json"]),
    ("dtrain logs ", ["logs"], ["notes.txt"]),
    ("dtrain logs logs --fo", ["--follow"], ["--nproc"]),
    ("dtrain logs -g x logs --fo", ["--follow"], ["--nproc"]),
    ("dtrain env ", [], ["notes.txt"]),
    ("dtrain run ./train no", ["notes.txt"], ["--no-python"]),
    ("dtrain run -- ./train no", ["notes.txt"], ["--no-python"]),
    ("dtrain run --nproc 2 ./train --co", [], ["--contain", "--color"]),
    ("torchrun --nproc-", ["--nproc-per-node"], ["--contain"]),
    ("torchrun --no-python ./train no", ["notes.txt"], ["--node-rank"]),
]


class Shells(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        (self.folder / "notes.txt").write_text("")
        (self.folder / "logs").mkdir()
        # Both names can be found in PATH, as after `make install`.
        self.env = {"PATH": f"{DTRAIN.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": holder.name, "TERM": "xterm",
                    "LC_ALL": "C.UTF-8"}

    def script(self, shell):
        done = subprocess.run([DTRAIN, "completion", shell], capture_output=True, text=True, timeout=DEADLINE_S,
                              check=True)
        path = self.folder / f".completion.{shell}"
        path.write_text(done.stdout)
        return path

    def judge(self, offered_for, cases=()):
        for line, wanted, unwanted in [*CASES, *cases]:
            offered = offered_for(line)
            with self.subTest(line=line, offered=offered):
                for word in wanted:
                    self.assertIn(word, offered)
                for word in unwanted:
                    self.assertNotIn(word, offered)

    # For each line: type it and TAB, then kill the line and ask for a mark. What comes before the mark is the answer.
    def in_terminal(self, argv, start, cases=()):
        with Terminal(argv, columns=200, rows=200, env=self.env, folder=self.folder) as terminal:
            terminal.type(f"PS1='read''y> '; {start}\r")
            marks = iter(range(1000))

            def offered_for(line):
                mark = next(marks)
                terminal.wait_for("ready> ")  # the shell takes keys itself from here on
                terminal.type(f"{line}\t\x15echo mark-$(({mark} + 0)).\r")
                return terminal.wait_for(f"mark-{mark}.")
            self.judge(offered_for, cases)

    @unittest.skipUnless(shutil.which("bash"), "no bash here")
    def test_bash(self):
        settings = ("bind 'set show-all-if-ambiguous on'; bind 'set completion-query-items 0'; "
                    "bind 'set page-completions off'; bind 'set enable-bracketed-paste off'")
        self.in_terminal(["bash", "--norc", "--noprofile", "-i"], f"{settings}; source {self.script('bash')}",
                         [("torchrun --nproc_", ["--nproc_per_node"], [])])

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh(self):
        functions = self.folder / "functions"
        functions.mkdir()
        (functions / "_dtrain").write_text(self.script("zsh").read_text())
        start = (f"fpath=({functions} $fpath); setopt no_auto_menu no_list_ambiguous; LISTMAX=1000; "
                 "unset zle_bracketed_paste; autoload -Uz compinit; compinit -u -D")
        self.in_terminal(["zsh", "-f", "-i"], start, [("dtrain run --dry", ["--dry-run"], [])])

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_fish(self):
        script = self.script("fish")

        def offered_for(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
                                  env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.stderr, "")
            words, descriptions = zip(*(line.partition("\t")[::2] for line in done.stdout.splitlines() or [""]))
            if line == "dtrain run --np":
                self.assertTrue(all(descriptions))
            return " ".join(words)
        self.judge(offered_for)


class Manual(unittest.TestCase):
    @unittest.skipUnless(shutil.which("groff"), "no groff here")
    def test_groff_has_nothing_to_warn_of(self):
        page = subprocess.run([DTRAIN, "help", "--man"], capture_output=True, timeout=DEADLINE_S, check=True).stdout
        done = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-P-c"], input=page, capture_output=True,
                              timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        text = re.sub(r".\x08|\x1b\[[0-9]*m", "", done.stdout.decode())
        for word in ("SYNOPSIS", "--max-restarts N", "EXIT CODES", "ENVIRONMENT", "PET_NPROC_PER_NODE"):
            self.assertIn(word, text)


class Installation(unittest.TestCase):
    @unittest.skipUnless(shutil.which("cmake"), "no cmake here")
    def test_files_are_where_shells_and_man_look(self):
        with tempfile.TemporaryDirectory() as prefix:
            build = DTRAIN.parent.parent / "cli"
            subprocess.run(["cmake", "--install", build, "--prefix", prefix], capture_output=True,
                           timeout=DEADLINE_S, check=True)
            share = pathlib.Path(prefix) / "share"
            for path, words in {"bash-completion/completions/dtrain": ["completion", "bash"],
                                "bash-completion/completions/torchrun": ["completion", "bash"],
                                "zsh/site-functions/_dtrain": ["completion", "zsh"],
                                "fish/vendor_completions.d/dtrain.fish": ["completion", "fish"],
                                "fish/vendor_completions.d/torchrun.fish": ["completion", "fish"],
                                "man/man1/dtrain.1": ["help", "--man"]}.items():
                printed = subprocess.run([DTRAIN, *words], capture_output=True, timeout=DEADLINE_S, check=True).stdout
                self.assertEqual((share / path).read_bytes(), printed, path)
            self.assertEqual((share / "man/man1/torchrun.1").read_text(), ".so man1/dtrain.1\n")


class Choice(unittest.TestCase):
    def test_both_spellings_print_the_same(self):
        for shell in ("bash", "zsh", "fish"):
            ours = subprocess.run([DTRAIN, "completion", shell], capture_output=True, timeout=DEADLINE_S)
            theirs = subprocess.run([DTRAIN.with_name("torchrun"), "--print-completion", shell], capture_output=True,
                                    timeout=DEADLINE_S)
            self.assertEqual((ours.returncode, theirs.returncode), (0, 0))
            self.assertEqual(ours.stdout, theirs.stdout)

    def test_other_shells_are_refused_by_name(self):
        done = subprocess.run([DTRAIN, "completion", "tcsh"], capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("shell 'tcsh': expected one of bash, zsh, fish", done.stderr)


if __name__ == "__main__":
    unittest.main()
