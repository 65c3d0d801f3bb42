#pragma once
// The user's Python and the torch that it would import, asked without importing torch.
#include <string>

#include "cli/machine/host.h"

namespace dtrain::cli {

struct PythonFacts {
  std::string command;     // what `dtrain run` would execute; empty: there is none
  std::string executable;  // what it turned out to be (behind a pyenv shim, say)
  std::string version;     // "3.11.2"
  std::string torch_file;  // <site-packages>/torch/__init__.py; empty: there is no torch
  std::string torch;       // "2.15.0+cpu"
  std::string cuda;        // the CUDA version that torch was built for; empty: none
  std::string hip;         // the same for ROCm
  std::string problem;     // why nothing is known: no Python, or one that does not answer
};

// Starts the interpreter once; ten seconds at most.
PythonFacts python_facts(const Host& host);

// What the interpreter printed -> facts; pure.
PythonFacts python_answer(const std::string& command, const std::string& answer);

}  // namespace dtrain::cli
