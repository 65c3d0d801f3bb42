#pragma once
// What `dtrain env` prints for a bug report. The forms are pure; collecting is in env_facts.cc.
#include <map>
#include <string>
#include <vector>

namespace dtrain::cli {

struct Fact {
  std::string name;
  std::string value;
};
struct FactGroup {
  std::string title;
  std::vector<Fact> facts;
};

// Asks the machine, Python and the GPU driver; each within a bounded time. Forks: call with one thread.
std::vector<FactGroup> env_facts();

std::string env_text(const std::vector<FactGroup>& groups);
std::string env_json(const std::vector<FactGroup>& groups);

// The variables that matter to a job, in order of their names, without secrets (cli/doctor/redact.h).
std::vector<Fact> shown_variables(const std::map<std::string, std::string>& env);

}  // namespace dtrain::cli
