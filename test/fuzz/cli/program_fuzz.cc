// Fuzzes the beginning of the program's file, as far as dtrain looks into it, and what the user's Python answers: a
// command to execute or one line that says why there is none.
#include <cstdint>
#include <string>

#include "cli/program/program.h"
#include "cli/program/python_facts.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;

// Byte 0: how the program is asked for; the rest: the first bytes of its file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string head(reinterpret_cast<const char*>(data) + 1, size - 1);
  Host host;
  host.machine = 62;
  host.env["PATH"] = "/bin";
  host.probe = [&head](const std::string& path) {
    return FileFacts{FileFacts::Kind::file, true, true, true, true, path == "./x" ? head : "#!/bin/sh\n"};
  };
  const Shebang shebang = shebang_of(head);
  DT_CHECK(head.starts_with("#!") || shebang.interpreter.empty(), "no interpreter without #!");

  ProgramRequest request;
  request.command = {"./x"};
  request.module = (data[0] & 1) != 0;
  request.no_python = (data[0] & 2) != 0;
  request.as_torchrun = (data[0] & 4) != 0;
  const auto program = build_program(request, host);
  if (!program) {
    check_one_line(program.error().message);
  } else {
    DT_CHECK(!program->argv.empty() && !program->argv[0].empty(), "there is something to execute");
    DT_CHECK(!has_control_bytes(program->note), "a note is one printable line");
  }
  const PythonFacts facts = python_answer("python3", head);
  DT_CHECK(facts.command == "python3", "the question was put to it");
  return 0;
}
