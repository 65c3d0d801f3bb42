// Python or not, and the errors of a program that cannot start.
#include "cli/program/program.h"

#include <elf.h>
#include <fmt/format.h>

#include "cli/base/text.h"

namespace dtrain::cli {
namespace {

using Kind = FileFacts::Kind;

Error not_found(std::string message) { return {ErrorKind::not_found, std::move(message)}; }
Error not_executable(std::string message) { return {ErrorKind::not_executable, std::move(message)}; }

bool has_slash(const std::string& name) { return name.find('/') != std::string::npos; }

bool has_python_ending(const std::string& name) {
  for (const char* ending : {".py", ".pyc", ".pyz", ".zip"})
    if (name.ends_with(ending)) return true;
  return false;
}

// "#!/usr/bin/env python3" and "#!/opt/venv/bin/python -u".
bool python_shebang(const std::string& head) {
  Shebang line = shebang_of(head);
  std::string program = line.interpreter.ends_with("/env") ? line.argument : line.interpreter;
  std::size_t slash = program.rfind('/');
  return program.substr(slash == std::string::npos ? 0 : slash + 1).starts_with("python");
}

// A name in the same folder that the user may have meant: "; did you mean ./train?", or nothing.
std::string suggestion(const std::string& path, const Host& host) {
  std::size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  std::string near = closest(path.substr(folder.size()), host.list(folder.empty() ? "." : folder));
  return near.empty() || near == "." || near == ".." ? ""
                                                     : fmt::format("; did you mean {}{}?", folder, printable(near));
}

Result<Program> python_program(const ProgramRequest& request, const Host& host) {
  auto python = find_python(host);
  if (!python) return python.error();
  Program program{{*python, "-u"}, request.command[0], *python};
  program.is_python = true;
  if (request.module) program.argv.emplace_back("-m");
  program.argv.insert(program.argv.end(), request.command.begin(), request.command.end());
  // To Python a script's name that begins with a dash would be an option.
  const bool dashed = !request.module && program.name.starts_with('-') && program.name != "-";
  if (dashed) program.argv[2] = "./" + program.name;
  return program;
}

// What torchrun's --run-path does: the script under its own name, and its exception in the error file of @record.
constexpr const char* kRunPath = R"(import sys, runpy
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except Exception as e:
    import json, os, time, traceback
    if os.environ.get("TORCHELASTIC_ERROR_FILE"):
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
            json.dump({"message": {"message": type(e).__name__ + ": " + str(e), "extraInfo": {
                "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}}, f)
    raise
)";

Result<Program> run_path_program(const ProgramRequest& request, const Host& host) {
  const std::string& name = request.command[0];
  FileFacts facts = host.probe(name);
  if (facts.kind == Kind::missing)
    return not_found(fmt::format("{}: no such file{}", printable(name), suggestion(name, host)));
  auto python = find_python(host);
  if (!python) return python.error();
  Program program{{*python, "-u", "-c", kRunPath}, name, *python};
  program.is_python = true;
  program.argv.insert(program.argv.end(), request.command.begin(), request.command.end());
  return program;
}

// "python", "/opt/venv/bin/python3.11"; not "python-config".
bool is_python(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string::npos;
}

enum class PythonWord { plain, unbuffered, program, takes_next };

// One of its options as its own parser reads it: short ones may share a word, and one that takes a value ends it.
PythonWord python_word(const std::string& word) {
  if (word == "--check-hash-based-pycs") return PythonWord::takes_next;
  if (word.starts_with("--")) return word == "--" ? PythonWord::program : PythonWord::plain;
  for (std::size_t i = 1; i < word.size(); ++i) {
    const char option = word[i];
    if (option == 'u') return PythonWord::unbuffered;
    if (option == 'c' || option == 'm') return PythonWord::program;
    if (option == 'W' || option == 'X') return i + 1 == word.size() ? PythonWord::takes_next : PythonWord::plain;
  }
  return PythonWord::plain;
}

// Whether Python, started with these words, holds its output back when it goes to a pipe.
bool holds_output_back(const std::vector<std::string>& command, const Host& host) {
  if (!is_python(command[0]) || !host.variable("PYTHONUNBUFFERED").empty()) return false;
  for (std::size_t i = 1; i < command.size() && command[i].starts_with('-') && command[i] != "-"; ++i) {
    const PythonWord word = python_word(command[i]);
    if (word == PythonWord::unbuffered) return false;
    if (word == PythonWord::program) break;
    if (word == PythonWord::takes_next) ++i;
  }
  return true;
}

Result<Program> direct_program(const ProgramRequest& request, const std::string& file, const FileFacts& facts,
                               const Host& host) {
  Program program{request.command, request.command[0], file};
  program.is_python = is_python(request.command[0]) || python_shebang(facts.head);
  if (!request.no_python && holds_output_back(request.command, host))
    program.note = fmt::format("{} without -u holds its output back: name the script alone, or add -u",
                               printable(request.command[0]));
  return program;
}

Error missing_program(const std::string& name, const Host& host) {
  std::string shown = printable(name);
  FileFacts here = has_slash(name) ? FileFacts{} : host.probe("./" + name);
  if (here.kind == Kind::missing && (has_slash(name) || has_python_ending(name)))
    return not_found(fmt::format("{}: no such file{}", shown, suggestion(name, host)));
  if (here.kind == Kind::folder) return not_found(fmt::format("{}: not in PATH; ./{} is a folder", shown, shown));
  if (here.kind != Kind::missing && !here.execute_bit)
    return not_found(
        fmt::format("{}: not in PATH; ./{} is here, but is not a program: it has no execute permission", shown, shown));
  if (here.kind != Kind::missing)
    return not_found(fmt::format("{}: not in PATH; ./{} exists here: did you mean ./{}?", shown, shown, shown));
  return not_found(fmt::format("{}: not in PATH, and there is no ./{}{}", shown, shown, suggestion(name, host)));
}

Error cannot_execute(const std::string& name, const FileFacts& facts) {
  std::string shown = printable(name);
  if (facts.kind == Kind::folder)
    return not_executable(
        fmt::format("{}: is a folder; name the program in it (Python runs a folder that has a "
                    "__main__.py)",
                    shown));
  if (facts.kind == Kind::other) return not_executable(fmt::format("{}: is not a regular file", shown));
  if (facts.execute_bit)
    return not_executable(
        fmt::format("{}: you may not execute it: its mode is for somebody else, or the file system "
                    "is mounted noexec",
                    shown));
  std::string python = has_python_ending(name) ? ", or leave out --no-python"
                                               : ", or for a Python script name it .py or give it a #! line";
  return not_executable(fmt::format("{}: is not executable: chmod +x {}{}", shown, shell_quoted(shown), python));
}

// torchrun hands Python whatever there is. What could only be executed is none the less, so that it need not fail.
bool torchrun_reads_it(const FileFacts& facts) {
  if (facts.kind == Kind::other) return true;  // /dev/stdin
  if (facts.kind != Kind::file || facts.head.starts_with(ELFMAG)) return false;
  return !facts.execute_bit || (facts.readable && !facts.head.starts_with("#!"));
}

// Whether Python has to run this existing file or folder.
bool is_for_python(const ProgramRequest& request, const std::string& path, const FileFacts& facts, const Host& host) {
  if (request.no_python) return false;
  if (facts.kind == Kind::folder) return host.probe(path + "/__main__.py").kind == Kind::file;
  if (has_python_ending(path) || (request.as_torchrun && torchrun_reads_it(facts))) return true;
  bool archive = facts.head.starts_with("PK\x03\x04");
  return facts.kind == Kind::file && (archive || python_shebang(facts.head)) &&
         (request.as_torchrun || !facts.execute_bit);
}

// The file that the user's word means: the word itself if it is a path, else what PATH gives, else (torchrun opens
// scripts relative to the working folder) the file of that name here if Python is to run it.
std::string locate(const ProgramRequest& request, const Host& host) {
  const std::string& name = request.command[0];
  if (has_slash(name)) return name;
  FileFacts here = host.probe(name);
  bool python_here = is_for_python(request, name, here, host) && here.kind != Kind::missing;
  if (python_here && (request.as_torchrun || has_python_ending(name))) return name;
  std::string found = find_in_path(name, host);
  return found.empty() && python_here ? name : found;
}

}  // namespace

Result<std::string> find_python(const Host& host) {
  std::string chosen = host.variable("PYTHON_EXEC");
  if (!chosen.empty()) {
    std::string file = find_in_path(chosen, host);
    FileFacts facts = file.empty() ? FileFacts{} : host.probe(file);
    if (facts.kind == Kind::missing)
      return not_found(fmt::format("PYTHON_EXEC={}: no such program", printable(chosen)));
    if (facts.kind != Kind::file || !facts.executable)
      return not_executable(fmt::format("PYTHON_EXEC={}: is not an executable file", printable(chosen)));
    return file;
  }
  std::string venv = host.variable("VIRTUAL_ENV");
  if (!venv.empty() && host.probe(venv + "/bin/python").executable) return venv + "/bin/python";
  for (const char* name : {"python3", "python"}) {
    std::string file = find_in_path(name, host);
    if (!file.empty()) return file;
  }
  return not_found("no Python: neither python3 nor python is in PATH; activate an environment or set PYTHON_EXEC");
}

Result<Program> build_program(const ProgramRequest& request, const Host& host) {
  const std::string& name = request.command[0];
  if (name.empty()) return Error{ErrorKind::usage, "the program's name is empty"};
  if (request.run_path) return run_path_program(request, host);
  if (request.module && request.no_python)
    return Error{ErrorKind::usage, "--module needs Python: leave out --no-python or --module"};
  if (request.module || (name == "-" && !request.no_python)) return python_program(request, host);

  std::string file = locate(request, host);
  FileFacts facts = file.empty() ? FileFacts{} : host.probe(file);
  if (facts.kind == Kind::missing) return missing_program(name, host);
  if (is_for_python(request, file, facts, host)) {
    if (facts.kind == Kind::file && !facts.readable)
      return not_executable(fmt::format("{}: you may not read it, so Python cannot run it", printable(name)));
    return python_program(request, host);
  }
  if (facts.kind != Kind::file || !facts.executable) return cannot_execute(name, facts);
  if (auto fine = check_executable(file, facts, host); !fine) return fine.error();
  return direct_program(request, file, facts, host);
}

}  // namespace dtrain::cli
