#include "rendezvous/pmi/mpi_cards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "rendezvous/base/base64.h"
#include "rendezvous/base/printable.h"

namespace dtrain {
namespace {

constexpr std::size_t kLongestValue = 1023;  // of PMI-1, without its end
constexpr std::string_view kVersion = "2", kNoSeat = "none;";
constexpr std::size_t kLongestName = 255, kLongestCommand = 32, kLongestNamed = 64, kLongestFailure = 200;
constexpr std::size_t kLongestWhy = 600;
constexpr int kMostCpus = 1 << 18;
constexpr char kField = ';', kItem = ',';

Error mpi_error(const std::string& what) {
  return {ErrorKind::usage,
          fmt::format("{}; to ignore MPI use --standalone, or say where the nodes meet with --nnodes, "
                      "--node-rank and --rdzv-endpoint",
                      what)};
}

std::vector<std::string> fields_of(std::string_view text, char separator) {
  std::vector<std::string> found;
  if (text.empty()) return found;
  for (;;) {
    const auto end = text.find(separator);
    found.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return found;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> number_in(std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) return std::nullopt;
  return value;
}

Error no_card(std::string_view text) {
  return mpi_error(fmt::format("another process of this MPI job runs another version of dtrain, or none: it says '{}'",
                               printable(text, 60)));
}

// The CPUs of "0-3,8"; nothing: it is no such list.
std::optional<std::vector<int>> cpus_in(const std::string& text) {
  std::vector<int> found;
  for (const std::string& range : fields_of(text, kItem)) {
    const auto dash = range.find('-');
    const auto first = number_in(range.substr(0, dash), 0, kMostCpus);
    const auto last = dash == std::string::npos ? first : number_in(range.substr(dash + 1), 0, kMostCpus);
    if (!first || !last || *last < *first || (!found.empty() && *first <= found.back())) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) found.push_back(cpu);
  }
  return found;
}

std::string ranges_of(const std::vector<int>& cpus) {
  std::vector<std::string> ranges;
  for (std::size_t first = 0, next = 0; first < cpus.size(); first = next) {
    for (next = first + 1; next < cpus.size() && cpus[next] == cpus[next - 1] + 1;) ++next;
    ranges.push_back(next == first + 1 ? fmt::format("{}", cpus[first])
                                       : fmt::format("{}-{}", cpus[first], cpus[next - 1]));
  }
  return fmt::format("{}", fmt::join(ranges, ","));
}

// A failure: the kind's number, and the message.
std::string told(ErrorKind kind, std::string_view message, std::size_t longest) {
  return base64(fmt::format("{}{}", static_cast<int>(kind), first_characters(message, longest)));
}

std::optional<Error> heard(const std::string& text) {
  constexpr char kFirst = '0', kLast = kFirst + static_cast<char>(ErrorKind::system);
  const auto words = from_base64(text);
  if (!words || words->size() < 2 || words->front() < kFirst || words->front() > kLast) return std::nullopt;
  return Error{static_cast<ErrorKind>(words->front() - kFirst), words->substr(1)};
}

bool is_plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f && c != kField && c != kItem; });
}

struct AgentHost {
  int agents = 0;
  int processes = 0;
  int expected = 0;
  std::set<int> cpus;
};

std::string who(const std::vector<MpiCard>& cards, std::size_t rank) {
  return fmt::format("process {} (on {})", rank, printable(cards[rank].host));
}

std::string credential_of(const MpiCard& card) {
  return card.credential.empty() ? "has none" : "has " + printable(card.credential);
}

Result<void> can_all_start(const std::vector<MpiCard>& cards) {
  std::map<std::string, std::size_t> first_of;  // of each host
  std::size_t agent = cards.size();             // the first
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const MpiCard& card = cards[rank];
    if (!card.failure.empty())
      return Error{card.failure_kind, fmt::format("{} of this MPI job cannot start: {}", who(cards, rank),
                                                  printable(card.failure, kLongestFailure))};
    const auto [first, is_first] = first_of.emplace(card.host, rank);
    if (!is_first && cards[first->second].command != card.command)
      return mpi_error(fmt::format(
          "{} and {} have different commands, and a host has one agent: give one host one command, or start one "
          "process on each host (mpirun -N 1)",
          who(cards, first->second), who(cards, rank)));
    if (card.local_rank != 0) continue;
    if (agent == cards.size()) agent = rank;
    if (cards[agent].credential != card.credential)
      return mpi_error(fmt::format(
          "agents have different credentials: {} {}, and {} {}. Open MPI hands variables on with -x (mpirun -x "
          "DTRAIN_TOKEN); without any of them dtrain makes a secret for the job",
          who(cards, agent), credential_of(cards[agent]), who(cards, rank), credential_of(card)));
  }
  return {};
}

}  // namespace

Result<std::string> card_text(const MpiCard& card) {
  if (card.host.empty() || !is_plain(card.host) || card.host.size() > kLongestName)
    return mpi_error(fmt::format("MPI's launcher calls this host '{}', which is no name", printable(card.host)));
  std::vector<std::string> addresses = card.addresses;
  for (std::string cpus = ranges_of(card.cpus);;) {
    std::string text = fmt::format(
        "{};{};{};{};{};{};{};{};{};{}", kVersion, card.host, card.local_rank, card.local_size,
        base64({reinterpret_cast<const char*>(card.key.data()), card.key.size()}), fmt::join(addresses, ","), cpus,
        card.command, base64(first_characters(card.credential, kLongestNamed)),
        card.failure.empty() ? "" : told(card.failure_kind, card.failure, kLongestFailure));
    if (text.size() <= kLongestValue) return text;
    if (addresses.empty()) cpus.clear();
    if (!addresses.empty()) addresses.pop_back();
  }
}

Result<MpiCard> parse_card(std::string_view text) {
  const auto fields = fields_of(text, kField);
  if (fields.size() != 10 || fields[0] != kVersion || text.size() > kLongestValue) return no_card(text);
  const auto local_rank = number_in(fields[2], 0, kMostCpus), local_size = number_in(fields[3], 1, kMostCpus);
  const auto key = from_base64(fields[4]);
  const auto cpus = cpus_in(fields[6]);
  const auto credential = from_base64(fields[8]);
  const auto failure = heard(fields[9]);
  MpiCard card{.host = fields[1], .addresses = fields_of(fields[5], kItem), .command = fields[7]};
  if (card.host.empty() || !is_plain(card.host) || !local_rank || !local_size || *local_rank >= *local_size || !key ||
      key->size() != card.key.size() || !cpus || !is_plain(card.command) || !credential ||
      card.host.size() > kLongestName || card.command.size() > kLongestCommand || credential->size() > kLongestNamed ||
      (!fields[9].empty() && !failure) || (failure && failure->message.size() > kLongestFailure))
    return no_card(text);
  for (const std::string& address : card.addresses)
    if (address.empty() || !is_plain(address)) return no_card(text);
  card.local_rank = *local_rank;
  card.local_size = *local_size;
  card.cpus = *cpus;
  card.credential = *credential;
  if (failure) {
    card.failure = failure->message;
    card.failure_kind = failure->kind;
  }
  std::copy(key->begin(), key->end(), card.key.begin());
  return card;
}

std::string seat_text(const MpiSeat& seat) {
  return fmt::format("{};{};{};{};{};{}", kVersion, seat.nodes, seat.node_rank, seat.workers, ranges_of(seat.cpus),
                     base64(seat.secret));
}

std::string no_seat_text(const Error& why) { return std::string(kNoSeat) + told(why.kind, why.message, kLongestWhy); }

Result<MpiSeat> parse_seat(std::string_view text) {
  if (text.starts_with(kNoSeat)) {
    const auto why = heard(std::string(text.substr(kNoSeat.size())));
    return why ? Error{why->kind, printable(why->message, kLongestWhy)} : no_card(text);
  }
  const auto fields = fields_of(text, kField);
  if (fields.size() != 6 || fields[0] != kVersion || text.size() > kLongestValue) return no_card(text);
  const auto nodes = number_in(fields[1], 1, kMostCpus), node_rank = number_in(fields[2], -1, kMostCpus),
             workers = number_in(fields[3], 1, kMostCpus);
  const auto secret = from_base64(fields[5]);
  const auto cpus = cpus_in(fields[4]);
  if (!nodes || !node_rank || *node_rank >= *nodes || !workers || !secret || !cpus) return no_card(text);
  return MpiSeat{*nodes, *node_rank, *workers, *cpus, *secret};
}

Result<std::vector<MpiSeat>> seats_for(const std::vector<MpiCard>& cards) {
  if (auto fine = can_all_start(cards); !fine) return fine.error();
  std::map<std::string, AgentHost> hosts;
  for (const MpiCard& card : cards) {
    AgentHost& host = hosts[card.host];
    host.agents += card.local_rank == 0 ? 1 : 0;
    ++host.processes;
    host.expected = card.local_size;
    host.cpus.insert(card.cpus.begin(), card.cpus.end());
  }
  for (const auto& [name, host] : hosts)
    if (host.agents != 1 || host.processes != host.expected)
      return mpi_error(fmt::format("MPI's launcher says that {} has {} processes, and {} came, {} of them the first",
                                   printable(name), host.expected, host.processes, host.agents));
  if (cards.empty() || cards[0].local_rank != 0) return mpi_error("MPI's rank 0 is not the first process of its host");
  std::vector<MpiSeat> seats;
  int next = 0;
  for (const MpiCard& card : cards) {
    const AgentHost& host = hosts[card.host];
    const int node_rank = card.local_rank == 0 ? next++ : -1;
    seats.push_back(
        {static_cast<int>(hosts.size()), node_rank, host.processes, {host.cpus.begin(), host.cpus.end()}, {}});
  }
  return seats;
}

bool is_own_choice(std::string_view binding, std::string_view mapping) {
  constexpr std::string_view kDefault = ":IF-SUPPORTED";
  // By a rankfile, else by a list of CPUs.
  return binding.find(kDefault) != std::string_view::npos && mapping.starts_with("BY") &&
         !mapping.starts_with("BYUSER");
}

std::vector<std::string> hosts_of_agents(const std::vector<MpiCard>& cards) {
  std::vector<std::string> hosts;
  for (const MpiCard& card : cards)
    if (card.local_rank == 0) hosts.push_back(card.host);
  return hosts;
}

}  // namespace dtrain
