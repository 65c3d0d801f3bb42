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

import rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The arrows of docs/architecture.md: a folder's sources may include headers of these folders, and of their own.
ARROWS = {
    "cli": {"launcher", "rendezvous", "strategies"},
    "launcher": {"rendezvous"},
    "rendezvous": set(),
    "strategies": set(),
    "data": {"strategies"},
    "examples": {"strategies", "dtrain"},
}
FOLDERS = set(ARROWS) | {"test"}

# Decisions are made in files that can be tested without a process, a socket or a clock: those of PURE_ROOMS, those with
# one of these names, and those whose header says "Pure." in its first comment.
PURE_NAME = re.compile(r"\w+_(core|plan|wire)\.(h|cc)$")
SAYS_PURE = re.compile(r"\bPure[.:;,]")
TESTED_BY = re.compile(r"Tested by ([\w/.-]+\w)")
IMPURE_INCLUDE = re.compile(r"boost/(asio|beast)|sys/(?!types\.h)|unistd\.h|fcntl\.h|poll\.h|spawn\.h|thread>|mutex>|"
                            r"condition_variable>|future>|fstream>|filesystem>|ctime>|chrono_io")
IMPURE_CALL = re.compile(r"\b(\w*[Cc]lock\w*::now|clock_gettime|gettimeofday|time\((nullptr|NULL|0)\)|SteadyClock|"
                         r"getpid\(|std::getenv|getenv\(|std::random_device)")

# What the library throws at its user; its lower rooms throw std::runtime_error at those above them, too.
THROWN = re.compile(r"\b(TORCH_CHECK|ConfigError|DataError|CollectiveError|DivergedError)\((.*?)\);", re.S)
THROWN_ABOVE = re.compile(r"\b(std::(?:runtime_error|invalid_argument|logic_error))\((.*?)\);", re.S)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')

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
    ("sleep", lambda p: p.parts[0] in {"test", "launcher", "rendezvous", "cli", "strategies", "data"} and
     p.suffix in CODE and
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


def room_of(path):
    return path.parent.as_posix()


def read_room_table(report):
    try:
        return rooms.table()
    except ValueError as error:
        report.add("scripts/rooms.py", 1, f"{error}; move that room up, or the code that needs it down")
        return {}


def check_room(path, lines, table, report):
    """The file lies in a room, and includes what its room may."""
    folder, name = path.parts[0], path.as_posix()
    if folder not in rooms.ROOMS or path.name == "CMakeLists.txt":
        return
    room = room_of(path)
    if room not in table and name not in rooms.WITHOUT_ROOM:
        report.add(path, 1, f"{room}/ is no room; move the file into one of scripts/rooms.py, or add a row there and "
                            "in docs/architecture.md")
        return
    for number, bracket, included in includes(lines):
        target = room_of(pathlib.PurePosixPath(included))
        if bracket != '"' or target.split("/")[0] not in rooms.ROOMS:
            continue
        if target.split("/")[0] == folder:
            check_step(path, number, room, target, table, report)
        else:
            check_face(path, number, folder, target, report)


def check_step(path, number, room, target, table, report):
    if target in table.get(room, table):  # a file without a room may include all of its folder
        return
    allowed = ", ".join(sorted(table[room] - {room})) or "nothing else"
    report.add(path, number, f"{room}/ may include {allowed}, not {target}/; move what it needs into a room below "
                             "both, or take it as an argument")


def check_face(path, number, folder, target, report):
    lower, _, room = target.partition("/")
    face = rooms.FACES.get(folder, {}).get(lower)  # None: check_arrows() has told
    if face is not None and room not in face.split():
        report.add(path, number, f"{folder}/ does not see {target}/, only {face}; ask one of those for it, or let it "
                                 "be told what it needs")


def check_room_sizes(paths, table, report):
    for room in sorted(table):
        count = sum(1 for path in paths if room_of(path) == room and path.name != "CMakeLists.txt")
        allowed = rooms.ROOM_FILES.get(room, rooms.ROOM_FILES_MAX)
        if count > allowed:
            report.add(room, 1, f"{count} files, {allowed} are allowed; split it by what it is about")


def first_comment(text):
    """The lines of comment that a file starts with."""
    body = [line for line in text.split("\n") if line.strip() != "#pragma once"]
    count = next((at for at, line in enumerate(body) if not line.startswith("//")), len(body))
    return "\n".join(body[:count])


def says(path, pattern):
    """A match of the pattern in what the file, or its header, says first."""
    for source in [ROOT / path, (ROOT / path).with_suffix(".h")]:
        if source.is_file() and (match := pattern.search(first_comment(source.read_text(errors="replace")))):
            return match
    return None


def is_pure(path):
    if path.suffix not in {".h", ".cc"} or path.parts[0] not in rooms.ROOMS:
        return False
    return room_of(path) in rooms.PURE_ROOMS or bool(PURE_NAME.fullmatch(path.name)) or bool(says(path, SAYS_PURE))


def check_purity(path, lines, report):
    if not is_pure(path):
        return
    for number, bracket, included in includes(lines):
        if bracket == "<" and IMPURE_INCLUDE.search(included + ">"):
            report.add(path, number, f"<{included}> in a file that only decides; move the effect to its shell")
    for number, line in enumerate(lines, 1):
        if match := IMPURE_CALL.search(line.split("//")[0]):
            report.add(path, number, f"{match[0]} in a file that only decides; take it as an argument")


def check_tested(path, report):
    """Each source of a room that decides has a test where its own place is mirrored, or says which test it has."""
    if path.suffix != ".cc" or room_of(path) not in rooms.PURE_ROOMS:
        return
    test = pathlib.PurePosixPath("test/unit", room_of(path), f"{path.stem}_test.cc")
    if (ROOT / test).is_file():
        return
    told = says(path, TESTED_BY)
    if told is None:
        report.add(path, 1, f"no test: write {test}, or say 'Tested by PATH' in the first comment")
    elif not (ROOT / told[1]).exists():
        report.add(path, 1, f"tested by {told[1]}, which does not exist; name the test that there is")


def check_thrown(path, text, report):
    """What the library throws says whose it is. A text that a function made is that function's."""
    if path.parts[0] not in {"strategies", "data"} or path.suffix not in {".h", ".cc"}:
        return
    for pattern in [THROWN] if path.parts[1] == "comm" else [THROWN, THROWN_ABOVE]:
        for match in pattern.finditer(text):
            literals = [one for one in LITERAL.findall(match[2]) if re.search("[a-z]{3}", one)]
            if literals and not any(one.startswith("dtrain: ") for one in literals):
                report.add(path, text.count("\n", 0, match.start()) + 1, f"{match[1]}: its text begins with 'dtrain: '")


def check_listed(path, report):
    """A test that no CMakeLists.txt names is run by nobody."""
    match = re.fullmatch(r"(\w+)_test\.(cc|py)", path.name)
    if path.parts[0] != "test" or not match:
        return
    lists = (ROOT / folder / "CMakeLists.txt" for folder in path.parents)
    listed = next((file.read_text() for file in lists if file.exists()), "")
    if not re.search(rf"\b{match[1]}(_test)?\b", listed):
        report.add(path, 1, "no CMakeLists.txt names this test; add it to the nearest one above")


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


def own_names(text):
    """What a source declares in its unnamed namespaces, with how, so that two aliases of one thing are one."""
    for part in re.findall(r"^namespace \{$(.*?)^\}  // namespace$", text, flags=re.MULTILINE | re.DOTALL):
        for line in part.splitlines():
            alias = re.match(r"(?:using|namespace) (\w+) = (.*;)", line)
            if alias:
                yield alias[1], alias[2]
            elif re.match(r"\w|\[\[", line) and not re.match(r"using|namespace|static_assert|public:|private:", line):
                of_type = re.match(r"(?:struct|class|enum class|enum) (\w+)", line)
                name = of_type or re.search(r"(\w+)(?:\{|\(| =|\[|;)", line)
                if name:
                    yield name[1], None


def check_own_names(report):
    """The sources of a library are compiled as one (dtrain_unity): what is a source's own has a name of its own."""
    for folder in sorted(ARROWS):
        lists = ROOT / folder / "CMakeLists.txt"
        libraries = re.findall(r"dtrain_add_library\((.*?)\)\n", lists.read_text(), re.DOTALL) if lists.exists() else []
        for library in libraries:
            seen = {}
            paths = [pathlib.Path(folder, source) for source in re.findall(r"[\w/]+\.cc", library)]
            for path in paths:
                for name, alias in own_names((ROOT / path).read_text()):
                    other, how = seen.setdefault(name, (path, alias))
                    if other != path and (alias is None or how != alias):
                        report.add(path, 1, f"'{name}' has a namesake in {other}, with which it is compiled as one")


def check_file(path, table, report):
    data = (ROOT / path).read_bytes()
    if len(data) > BYTES_MAX:
        report.add(path, 1, f"{len(data)} bytes; the repository holds nothing above {BYTES_MAX}")
        return
    if path.suffix not in TEXT or b"\0" in data or "golden" in path.parts or "corpus" in path.parts:
        return
    text = data.decode("utf-8", errors="replace")
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    check_arrows(path, lines, report)
    check_room(path, lines, table, report)
    check_purity(path, lines, report)
    check_tested(path, report)
    check_thrown(path, text, report)
    check_listed(path, report)
    check_shape(path, text, lines, report)
    check_words(path, lines, report)
    check_links(path, lines, report)


def main(arguments):
    paths = [pathlib.Path(argument).resolve().relative_to(ROOT) for argument in arguments] or all_files()
    report = Report()
    table = read_room_table(report)
    for path in paths:
        if (ROOT / path).is_file() and not (ROOT / path).is_symlink():
            check_file(path, table, report)
    if not arguments:
        check_room_sizes(paths, table, report)
        check_own_names(report)
    for breach in report.breaches:
        print(breach)
    print(f"tidy: {len(paths)} files, {len(report.breaches)} breaches")
    return 1 if report.breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
