#pragma once
// PMI-1, in which a process of MPICH's launchers (Hydra, Intel MPI) talks to the one that started it: lines of words
// "name=value", the first of which is the command. Balaji et al., "PMI: A Scalable Parallel Process-Management
// Interface for Extreme-Scale Systems", EuroMPI 2010. Pure.
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain {

// With its end; what a launcher sends is far shorter.
inline constexpr std::size_t kLongestPmiLine = 8192;

struct PmiLine {
  std::string command;
  std::map<std::string, std::string> values;

  // Empty if it is not there.
  std::string value(const std::string& name) const;
};

// Without the end of the line. A word without '=' belongs to the value before it: messages have blanks.
Result<PmiLine> parse_pmi_line(std::string_view text);

// "cmd=COMMAND name=value ...\n". Neither has blanks, ends of lines, or '=' in the name.
std::string pmi_line(std::string_view command, const std::vector<std::pair<std::string, std::string>>& values = {});

}  // namespace dtrain
