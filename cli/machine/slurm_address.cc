#include "cli/machine/slurm_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <chrono>

#include "cli/base/text.h"
#include "cli/children/ask_program.h"

namespace dtrain::cli {
namespace {

bool resolves(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

}  // namespace

std::string slurm_address(const std::string& node, const std::string& scontrol) {
  if (resolves(node)) return node;
  if (scontrol.empty() || node.starts_with('-')) return node;
  auto answer = ask_program({scontrol, "show", "node", node, "--oneliner"}, std::chrono::seconds(10));
  const std::string address = answer ? node_address(*answer) : "";
  return address.empty() ? node : address;
}

std::string scontrol_value(std::string_view says, std::string_view key) {
  for (const std::string& word : split(std::string(says.substr(0, says.find('\n'))), ' '))
    if (word.size() > key.size() && word[key.size()] == '=' && word.starts_with(key))
      return word.substr(key.size() + 1);
  return "";
}

std::string node_address(const std::string& scontrol_says) { return scontrol_value(scontrol_says, "NodeAddr"); }

}  // namespace dtrain::cli
