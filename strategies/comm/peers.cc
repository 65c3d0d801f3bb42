// See peers.h. "peer/<rank>" holds a rank's facts; "segment" rank 0's answer to all: its segment, or everybody's facts.
// In that case "segment/<rank>" is the segment of the host whose first rank that is.
#include "strategies/comm/peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "strategies/comm/answer.h"

namespace dtrain {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, PATH_MAX> target{};
  const auto length = ::readlink(path, target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : "";
}

std::string peer_key(int rank) { return fmt::format("peer/{}", rank); }
constexpr const char* kSegmentKey = "segment";

nlohmann::json to_json(const PeerFacts& facts) {
  return {{"host", facts.host}, {"boot_id", facts.boot_id}, {"pid_namespace", facts.pid_namespace},
          {"pid", facts.pid},   {"uid", facts.uid},         {"proc_pid", facts.proc_pid}};
}

PeerFacts from_json(const nlohmann::json& json) {
  return {json.value("host", ""), json.value("boot_id", ""), json.value("pid_namespace", ""),
          json.value("pid", 0),   json.value("uid", -1),     json.value("proc_pid", 0)};
}

PeerFacts await_facts(MeetingPlace& place, int rank, MeetingPlace::Deadline deadline) {
  try {
    return parse_facts(place.take(peer_key(rank), deadline));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank {} did not come ({})", rank, error.what()));
  }
}

// What rank `from` says under this key.
nlohmann::json await_answer(MeetingPlace& place, const std::string& key, int from, MeetingPlace::Deadline deadline) {
  nlohmann::json answer;
  try {
    answer = nlohmann::json::parse(place.take(key, deadline));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank {} did not answer ({})", from, error.what()));
  }
  if (answer.contains("error")) throw std::runtime_error(answer["error"].get<std::string>());
  return answer;
}

// By the first of `members`.
std::pair<ShmSegment, nlohmann::json> create_segment(const std::vector<PeerFacts>& facts,
                                                     const std::vector<int>& members, std::uint32_t slot_bytes) {
  const std::uint64_t token = random_token();
  ShmSegment segment = ShmSegment::create(static_cast<std::uint32_t>(facts.size()), slot_bytes, token, members);
  for (std::size_t r = 0; r < facts.size(); ++r) segment.rank(static_cast<int>(r)).pid = facts[r].pid;
  const int proc_pid = facts[static_cast<std::size_t>(members.front())].proc_pid;
  nlohmann::json answer{{"pid", proc_pid}, {"fd", segment.fd()}, {"token", token}};
  return {std::move(segment), std::move(answer)};
}

ShmSegment open_segment(const nlohmann::json& answer, int from) {
  const int pid = answer.at("pid").get<int>();
  try {
    return ShmSegment::open(pid, answer.at("fd").get<int>(), answer.at("token").get<std::uint64_t>());
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) {
      throw std::runtime_error(
          fmt::format("rank {} (pid {}) ended or left while the group formed: see its output", from, pid));
    }
    const bool denied = error.code() == std::errc::permission_denied;
    throw std::runtime_error(fmt::format(
        "cannot share memory with rank {} (pid {}): {}{}", from, pid, error.what(),
        denied ? fmt::format("; rank {} must not be setuid, have file capabilities or be undumpable", from) : ""));
  }
}

void check_shape(const ShmSegment& segment, int from, int ranks, std::uint32_t slot_bytes) {
  const SegmentHeader& header = segment.header();
  if (header.ranks == static_cast<std::uint32_t>(ranks) && header.slot_bytes == slot_bytes) return;
  throw std::runtime_error(fmt::format(
      "rank {} made a group of {} ranks and slots of {} bytes, this rank was told {} and {}; WORLD_SIZE and "
      "the build of dtrain must be the same on every rank",
      from, header.ranks, header.slot_bytes, ranks, slot_bytes));
}

Meeting gather_ranks(MeetingPlace& place, int ranks, std::uint32_t slot_bytes, MeetingPlace::Deadline deadline) {
  return answer_with(place, kSegmentKey, [&]() -> std::pair<Meeting, nlohmann::json> {
    std::vector<PeerFacts> facts;
    for (int r = 0; r < ranks; ++r) facts.push_back(await_facts(place, r, deadline));
    const auto hosts = by_host(facts);
    if (hosts.size() == 1) {
      auto [segment, answer] = create_segment(facts, hosts.front(), slot_bytes);
      return {Meeting{std::move(segment), {}}, std::move(answer)};
    }
    nlohmann::json all = nlohmann::json::array();
    for (const PeerFacts& one : facts) all.push_back(to_json(one));
    return {Meeting{{}, std::move(facts)}, nlohmann::json{{"facts", std::move(all)}}};
  });
}

Meeting come_to_rank_0(MeetingPlace& place, int ranks, std::uint32_t slot_bytes, MeetingPlace::Deadline deadline) {
  const nlohmann::json answer = await_answer(place, kSegmentKey, 0, deadline);
  if (!answer.contains("facts")) {
    ShmSegment segment = open_segment(answer, 0);
    check_shape(segment, 0, ranks, slot_bytes);
    return {std::move(segment), {}};
  }
  std::vector<PeerFacts> facts;
  for (const nlohmann::json& one : answer["facts"]) facts.push_back(from_json(one));
  if (facts.size() == static_cast<std::size_t>(ranks)) return {{}, std::move(facts)};
  throw std::runtime_error(
      fmt::format("rank 0 made a group of {} ranks, this rank was told {}; WORLD_SIZE must be the same on every rank",
                  facts.size(), ranks));
}

}  // namespace

PeerFacts own_facts() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), HOST_NAME_MAX);
  return {host.data(),
          first_line("/proc/sys/kernel/random/boot_id"),
          link_target("/proc/self/ns/pid"),
          ::getpid(),
          static_cast<int>(::geteuid()),
          std::atoi(link_target("/proc/self").c_str())};
}

std::string serialize(const PeerFacts& facts) { return to_json(facts).dump(); }

PeerFacts parse_facts(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) throw std::runtime_error("a rank's facts in the store are malformed: " + text);
  return from_json(json);
}

bool can_share_memory(const PeerFacts& one, const PeerFacts& other) {
  // What could not be read is nobody else's.
  const bool known = !one.boot_id.empty() && !one.pid_namespace.empty();
  return known && one.boot_id == other.boot_id && one.pid_namespace == other.pid_namespace && one.uid == other.uid;
}

std::vector<std::vector<int>> by_host(const std::vector<PeerFacts>& facts) {
  std::vector<std::vector<int>> hosts;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const auto is_here = [&](const std::vector<int>& ranks) {
      return can_share_memory(facts[static_cast<std::size_t>(ranks.front())], facts[r]);
    };
    auto host = std::find_if(hosts.begin(), hosts.end(), is_here);
    if (host == hosts.end()) host = hosts.insert(host, std::vector<int>{});
    host->push_back(static_cast<int>(r));
  }
  return hosts;
}

Meeting meet(MeetingPlace& place, int rank, int ranks, std::uint32_t slot_bytes, MeetingPlace::Deadline deadline) {
  place.put(peer_key(rank), serialize(own_facts()));
  return rank == 0 ? gather_ranks(place, ranks, slot_bytes, deadline)
                   : come_to_rank_0(place, ranks, slot_bytes, deadline);
}

ShmSegment meet_on_this_host(MeetingPlace& place, int rank, const std::vector<PeerFacts>& facts,
                             const std::vector<int>& members, std::uint32_t slot_bytes,
                             MeetingPlace::Deadline deadline) {
  const int first = members.front();
  const std::string key = fmt::format("{}/{}", kSegmentKey, first);
  if (rank == first) return answer_with(place, key, [&] { return create_segment(facts, members, slot_bytes); });
  ShmSegment segment = open_segment(await_answer(place, key, first, deadline), first);
  check_shape(segment, first, static_cast<int>(facts.size()), slot_bytes);
  return segment;
}

}  // namespace dtrain
