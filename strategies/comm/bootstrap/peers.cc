// See peers.h. The keys: "peer/<rank>" holds a rank's facts. "peers" is rank 0's answer: the facts of all ranks.
// "segment/<rank>" says where the segment of a host is; <rank> is the first rank of that host. "probe/<host>" says
// where memory of that rank of the host is that came first: the other ranks of the host try to open it.
#include "strategies/comm/bootstrap/peers.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "strategies/comm/base/own_process.h"
#include "strategies/comm/bootstrap/store_answer.h"

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
constexpr const char* kPeersKey = "peers";

// What the kernel compares besides the effective user, before a process may open another one's descriptors: "<Gid>
// <CapPrm> <CapEff>".
std::string own_rights() {
  std::ifstream status("/proc/self/status");
  std::string rights;
  for (std::string line; std::getline(status, line);) {
    for (const char* name : {"Gid:", "CapPrm:", "CapEff:"}) {
      if (line.rfind(name, 0) == 0) rights += line.substr(line.find('\t'));
    }
  }
  return rights;
}

// The digits of a mask of cores, from the last one on: each stands for four cores.
std::vector<unsigned> digits_of(const std::string& cores) {
  std::vector<unsigned> digits;
  for (auto place = cores.rbegin(); place != cores.rend(); ++place) {
    unsigned digit = 0;
    if (std::from_chars(&*place, &*place + 1, digit, 16).ec == std::errc()) digits.push_back(digit);
  }
  return digits;
}

nlohmann::json to_json(const PeerFacts& facts) {
  return {{"host", facts.host},
          {"boot_id", facts.boot_id},
          {"pid_namespace", facts.pid_namespace},
          {"pid", facts.pid},
          {"uid", facts.uid},
          {"proc_pid", facts.proc_pid},
          {"user_namespace", facts.user_namespace},
          {"rights", facts.rights},
          {"apart", facts.apart},
          {"cores", facts.cores},
          {"quota_cores", facts.quota.cores},
          {"quota_cgroup", facts.quota.cgroup}};
}

PeerFacts from_json(const nlohmann::json& json) {
  if (!json.is_object()) throw std::runtime_error("a rank's facts in the store are malformed: " + json.dump());
  return {json.value("host", ""),
          json.value("boot_id", ""),
          json.value("pid_namespace", ""),
          json.value("pid", 0),
          json.value("uid", -1),
          json.value("proc_pid", 0),
          json.value("user_namespace", ""),
          json.value("rights", ""),
          json.value("apart", false),
          json.value("cores", ""),
          {json.value("quota_cores", 0), json.value("quota_cgroup", "")}};
}

// Where another process finds memory of this process, and the token at the beginning of that memory.
nlohmann::json where_is(int fd, int proc_pid, std::uint64_t token) {
  return {{"pid", proc_pid}, {"fd", fd}, {"token", token}};
}

// Where a process is and what it may do: processes with one spot can share memory. Nothing if this could not be read:
// such a process shares with nobody.
std::optional<std::string> spot_of(const PeerFacts& facts) {
  if (facts.boot_id.empty() || facts.pid_namespace.empty()) return std::nullopt;
  return fmt::format("{} {} {} {} {}", facts.boot_id, facts.pid_namespace, facts.user_namespace, facts.uid,
                     facts.rights);
}

// Why this process cannot share memory although its facts say that it may; empty if it can, as far as it can tell.
class Probe {
 public:
  Probe(GroupStore& store, const PeerFacts& own) {
    if (::prctl(PR_GET_DUMPABLE) != 1) {
      why_apart_ = "it is not dumpable (setuid, file capabilities or prctl), so others may not open its memory";
      return;
    }
    const auto spot = spot_of(own);
    if (!spot) return;
    try {
      const std::uint64_t token = random_token();
      memory_ = SharedMemory::create("dtrain-probe", sizeof(token));
      std::memcpy(memory_.base(), &token, sizeof(token));
      const nlohmann::json mine = where_is(memory_.fd(), own.proc_pid, token);
      const auto key = fmt::format("probe/{:x}", std::hash<std::string>{}(*spot));
      const auto first = nlohmann::json::parse(store.first(key, mine.dump()));
      if (first != mine) why_apart_ = why_closed(first);
    } catch (const std::system_error&) {
      // There is no memory, or no descriptor: sharing will fail, and then the others hear of it.
    }
  }

  const std::string& why_apart() const { return why_apart_; }

 private:
  static std::string why_closed(const nlohmann::json& other) {
    const int pid = other.at("pid").get<int>();
    try {
      const SharedMemory memory = SharedMemory::open(pid, other.at("fd").get<int>());
      std::uint64_t token = 0;
      if (memory.bytes() == sizeof(token)) std::memcpy(&token, memory.base(), sizeof(token));
      return token == other.at("token").get<std::uint64_t>() ? "" : fmt::format("/proc shows another pid {}", pid);
    } catch (const std::system_error& error) {
      const bool denied =
          error.code() == std::errc::permission_denied || error.code() == std::errc::operation_not_permitted;
      return denied ? error.what() : "";  // else the other has ended, or there is no memory, as above
    }
  }

  SharedMemory memory_;  // what others try to open
  std::string why_apart_;
};

void say_apart(const std::vector<PeerFacts>& facts, const PeerFacts& own, const std::string& why) {
  static std::atomic<bool> said{false};
  const auto beside = [&](const PeerFacts& other) { return other.pid != own.pid && spot_of(other) == spot_of(own); };
  if (std::none_of(facts.begin(), facts.end(), beside) || said.exchange(true)) return;
  std::fprintf(stderr, "dtrain: pid %d on %s cannot share memory with other ranks, and talks to them over TCP: %s\n",
               own.pid, own.host.c_str(), why.c_str());
}

// What rank `from` answers under this key. Throws the error that the rank puts there instead.
nlohmann::json await_answer(GroupStore& store, const std::string& key, int from, GroupStore::Deadline deadline) {
  nlohmann::json answer = take_from(store, key, from, "answer", deadline);
  if (answer.contains("error")) throw std::runtime_error(answer["error"].get<std::string>());
  return answer;
}

// The first of `members` creates the segment.
std::pair<ShmSegment, nlohmann::json> create_segment(const std::vector<PeerFacts>& facts,
                                                     const std::vector<int>& members, std::uint32_t slot_bytes) {
  const std::uint64_t token = random_token();
  ShmSegment segment = ShmSegment::create(static_cast<std::uint32_t>(facts.size()), slot_bytes, token, members);
  for (std::size_t r = 0; r < facts.size(); ++r) segment.rank(static_cast<int>(r)).pid = facts[r].pid;
  const int proc_pid = facts[static_cast<std::size_t>(members.front())].proc_pid;
  nlohmann::json answer = where_is(segment.fd(), proc_pid, token);
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

void check_slots(const ShmSegment& segment, int from, std::uint32_t slot_bytes) {
  const std::uint32_t theirs = segment.header().slot_bytes;
  if (theirs == slot_bytes) return;
  throw std::runtime_error(
      fmt::format("rank {} has slots of {} bytes, this rank has {}; the build of dtrain must be the same on every rank",
                  from, theirs, slot_bytes));
}

std::vector<PeerFacts> gather_ranks(GroupStore& store, int ranks, GroupStore::Deadline deadline) {
  return answer_with(store, kPeersKey, [&]() -> std::pair<std::vector<PeerFacts>, nlohmann::json> {
    std::vector<PeerFacts> facts;
    nlohmann::json all = nlohmann::json::array();
    for (int r = 0; r < ranks; ++r) {
      all.push_back(take_from(store, peer_key(r), r, "come", deadline));
      facts.push_back(from_json(all.back()));
    }
    return {std::move(facts), nlohmann::json{{"facts", std::move(all)}}};
  });
}

std::vector<PeerFacts> come_to_rank_0(GroupStore& store, int ranks, GroupStore::Deadline deadline) {
  const nlohmann::json answer = await_answer(store, kPeersKey, 0, deadline);
  std::vector<PeerFacts> facts;
  for (const nlohmann::json& one : answer.at("facts")) facts.push_back(from_json(one));
  if (facts.size() == static_cast<std::size_t>(ranks)) return facts;
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
          own_proc_pid(),
          link_target("/proc/self/ns/user"),
          own_rights(),
          false,
          own_cores(),
          core_quota(text_of_file)};
}

std::string serialize(const PeerFacts& facts) { return to_json(facts).dump(); }

PeerFacts parse_facts(const std::string& text) { return from_json(nlohmann::json::parse(text, nullptr, false)); }

bool can_share_memory(const PeerFacts& one, const PeerFacts& other) {
  const auto spot = spot_of(one);
  return spot && spot == spot_of(other) && !one.apart && !other.apart;
}

bool have_cores(const std::vector<PeerFacts>& facts, int rank) {
  const PeerFacts& own = facts[static_cast<std::size_t>(rank)];
  const std::vector<unsigned> mine = digits_of(own.cores);
  std::vector<unsigned> all = mine;
  int meeting = 1, beside = 1;  // ranks that share cores with this one; ranks that share its quota
  for (const PeerFacts& other : facts) {
    if (&other == &own || own.boot_id.empty() || other.boot_id != own.boot_id) continue;
    const bool shares = other.pid_namespace == own.pid_namespace && other.quota.cgroup == own.quota.cgroup;
    if (shares) ++beside;
    const std::vector<unsigned> theirs = digits_of(other.cores);
    bool meets = theirs.empty();
    for (std::size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) meets = meets || (mine[i] & theirs[i]) != 0;
    if (!meets) continue;
    ++meeting;
    all.resize(std::max(all.size(), theirs.size()));
    for (std::size_t i = 0; i < theirs.size(); ++i) all[i] |= theirs[i];
  }
  const auto plus = [](int sum, unsigned digit) { return sum + std::popcount(digit); };
  const bool within_quota = own.quota.cores == 0 || beside <= own.quota.cores;
  return within_quota && meeting <= std::accumulate(all.begin(), all.end(), 0, plus);
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

std::vector<PeerFacts> meet(GroupStore& store, int rank, int ranks, GroupStore::Deadline deadline) {
  PeerFacts own = own_facts();
  const Probe probe(store, own);  // the others have tried it by the time rank 0 has the facts of all
  own.apart = !probe.why_apart().empty();
  store.put(peer_key(rank), serialize(own));
  std::vector<PeerFacts> facts =
      rank == 0 ? gather_ranks(store, ranks, deadline) : come_to_rank_0(store, ranks, deadline);
  if (own.apart) say_apart(facts, own, probe.why_apart());
  return facts;
}

ShmSegment meet_on_this_host(GroupStore& store, int rank, const std::vector<PeerFacts>& facts,
                             const std::vector<int>& members, std::uint32_t slot_bytes, GroupStore::Deadline deadline) {
  const int first = members.front();
  const std::string key = fmt::format("segment/{}", first);
  if (rank == first) return answer_with(store, key, [&] { return create_segment(facts, members, slot_bytes); });
  ShmSegment segment = open_segment(await_answer(store, key, first, deadline), first);
  check_slots(segment, first, slot_bytes);
  return segment;
}

}  // namespace dtrain
