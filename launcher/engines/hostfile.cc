#include "launcher/engines/hostfile.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "launcher/engines/hostlist.h"
#include "launcher/engines/variables.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

constexpr std::uint32_t kMostSlots = 65536;
constexpr std::string_view kSlots = "slots=", kBlanks = " \t\r";

Error refused_list(const std::string& what) { return {ErrorKind::usage, what}; }

std::optional<int> slots_in(std::string_view text) {
  const auto value = number(text);
  return value && *value > 0 && *value <= kMostSlots ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Where the name begins after "user@".
std::size_t end_of_user(std::string_view name) {
  const auto at = name.find('@');
  return at == std::string_view::npos ? 0 : at + 1;
}

// "NAME:8" of an IPv4 address or a name; an IPv6 address has brackets then.
std::pair<std::string_view, std::optional<std::string_view>> name_and_slots(std::string_view word) {
  const auto colon = word.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return {word, std::nullopt};
  const bool brackets = word.substr(end_of_user(word)).starts_with('[');
  if (brackets ? word[colon - 1] != ']' : word.find(':') != colon) return {word, std::nullopt};
  return {word.substr(0, colon), word.substr(colon + 1)};
}

std::string without_brackets(std::string_view name) {
  const std::string_view user = name.substr(0, end_of_user(name)), host = name.substr(user.size());
  if (host.starts_with('[') && host.ends_with(']') && host.find(':') != std::string_view::npos)
    return fmt::format("{}{}", user, host.substr(1, host.size() - 2));
  return std::string(name);
}

// Perhaps after "user@".
bool is_ipv6(std::string_view name) {
  name.remove_prefix(end_of_user(name));
  const std::string_view address = name.substr(0, name.find('%'));
  const auto colons = std::count(address.begin(), address.end(), ':');
  return (colons == 7 || (colons >= 2 && address.find("::") != std::string_view::npos)) &&
         address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

// ssh takes a word that begins with '-' for an option.
bool is_host_name(std::string_view name) {
  if (name.find(':') != std::string_view::npos && !is_ipv6(name)) return false;
  return !name.empty() && !name.starts_with('-') && std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("'\"`$\\;|&<>(){}[]*?!,").find(c) == std::string_view::npos;
  });
}

// One line, of which comment and blanks around are gone.
Result<PlacedHost> parse_line(std::string_view line) {
  const auto end = line.find_first_of(kBlanks);
  auto [name, slots] = name_and_slots(line.substr(0, end));
  PlacedHost host{without_brackets(name)};
  if (!is_host_name(host.name)) return refused_list(fmt::format("'{}' is no name of a host", printable(line)));
  std::string_view rest = end == std::string_view::npos ? std::string_view() : trimmed(line.substr(end));
  if (rest.starts_with(kSlots) && !slots) {
    const auto word = rest.substr(0, rest.find_first_of(kBlanks));
    slots = word.substr(kSlots.size());
    rest = trimmed(rest.substr(word.size()));
  }
  // Open MPI's bound for what comes on top of the slots, which is nothing here.
  if (rest.starts_with("max_slots=") || rest.starts_with("max-slots="))
    rest = trimmed(rest.substr(std::min(rest.find_first_of(kBlanks), rest.size())));
  if (!rest.empty())
    return refused_list(fmt::format("'{}' is not known; a line is NAME, NAME slots=N or NAME:N", printable(rest)));
  if (!slots) return host;
  const auto many = slots_in(*slots);
  if (!many) return refused_list(fmt::format("'{}' is no number of slots", printable(*slots)));
  host.slots = *many;
  return host;
}

Result<void> add_host(std::vector<PlacedHost>& hosts, PlacedHost host) {
  const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const auto& each) { return each.name == host.name; });
  if (same == hosts.end()) {
    if (hosts.size() == kMostHosts) return refused_list(fmt::format("more than {} hosts", kMostHosts));
    hosts.push_back(std::move(host));
    return {};
  }
  same->slots = std::max(1, same->slots) + std::max(1, host.slots);
  if (same->slots > static_cast<int>(kMostSlots)) return refused_list(fmt::format("{} has too many slots", host.name));
  return {};
}

bool is_bracketed_address(std::string_view name) {
  name.remove_prefix(end_of_user(name));
  return name.starts_with('[') && name.find(':') < name.find(']');
}

// A line whose name may have SLURM's ranges.
Result<void> add_line(std::vector<PlacedHost>& hosts, std::string_view line) {
  const auto end = std::min(line.find_first_of(kBlanks), line.size());
  const auto close = line.substr(0, end).rfind(']');
  const bool has_range = close != std::string_view::npos && !is_bracketed_address(line);
  const auto colon = has_range ? line.find(':', close) : end;
  const auto name_end = std::min(colon, end);
  const auto names = has_range ? expand_hostlist(line.substr(0, name_end))
                               : Result<std::vector<std::string>>({std::string(line.substr(0, end))});
  if (!names) return names.error();
  for (const std::string& name : *names) {
    auto host = parse_line(name + std::string(line.substr(has_range ? name_end : end)));
    if (!host) return host.error();
    if (auto added = add_host(hosts, std::move(*host)); !added) return added;
  }
  return {};
}

// A comma outside of brackets.
std::size_t end_of_item(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    if (text[i] == ',' && depth <= 0) return i;
  }
  return text.size();
}

// "NAME:0,2" of a filter.
struct Chosen {
  std::string name;
  std::vector<int> slots;  // empty: all
};

// The name at the beginning of a filter: that of one of the hosts, which may have an '@' or colons in it, or what looks
// like one.
std::string_view name_at(std::string_view filter, const std::vector<PlacedHost>& hosts) {
  std::string_view found = filter.substr(0, filter.find_first_of("@:"));
  for (const PlacedHost& host : hosts)
    for (const std::string& form : {host.name, name_in_list(host.name)})
      if (filter.starts_with(form) && form.size() > found.size() &&
          (filter.size() == form.size() || filter[form.size()] == '@' || filter[form.size()] == ':'))
        found = filter.substr(0, form.size());
  return found;
}

Result<std::vector<Chosen>> parse_filter(std::string_view filter, const std::vector<PlacedHost>& hosts) {
  std::vector<Chosen> found;
  while (!filter.empty()) {
    const std::string_view name = name_at(filter, hosts);
    const std::string_view item = filter;
    filter.remove_prefix(name.size());
    const bool has_slots = filter.starts_with(':');
    const std::string_view after = filter.substr(0, filter.find('@'));
    filter.remove_prefix(std::min(after.size() + 1, filter.size()));
    std::string_view slots = has_slots ? after.substr(1) : std::string_view();
    Chosen one{without_brackets(name), {}};
    if (one.name.empty() || (has_slots && slots.empty()))
      return refused_list(fmt::format("'{}' is no choice of hosts; it is NAME@NAME:SLOT,SLOT", printable(item)));
    while (!slots.empty()) {
      const auto comma = std::min(slots.find(','), slots.size());
      const auto slot = number(slots.substr(0, comma));
      if (!slot || *slot >= kMostSlots)
        return refused_list(
            fmt::format("'{}' is no slot of {}", printable(slots.substr(0, comma)), printable(one.name)));
      one.slots.push_back(static_cast<int>(*slot));
      slots.remove_prefix(std::min(comma + 1, slots.size()));
    }
    found.push_back(std::move(one));
  }
  return found;
}

std::vector<int> all_slots(const PlacedHost& host) {
  std::vector<int> all(static_cast<std::size_t>(std::max(1, host.slots)));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// What is left of the hosts if `keeps` says which of the chosen slots are.
Result<std::vector<PlacedHost>> filtered(std::vector<PlacedHost> hosts, std::string_view filter, bool keeps) {
  const auto chosen = parse_filter(filter, hosts);
  if (!chosen) return chosen.error();
  for (const Chosen& each : *chosen) {
    const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& one) { return one.name == each.name; });
    if (host == hosts.end()) return refused_list(fmt::format("{} is none of the hosts", printable(each.name)));
    if (!each.slots.empty() && host->slots == 0)
      return refused_list(fmt::format("how many slots {} has is not said: {}:SLOTS", each.name, each.name));
    for (const int slot : each.slots)
      if (slot >= std::max(1, host->slots))
        return refused_list(
            fmt::format("{} has slots 0 to {}, and not {}", printable(each.name), std::max(1, host->slots) - 1, slot));
  }
  std::vector<PlacedHost> left;
  for (PlacedHost& host : hosts) {
    std::set<int> named;
    bool is_named = false;
    for (const Chosen& each : *chosen) {
      if (each.name != host.name) continue;
      is_named = true;
      const std::vector<int> slots = each.slots.empty() ? all_slots(host) : each.slots;
      named.insert(slots.begin(), slots.end());
    }
    if (!is_named && keeps) continue;
    std::vector<int> slots = all_slots(host);
    const std::size_t before = slots.size();
    if (is_named) std::erase_if(slots, [&](int slot) { return named.contains(slot) != keeps; });
    if (slots.empty()) continue;
    if (slots.size() != before) host.chosen = std::move(slots);
    left.push_back(std::move(host));
  }
  if (left.empty()) return refused_list("no host is left");
  return left;
}

}  // namespace

std::string name_in_list(std::string_view name) {
  const std::string_view user = name.substr(0, end_of_user(name)), host = name.substr(user.size());
  return host.find(':') == std::string_view::npos ? std::string(name) : fmt::format("{}[{}]", user, host);
}

Result<std::vector<PlacedHost>> parse_hostfile(std::string_view text) {
  std::vector<PlacedHost> hosts;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (int line_number = 1; !text.empty(); ++line_number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view said = trimmed(line.substr(0, line.find('#')));
    if (said.empty()) continue;
    if (auto added = add_line(hosts, said); !added) return added.error().in(fmt::format("line {}", line_number));
  }
  if (hosts.empty()) return refused_list("it names no host");
  return hosts;
}

Result<std::vector<PlacedHost>> parse_hosts(std::string_view text) {
  std::vector<PlacedHost> hosts;
  if (text.empty() || text.ends_with(',')) return refused_list("the name of a host is missing");
  while (!text.empty()) {
    const auto end = end_of_item(text);
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (item.empty()) return refused_list("the name of a host is missing");
    if (auto added = add_line(hosts, item); !added) return added.error();
  }
  return hosts;
}

Result<std::vector<PlacedHost>> include_hosts(std::vector<PlacedHost> hosts, std::string_view filter) {
  return filtered(std::move(hosts), filter, true);
}

Result<std::vector<PlacedHost>> exclude_hosts(std::vector<PlacedHost> hosts, std::string_view filter) {
  return filtered(std::move(hosts), filter, false);
}

}  // namespace dtrain::launcher
