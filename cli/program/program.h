#pragma once
// From the program the user named to the argv of a worker, or to an error before any worker runs.
// Pure, given a Host.
#include <string>
#include <vector>

#include "cli/machine/host.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct ProgramRequest {
  std::vector<std::string> command;  // the program and its arguments, not empty
  bool module = false;               // -m
  bool no_python = false;
  bool as_torchrun = false;  // a Python program even if it is executable
  bool run_path = false;     // --run-path: by runpy.run_path
};

struct Program {
  std::vector<std::string> argv;
  std::string name;       // what messages call it: the script for Python, else argv[0]
  std::string file;       // the file that is executed: Python, or the program as found in PATH
  std::string note = {};  // what the user may want to know
  bool is_python = false;
};

// Decide whether Python runs the program or it runs itself, and check that it can.
// Errors: usage; not_found (127); not_executable (126).
Result<Program> build_program(const ProgramRequest& request, const Host& host);

// The user's Python: $PYTHON_EXEC, else $VIRTUAL_ENV/bin/python, else python3 or python in PATH.
Result<std::string> find_python(const Host& host);

// Why the kernel would refuse this executable file (no interpreter, other machine, no format), as an error that says
// what to do; ok if nothing speaks against it.
Result<void> check_executable(const std::string& path, const FileFacts& facts, const Host& host);

// The command after #! with its arguments, as the kernel cuts it: {interpreter, rest}; empty without #!.
struct Shebang {
  std::string interpreter;
  std::string argument;
};
Shebang shebang_of(const std::string& head);

}  // namespace dtrain::cli
