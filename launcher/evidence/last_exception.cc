#include "launcher/evidence/last_exception.h"

#include <csignal>
#include <string_view>

namespace dtrain::launcher {
namespace {

// torch.distributed puts "[rank1]: " before each line of a traceback.
std::string_view without_rank(std::string_view line) {
  if (!line.starts_with("[rank")) return line;
  const std::size_t end = line.find("]: ");
  return end == line.npos ? line : line.substr(end + 3);
}

// What C++ says when a thread that still runs is destroyed, as gloo's are where Python takes the process down.
constexpr std::string_view kTakenDown = "terminate called without an active exception";

struct PythonException {
  std::string text;
  bool last = false;  // nothing was said after it
};

PythonException python_exception(const std::vector<std::string>& lines) {
  PythonException found;
  bool in_traceback = false;
  for (const std::string& each : lines) {
    const std::string_view line = without_rank(each);
    if (line.starts_with("Traceback (most recent call last):")) {
      in_traceback = true;
    } else if (in_traceback && !line.empty() && line.front() != ' ') {
      found = {std::string(line), true};
      in_traceback = false;
    } else if (line != kTakenDown) {
      found.last = false;
    }
  }
  return found;
}

std::string cpp_exception(const std::vector<std::string>& lines) {
  constexpr std::string_view kThrown = "terminate called after throwing an instance of '";
  constexpr std::string_view kWhat = "  what():  ";
  std::string found;
  for (const std::string& line : lines) {
    const std::size_t at = line.find(kThrown);
    if (at != line.npos) {
      found = line.substr(at + kThrown.size());
      found.resize(std::min(found.size(), found.rfind('\'')));
    } else if (line.starts_with(kWhat) && !found.empty() && found.find(": ") == found.npos) {
      found += ": " + line.substr(kWhat.size());
    }
  }
  return found;
}

}  // namespace

std::string exception_in(const std::vector<std::string>& lines, const ExitStatus& status) {
  if (status == ExitStatus::exited(1)) return python_exception(lines).text;
  if (status.kind != ExitStatus::Kind::signaled || status.code != SIGABRT) return "";
  if (std::string thrown = cpp_exception(lines); !thrown.empty()) return thrown;
  // An interpreter that has printed its exception may abort as it is taken down. After any other signal a traceback may
  // be of long ago, and caught.
  const PythonException caught_by_none = python_exception(lines);
  return caught_by_none.last ? caught_by_none.text : "";
}

}  // namespace dtrain::launcher
