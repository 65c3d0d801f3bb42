#pragma once
// What `dtrain env` prints for a bug report. The forms are pure; collecting is in env_facts.cc.
#include <map>
#include <string>
#include <string_view>
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

// The variables that matter to a job, in order of their names, without what must not leave the machine:
//  - the value of a name with TOKEN, SECRET, KEY, PASSWORD, CREDENTIAL and the like in it;
//  - user and password in a URL; what follows `token=` and the like inside a value.
std::vector<Fact> shown_variables(const std::map<std::string, std::string>& env);
std::string redacted(std::string_view name, std::string_view value);

}  // namespace dtrain::cli
