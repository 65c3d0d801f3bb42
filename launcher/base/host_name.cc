#include "launcher/base/host_name.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "launcher/base/small_file.h"

namespace dtrain::launcher {
namespace {

using Words = std::vector<std::string>;

// An address and its names.
Words words_of(std::string_view line) {
  std::istringstream text{std::string(line.substr(0, line.find('#')))};
  Words words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::string kernel_hostname() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string short_hostname() {
  const std::string full = kernel_hostname();
  return full.substr(0, full.find('.'));
}

std::string qualified_name(std::string_view hosts, std::string_view name) {
  std::vector<Words> lines;
  for (size_t at = 0; at < hosts.size();) {
    const size_t end = std::min(hosts.find('\n', at), hosts.size());
    if (Words words = words_of(hosts.substr(at, end - at)); words.size() > 1) lines.push_back(std::move(words));
    at = end + 1;
  }
  const auto has_name = [&](const Words& w) { return std::find(w.begin() + 1, w.end(), name) != w.end(); };
  const auto own = std::find_if(lines.begin(), lines.end(), has_name);
  if (own == lines.end()) return std::string(name);
  const auto same_address = [&](const Words& w) { return w[0] == (*own)[0]; };
  const Words& names = *std::find_if(lines.begin(), lines.end(), same_address);
  const auto dotted = [](const std::string& w) { return w.find('.') != std::string::npos; };
  const auto best = std::find_if(names.begin() + 1, names.end(), dotted);
  return best == names.end() ? names[1] : *best;
}

std::string qualified_hostname() { return qualified_name(read_small_file("/etc/hosts"), kernel_hostname()); }

}  // namespace dtrain::launcher
