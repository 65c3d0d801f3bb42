#!/usr/bin/env python3
"""The project's own rules, checked: which folder may include which, which files stay free of side effects, sizes,
words, links. Prints `file:line: what to do` for each breach and fails if there is one.

usage: tidy.py [FILE...]    without arguments: every file that git tracks or would track

A line that breaks a word rule for a good reason says so: `tidy: allow WORD, because ...` on it or on the line above.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The arrows of docs/architecture.md: a folder's sources may include headers of these folders, and of their own.
ARROWS = {
    "cli": {"launcher", "rendezvous"},
    "launcher": {"rendezvous"},
    "rendezvous": set(),
    "strategies": set(),
    "data": set(),
    "examples": {"strategies", "dtrain"},
}
FOLDERS = set(ARROWS) | {"test"}

# Decisions are made in files that can be tested without a process, a socket or a clock.
PURE = re.compile(r"(launcher|rendezvous|strategies)/(.*/)?(\w+_core|\w+_plan|\w+_wire|wire|line_splitter|prefix|"
                  r"text_template|restart_policy|failure_report|exit_status|batch_sampler|flight_ring|flight_file|"
                  r"flight_settings)\.(h|cc)$|"
                  r"launcher/(worker_env|engines/hostlist)\.(h|cc)$")
IMPURE_INCLUDE = re.compile(r"boost/(asio|beast)|sys/|unistd\.h|fcntl\.h|poll\.h|spawn\.h|thread>|mutex>|"
                            r"condition_variable>|future>|fstream>|filesystem>|ctime>|chrono_io")
IMPURE_CALL = re.compile(r"\b(\w*[Cc]lock\w*::now|clock_gettime|gettimeofday|time\((nullptr|NULL|0)\)|SteadyClock|"
                         r"getpid\(|std::getenv|getenv\(|std::random_device)")

LINES_MAX = 400
TEST_LINES_MAX = 600
COLUMNS_MAX = 120
BYTES_MAX = 400_000

TEXT = {".cc", ".h", ".py", ".sh", ".cmake", ".md", ".txt", ".json", ".yml", ".yaml", ""}
CODE = {".cc", ".h", ".py", ".sh"}

# (name, where it applies, pattern, what to do). The patterns are written so that they do not match themselves.
WORDS = [
    ("todo", lambda p: p.suffix in TEXT, re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b"),
     "finish it, or open an issue and leave no mark"),
    ("endl", lambda p: p.suffix in {".cc", ".h"}, re.compile(r"std::end[l]\b"), r"write '\n'; flush where it matters"),
    ("namespace", lambda p: p.suffix in {".cc", ".h"}, re.compile(r"using namespace std\s*;"), "name what you use"),
    ("sleep", lambda p: p.parts[0] in {"test", "launcher", "rendezvous", "cli", "strategies"} and p.suffix in CODE and
     p.parts[1] != "bench", re.compile(r"\b(u|nano)?slee[p](_for|_until)?\s*\("),
     "wait for the event itself, with a deadline"),
    ("semicolon", lambda p: p.parts[0] == "test" and p.suffix == ".cc", re.compile(r'TEST_CASE\("[^"]*[;]'),
     "CMake ends the test's name there, and runs none"),
    ("assert", lambda p: p.suffix in {".cc", ".h"} and p.parts[0] in {"launcher", "rendezvous", "cli"},
     re.compile(r"(^|[^_\w])asser[t]\("), "use DT_CHECK (rendezvous/base/check.h); it stays on in release builds"),
    ("shell", lambda p: p.suffix in {".cc", ".h"} and p.parts[0] != "test",
     re.compile(r"(std::|[^\w.>:])(syste[m]|pope[n])\("), "start programs without a shell"),
    ("unbounded", lambda p: p.suffix in {".cc", ".h"}, re.compile(r"\b(sprint[f]|strcp[y]|strca[t]|get[s])\("),
     "use a bounded call"),
]


class Report:
    def __init__(self):
        self.breaches = []

    def add(self, path, line, text):
        self.breaches.append(f"{path}:{line}: {text}")


def all_files():
    git = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                         capture_output=True)
    if git.returncode == 0:
        return sorted(pathlib.Path(name) for name in set(git.stdout.decode().split("\0")) if name)
    folders = FOLDERS | {"cmake", "docs", "scripts"}  # not a checkout: an unpacked archive
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*"))


def includes(lines):
    for number, line in enumerate(lines, 1):
        if match := re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line):
            yield number, match[1], match[2]


def check_arrows(path, lines, report):
    folder = path.parts[0]
    if folder not in ARROWS:
        return
    for number, _, included in includes(lines):
        target = included.split("/")[0]
        if target in FOLDERS and target != folder and target not in ARROWS[folder]:
            allowed = ", ".join(sorted(ARROWS[folder])) or "nothing else of ours"
            report.add(path, number, f"{folder}/ may include {allowed}, not {target}/ (docs/architecture.md)")


def check_purity(path, lines, report):
    if not PURE.match(path.as_posix()):
        return
    for number, bracket, included in includes(lines):
        if bracket == "<" and IMPURE_INCLUDE.search(included + ">"):
            report.add(path, number, f"<{included}> in a file that only decides; move the effect to its shell")
    for number, line in enumerate(lines, 1):
        if match := IMPURE_CALL.search(line.split("//")[0]):
            report.add(path, number, f"{match[0]} in a file that only decides; take it as an argument")


def check_shape(path, text, lines, report):
    if path.suffix in CODE:
        limit = TEST_LINES_MAX if path.parts[0] == "test" else LINES_MAX
        if len(lines) > limit:
            report.add(path, limit + 1, f"{len(lines)} lines, {limit} are allowed; split it by what it is about")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                report.add(path, number, f"{len(line)} columns, {COLUMNS_MAX} are allowed")
    if path.suffix == ".h" and not any(line.strip() == "#pragma once" for line in lines):
        report.add(path, 1, "a header starts with #pragma once")
    commented = any(line.lstrip().startswith(("//", "/*")) for line in lines[:4])
    if path.suffix in {".h", ".cc"} and path.parts[0] != "test" and not commented:
        if path.suffix == ".h" or not (ROOT / path).with_suffix(".h").exists():
            report.add(path, 1, "say in the first lines what this file is for")
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            report.add(path, number, "trailing white space")
        if "\t" in line and path.name != "Makefile" and path.suffix in CODE:
            report.add(path, number, "a tab; indent with spaces")
    if text and not text.endswith("\n"):
        report.add(path, len(lines), "end the last line with a newline")


def check_words(path, lines, report):
    for name, applies, pattern, advice in WORDS:
        if not applies(path):
            continue
        for number, line in enumerate(lines, 1):
            if (match := pattern.search(line)) and not any(
                    f"tidy: allow {name}" in near for near in lines[max(0, number - 2):number]):
                report.add(path, number, f"'{match[0].strip()}': {advice}")


def check_links(path, lines, report):
    if path.suffix != ".md":
        return
    for number, line in enumerate(lines, 1):
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", line):
            if not (ROOT / path).parent.joinpath(target).exists():
                report.add(path, number, f"{target} does not exist; correct the link or write the page")


def check_file(path, report):
    data = (ROOT / path).read_bytes()
    if len(data) > BYTES_MAX:
        report.add(path, 1, f"{len(data)} bytes; the repository holds nothing above {BYTES_MAX}")
        return
    if path.suffix not in TEXT or b"\0" in data or "golden" in path.parts or "corpus" in path.parts:
        return
    text = data.decode("utf-8", errors="replace")
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    check_arrows(path, lines, report)
    check_purity(path, lines, report)
    check_shape(path, text, lines, report)
    check_words(path, lines, report)
    check_links(path, lines, report)


def main(arguments):
    paths = [pathlib.Path(argument).resolve().relative_to(ROOT) for argument in arguments] or all_files()
    report = Report()
    for path in paths:
        if (ROOT / path).is_file() and not (ROOT / path).is_symlink():
            check_file(path, report)
    for breach in report.breaches:
        print(breach)
    print(f"tidy: {len(paths)} files, {len(report.breaches)} breaches")
    return 1 if report.breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
