#include "cli/program/program.h"

#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

namespace dtrain::cli {
namespace {

using Words = std::vector<std::string>;

// The error's kind and text as "126: ...", or the argv joined by blanks.
std::string outcome(const ProgramRequest& request, const Host& host) {
  auto program = build_program(request, host);
  std::string out;
  if (program.ok()) {
    for (const std::string& word : program->argv) out += (out.empty() ? "" : " ") + word;
    return out;
  }
  const Error& error = program.error();
  CHECK(error.message.find('\n') == std::string::npos);
  const char* code = error.kind == ErrorKind::not_found        ? "127: "
                     : error.kind == ErrorKind::not_executable ? "126: "
                     : error.kind == ErrorKind::usage          ? "2: "
                                                               : "125: ";
  return code + error.message;
}

std::string outcome(const Words& command, FileMap files = {}) {
  return outcome({command, false, false, false}, test_host(std::move(files)));
}

FileFacts with(FileFacts facts, bool FileFacts::*field, bool value) {
  facts.*field = value;
  return facts;
}

}  // namespace

TEST_CASE("Python runs what Python should, the rest runs itself") {
  const std::string python = "/usr/bin/python3 -u ";
  CHECK(outcome({"train.py", "--lr=1"}, {{"train.py", plain_file()}}) == python + "train.py --lr=1");
  CHECK(outcome({"./train.py"}, {{"train.py", executable_file()}}) == python + "./train.py");
  CHECK(outcome({"app.pyz"}, {{"app.pyz", plain_file("PK")}}) == python + "app.pyz");
  CHECK(outcome({"app"}, {{"app", folder()}, {"app/__main__.py", plain_file()}}) == python + "app");
  CHECK(outcome({"./script"}, {{"script", plain_file("#!/usr/bin/env python3\n")}}) == python + "./script");
  CHECK(outcome({"script"}, {{"script", plain_file("#! /opt/bin/python -E\n")}}) == python + "script");
  CHECK(outcome({"./script"}, {{"script", executable_file("#!/usr/bin/env python3\n")}}) == "./script");
  CHECK(outcome({"./train", "--lr=1"}, {{"train", executable_file(elf_head(EM_X86_64))}}) == "./train --lr=1");
  CHECK(outcome({"true"}) == "true");
}

TEST_CASE("a script's name that begins with a dash is no option of Python's") {
  const std::string python = "/usr/bin/python3 -u ";
  CHECK(outcome({"-dash.py", "-x"}, {{"-dash.py", plain_file()}}) == python + "./-dash.py -x");
  CHECK(outcome({{"-dash.py"}, false, false, true}, test_host({{"-dash.py", plain_file()}})) == python + "./-dash.py");
  CHECK(outcome({"-"}) == python + "-");
  CHECK(outcome({{"-module"}, true}, test_host()) == python + "-m -module");
}

TEST_CASE("as torchrun a script for Python is run by the user's Python, wherever it says to go") {
  Host host =
      test_host({{"script", executable_file("#!/usr/bin/python3\n")}, {"train", executable_file(elf_head(EM_X86_64))}});
  CHECK(outcome({{"script"}, false, false, true}, host) == "/usr/bin/python3 -u script");
  CHECK(outcome({{"./train"}, false, false, true}, host) == "./train");
}

TEST_CASE("as torchrun Python reads whatever could not be executed") {
  Host host = test_host({{"plain", plain_file()},
                         {"marked", executable_file("import torch\n")},
                         {"empty", executable_file("")},
                         {"pipe", {FileFacts::Kind::other, true, true, true, true, ""}},
                         {"shell", executable_file()},
                         {"object", plain_file(elf_head(EM_X86_64))}});
  for (const char* name : {"plain", "./plain", "./marked", "./empty", "./pipe"})
    CHECK(outcome({{name}, false, false, true}, host) == "/usr/bin/python3 -u " + std::string(name));
  CHECK(outcome({{"./shell"}, false, false, true}, host) == "./shell");
  CHECK(outcome({{"./object"}, false, false, true}, host).starts_with("126: ./object: is not executable"));
  CHECK(outcome({{"./plain"}, false, true, true}, host).starts_with("126: ./plain: is not executable"));
  for (bool as_torchrun : {false, true})
    CHECK(outcome({{"-", "a"}, false, false, as_torchrun}, host) == "/usr/bin/python3 -u - a");
}

TEST_CASE("the flags -m and --no-python") {
  Host host = test_host({{"train.py", plain_file()}, {"run.py", executable_file()}});
  CHECK(outcome({{"pkg.train", "-x"}, true, false, false}, host) == "/usr/bin/python3 -u -m pkg.train -x");
  CHECK(outcome({{"pkg"}, true, true, false}, host) == "2: --module needs Python: leave out --no-python or --module");
  CHECK(outcome({{"./run.py"}, false, true, false}, host) == "./run.py");
  CHECK(outcome({{"./train.py"}, false, true, false}, host) ==
        "126: ./train.py: is not executable: chmod +x ./train.py, or leave out --no-python");
  CHECK(outcome({{""}, false, false, false}, host) == "2: the program's name is empty");
}

TEST_CASE("the flag --run-path gives the script to runpy, and wins over the other two") {
  Host host = test_host({{"train", plain_file()}});
  for (bool other : {false, true}) {
    auto program = build_program({{"train", "-x"}, other, other, false, true}, host);
    REQUIRE(program.ok());
    REQUIRE(program->argv.size() == 6);
    CHECK(Words(program->argv.begin(), program->argv.begin() + 3) == Words{"/usr/bin/python3", "-u", "-c"});
    CHECK(Words(program->argv.begin() + 4, program->argv.end()) == Words{"train", "-x"});
    CHECK(program->argv[3].find('$') == std::string::npos);  // the local rank is put in for dollars
    CHECK(program->name == "train");
  }
  CHECK(outcome({{"trian"}, false, false, false, true}, host) == "127: trian: no such file; did you mean train?");
}

TEST_CASE("the user's Python: PYTHON_EXEC, then the virtual environment, then PATH") {
  Host host =
      test_host({{"/venv/bin/python", executable_file()}, {"/opt/py", executable_file()}, {"/opt/no", plain_file()}});
  CHECK(*find_python(host) == "/usr/bin/python3");
  host.env["VIRTUAL_ENV"] = "/gone";
  CHECK(*find_python(host) == "/usr/bin/python3");
  host.env["VIRTUAL_ENV"] = "/venv";
  CHECK(*find_python(host) == "/venv/bin/python");
  host.env["PYTHON_EXEC"] = "/opt/py";
  CHECK(*find_python(host) == "/opt/py");
  host.env["PYTHON_EXEC"] = "python3";
  CHECK(*find_python(host) == "/usr/bin/python3");
  host.env["PYTHON_EXEC"] = "/opt/none";
  CHECK(find_python(host).error().message == "PYTHON_EXEC=/opt/none: no such program");
  host.env["PYTHON_EXEC"] = "/opt/no";
  CHECK(find_python(host).error().kind == ErrorKind::not_executable);
  host.env = {{"PATH", "/nowhere"}};
  CHECK(find_python(host).error().kind == ErrorKind::not_found);
}

TEST_CASE("an archive without an ending is Python's, unless it can execute itself") {
  std::string archive = "PK\x03\x04 and more";
  CHECK(outcome({"./app"}, {{"app", plain_file(archive)}}) == "/usr/bin/python3 -u ./app");
  CHECK(outcome({"./app"}, {{"app", executable_file(archive)}}).starts_with("126: ./app: "));
}

TEST_CASE("Python named as the program runs as it is, and its buffering is said") {
  FileMap files = {{"/usr/bin/python3.11", executable_file(elf_head(EM_X86_64))}};
  auto note = [&](std::vector<std::string> command, bool no_python = false, const char* unbuffered = "") {
    Host host = test_host(files);
    if (*unbuffered != 0) host.env["PYTHONUNBUFFERED"] = unbuffered;
    auto program = build_program({std::move(command), false, no_python, false}, host);
    REQUIRE(program.ok());
    return program->note;
  };
  CHECK(note({"python3", "train.py"}) == "python3 without -u holds its output back: name the script alone, or add -u");
  CHECK(note({"python3.11", "-m", "train", "-u"}).starts_with("python3.11 without -u"));
  CHECK(note({"python3", "-W", "ignore", "train.py"}).starts_with("python3 without -u"));
  for (const char* word : {"-Wdefault", "-Xutf8", "-BXutf8", "-mrun", "-cimport uuid"})
    CHECK(note({"python3", word, "train.py"}).starts_with("python3 without -u"));
  CHECK(note({"python3", "-BW", "-u", "train.py"}).starts_with("python3 without -u"));  // a value of -W
  CHECK(note({"python3", "-Wdefault", "-u", "train.py"}).empty());
  CHECK(note({"/usr/bin/python3", "-u", "train.py"}).empty());
  CHECK(note({"python3", "-Bu", "train.py"}).empty());
  CHECK(note({"python3", "-X", "dev", "-u", "train.py"}).empty());
  CHECK(note({"python3", "train.py"}, true).empty());
  CHECK(note({"python3", "train.py"}, false, "1").empty());
  CHECK(note({"true"}).empty());
}

TEST_CASE("a program that is not there") {
  CHECK(outcome({"train"}, {{"train", executable_file()}}) ==
        "127: train: not in PATH; ./train exists here: did you mean ./train?");
  CHECK(
      outcome({"CMakeLists.txt"}, {{"CMakeLists.txt", plain_file()}}) ==
      "127: CMakeLists.txt: not in PATH; ./CMakeLists.txt is here, but is not a program: it has no execute permission");
  CHECK(outcome({"train"}, {{"train", folder()}}) == "127: train: not in PATH; ./train is a folder");
  CHECK(outcome({"tru"}) == "127: tru: not in PATH, and there is no ./tru");
  CHECK(outcome({"trian"}, {{"train", executable_file()}}) ==
        "127: trian: not in PATH, and there is no ./trian; did you mean train?");
  CHECK(outcome({"./trian"}, {{"train", executable_file()}}) == "127: ./trian: no such file; did you mean ./train?");
  CHECK(outcome({"tarin.py"}, {{"train.py", plain_file()}}) == "127: tarin.py: no such file; did you mean train.py?");
  CHECK(outcome({"/far/away/x"}) == "127: /far/away/x: no such file");
}

TEST_CASE("a program that is there but cannot be executed") {
  CHECK(outcome({"./train"}, {{"train", plain_file()}}) ==
        "126: ./train: is not executable: chmod +x ./train, or for a Python script name it .py or give it a #! line");
  CHECK(outcome({"./train"}, {{"train", with(executable_file(), &FileFacts::executable, false)}}) ==
        "126: ./train: you may not execute it: its mode is for somebody else, or the file system is mounted noexec");
  CHECK(outcome({"./dir"}, {{"dir", folder()}}).starts_with("126: ./dir: is a folder; "));
  CHECK(outcome({"./pipe"}, {{"pipe", {FileFacts::Kind::other, true, true, true, true, ""}}}) ==
        "126: ./pipe: is not a regular file");
  CHECK(outcome({"train.py"}, {{"train.py", with(plain_file(), &FileFacts::readable, false)}}) ==
        "126: train.py: you may not read it, so Python cannot run it");
}

TEST_CASE("a #! line is read as the kernel reads it") {
  auto cut = [](const std::string& head) {
    Shebang line = shebang_of(head);
    return line.interpreter + "|" + line.argument;
  };
  CHECK(cut("#!/bin/sh\necho") == "/bin/sh|");
  CHECK(cut("#! /usr/bin/env  python3 -u \n") == "/usr/bin/env|python3 -u");
  CHECK(cut("#!/bin/sh") == "/bin/sh|");
  CHECK(cut("#!") == "|");
  CHECK(cut("#!   \n") == "|");
  CHECK(cut("#\n!/bin/sh") == "|");
  CHECK(cut("") == "|");
}

TEST_CASE("a script whose interpreter is missing names it") {
  auto script = [](const std::string& head) { return outcome({"./s"}, {{"s", executable_file(head)}}); };
  CHECK(script("#!/bin/sh -e\n") == "./s");
  CHECK(script("#!/opt/none\n") == "126: ./s: its #! line names /opt/none, which does not exist");
  CHECK(script("#!/usr/bin/env python3\n") == "./s");
  CHECK(script("#!/usr/bin/env -S python9 -u\n") == "./s");
  CHECK(script("#!/usr/bin/env python9\n") == "126: ./s: its #! line asks for python9, which is not in PATH");
  CHECK(script("#!/bin/sh\r\n") ==
        "126: ./s: has Windows line ends, so its #! line names no program: sed -i 's/\\r$//' ./s");
  CHECK(outcome({"./s"}, {{"s", executable_file("#!/opt/i\n")}, {"/opt/i", plain_file()}}) ==
        "126: ./s: its #! line names /opt/i, which is not executable");
}

TEST_CASE("a program for another machine, or none at all, is told apart") {
  auto binary = [](const std::string& head) { return outcome({"./b"}, {{"b", executable_file(head)}}); };
  CHECK(binary(elf_head(EM_X86_64, "/bin/sh")) == "./b");
  CHECK(binary(elf_head(EM_386)) == "./b");
  CHECK(binary(elf_head(EM_AARCH64)) ==
        "126: ./b: is a program for aarch64 machines, this one is x86_64; build it here");
  CHECK(binary(elf_head(EM_X86_64, "/lib/ld-musl-x86_64.so.1")) ==
        "126: ./b: needs the loader /lib/ld-musl-x86_64.so.1, which this machine lacks; build it here");
  CHECK(binary("\x7f"
               "ELF") == "126: ./b: is a program cut short; build or copy it again");
  CHECK(binary("") == "126: ./b: is an empty file");
  CHECK(binary("echo hi\n").starts_with("126: ./b: is executable but neither a program nor a script"));

  Host host = test_host({{"b", executable_file(elf_head(EM_AARCH64))}});
  host.foreign_programs = true;
  CHECK(outcome({{"./b"}, false, false, false}, host) == "./b");
}

TEST_CASE("no ELF header, however broken, is read past its end") {
  std::string whole = elf_head(EM_X86_64, "/lib/none");
  for (std::size_t length = 0; length <= whole.size(); ++length)
    for (std::size_t at = 0; at < length; ++at) {
      std::string head = whole.substr(0, length);
      head[at] = static_cast<char>(0xff);
      Host host = test_host();
      auto judged = check_executable("b", executable_file(head), host);
      if (!judged.ok()) CHECK(judged.error().kind == ErrorKind::not_executable);
    }
}

TEST_CASE("PATH is searched as a shell does") {
  Host host = test_host({{"/a/x", plain_file()}, {"/b/x", executable_file()}, {"here", executable_file()}});
  host.env["PATH"] = "/a:/b";
  CHECK(find_in_path("x", host) == "/b/x");
  CHECK(find_in_path("/a/x", host) == "/a/x");
  CHECK(find_in_path("here", host).empty());
  host.env["PATH"] = "/a::/b";
  CHECK(find_in_path("here", host) == "./here");
  host.env.erase("PATH");
  CHECK(find_in_path("true", host) == "/usr/bin/true");
  CHECK(find_in_path("", host).empty());
}

}  // namespace dtrain::cli
