// See peers.h. Two keys a rank: "peer/<rank>" holds its facts; "segment" holds rank 0's answer to all.
#include "strategies/comm/peers.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

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

std::uint64_t random_token() {
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof(token), 0) != sizeof(token)) throw std::runtime_error("getrandom failed");
  return token;
}

std::string peer_key(int rank) { return fmt::format("peer/{}", rank); }
constexpr const char* kSegmentKey = "segment";

PeerFacts await_facts(MeetingPlace& place, int rank, MeetingPlace::Deadline deadline) {
  try {
    return parse_facts(place.take(peer_key(rank), deadline));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank {} did not come ({})", rank, error.what()));
  }
}

nlohmann::json await_answer(MeetingPlace& place, MeetingPlace::Deadline deadline) {
  try {
    return nlohmann::json::parse(place.take(kSegmentKey, deadline));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank 0 did not answer ({})", error.what()));
  }
}

ShmSegment create_and_publish(MeetingPlace& place, int ranks, std::uint32_t slot_bytes,
                              MeetingPlace::Deadline deadline) {
  std::vector<PeerFacts> facts;
  try {
    for (int r = 0; r < ranks; ++r) facts.push_back(await_facts(place, r, deadline));
    const std::string problem = why_not_together(facts);
    if (!problem.empty()) throw std::runtime_error(problem);
    const std::uint64_t token = random_token();
    ShmSegment segment = ShmSegment::create(static_cast<std::uint32_t>(ranks), slot_bytes, token);
    for (int r = 0; r < ranks; ++r) segment.rank(r).pid = facts[static_cast<std::size_t>(r)].pid;
    place.put(kSegmentKey, nlohmann::json{{"pid", facts[0].proc_pid}, {"fd", segment.fd()}, {"token", token}}.dump());
    return segment;
  } catch (const std::exception& error) {
    place.put(kSegmentKey, nlohmann::json{{"error", error.what()}}.dump());
    throw;
  }
}

ShmSegment open_segment(int pid, int fd, std::uint64_t token) {
  try {
    return ShmSegment::open(pid, fd, token);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) {
      throw std::runtime_error(
          fmt::format("rank 0 (pid {}) ended or left while the group formed: see its output", pid));
    }
    throw std::runtime_error(fmt::format("cannot share memory with rank 0 (pid {}): {}{}", pid, error.what(),
                                         error.code() == std::errc::permission_denied
                                             ? "; rank 0 must not be setuid, have file capabilities or be undumpable"
                                             : ""));
  }
}

ShmSegment open_published(MeetingPlace& place, int ranks, std::uint32_t slot_bytes, MeetingPlace::Deadline deadline) {
  const nlohmann::json answer = await_answer(place, deadline);
  if (answer.contains("error")) throw std::runtime_error(answer["error"].get<std::string>());
  ShmSegment segment =
      open_segment(answer.at("pid").get<int>(), answer.at("fd").get<int>(), answer.at("token").get<std::uint64_t>());
  const SegmentHeader& header = segment.header();
  if (header.ranks != static_cast<std::uint32_t>(ranks) || header.slot_bytes != slot_bytes) {
    throw std::runtime_error(fmt::format(
        "rank 0 made a group of {} ranks and slots of {} bytes, this rank was told {} and {}; WORLD_SIZE and "
        "the build of dtrain must be the same on every rank",
        header.ranks, header.slot_bytes, ranks, slot_bytes));
  }
  return segment;
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

std::string serialize(const PeerFacts& facts) {
  return nlohmann::json{{"host", facts.host}, {"boot_id", facts.boot_id}, {"pid_namespace", facts.pid_namespace},
                        {"pid", facts.pid},   {"uid", facts.uid},         {"proc_pid", facts.proc_pid}}
      .dump();
}

PeerFacts parse_facts(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) throw std::runtime_error("a rank's facts in the store are malformed: " + text);
  return {json.value("host", ""), json.value("boot_id", ""), json.value("pid_namespace", ""),
          json.value("pid", 0),   json.value("uid", -1),     json.value("proc_pid", 0)};
}

std::string why_not_together(const std::vector<PeerFacts>& facts) {
  for (std::size_t r = 1; r < facts.size(); ++r) {
    if (facts[r].boot_id != facts[0].boot_id) {
      return fmt::format(
          "rank 0 runs on host '{}' and rank {} on host '{}'; CPU collectives of this version connect the "
          "ranks of one host only, so start all ranks on one node",
          facts[0].host, r, facts[r].host);
    }
    if (facts[r].pid_namespace != facts[0].pid_namespace) {
      return fmt::format(
          "rank 0 and rank {} run in different PID namespaces of host '{}' (containers) and cannot share "
          "memory; start all ranks in one container",
          r, facts[0].host);
    }
    if (facts[r].uid != facts[0].uid) {
      return fmt::format(
          "rank 0 runs as user {} and rank {} as user {}, so they cannot share memory; start all ranks as one user",
          facts[0].uid, r, facts[r].uid);
    }
  }
  return "";
}

ShmSegment meet(MeetingPlace& place, int rank, int ranks, std::uint32_t slot_bytes, MeetingPlace::Deadline deadline) {
  place.put(peer_key(rank), serialize(own_facts()));
  return rank == 0 ? create_and_publish(place, ranks, slot_bytes, deadline)
                   : open_published(place, ranks, slot_bytes, deadline);
}

}  // namespace dtrain
