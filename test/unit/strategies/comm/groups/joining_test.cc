// How a group of processes forms, and what the others see where one of them cannot join.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "strategies/comm/groups/form_group.h"
#include "test/support/catch.h"
#include "test/unit/strategies/fake_hosts.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::run_ranks;
using test::SharedBoard;

namespace {

constexpr auto kJoinTimeout = std::chrono::seconds{20};

GroupOptions options(int rank, int ranks) {
  GroupOptions o;
  o.rank = rank;
  o.ranks = ranks;
  o.join_timeout = kJoinTimeout;
  return o;
}

void limit_descriptors(rlim_t soft) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = soft;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// This process gets one more descriptor and no second.
void allow_one_more_descriptor() {
  const int next = ::dup(0);
  ::close(next);
  limit_descriptors(static_cast<rlim_t>(next + 1));
}

// Runs `at` when the rank is between telling its facts and reading rank 0's answer.
class Interrupted : public test::PassedOn {
 public:
  Interrupted(GroupStore& place, std::function<void()> at) : PassedOn(place), at_(std::move(at)) {}
  std::string take(const std::string& key, Deadline deadline) override {
    at_();
    return PassedOn::take(key, deadline);
  }

 private:
  std::function<void()> at_;
};

}  // namespace

TEST_CASE("the ranks that came wait for a missing one until the deadline and no longer") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    GroupOptions hasty = options(rank, 3);
    hasty.join_timeout = std::chrono::milliseconds{300};
    form_group(board, hasty);
    return "formed";
  });
  CHECK(outcomes[0].said.find("rank 2 did not come") == 0);
  CHECK(outcomes[1].threw);
  for (const auto& outcome : outcomes) CHECK(outcome.seconds < 5.0);
}

TEST_CASE("a rank that was told another world size does not touch the group's memory") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    form_group(board, options(rank, rank == 0 ? 2 : 3));
    return "formed";
  });
  CHECK_THAT(outcomes[1].said, Catch::Contains("group of 2 ranks") && Catch::Contains("was told 3"));
  CHECK_THAT(outcomes[0].said, Catch::Contains("forming the group: rank 1") && Catch::Contains("died"));
  CHECK(outcomes[0].seconds < 5.0);
}

TEST_CASE("a rank that dies between coming and joining is named at once") {
  SharedBoard board;
  const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
    Interrupted place(board, [&] {
      if (rank == 2) ::_exit(3);
    });
    form_group(place, options(rank, 3));
    return "formed";
  });
  for (int r = 0; r < 2; ++r) {
    const auto& outcome = outcomes[static_cast<std::size_t>(r)];
    CAPTURE(r, outcome.said);
    CHECK_THAT(outcome.said, Catch::Contains("forming the group: rank 2") && Catch::Contains("died"));
    CHECK(outcome.seconds < 5.0);
  }
}

TEST_CASE("a rank that cannot watch the others leaves, and does not keep them waiting while it lives on") {
  SharedBoard board, before;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    // UBSan opens some to look at a class for the first time.
    form_group(before, options(rank, 2))->barrier(kJoinTimeout);
    // Rank 1 can open the segment, and not watch rank 0.
    Interrupted place(board, [&] {
      if (rank == 1) allow_one_more_descriptor();
    });
    std::string said = "formed";
    try {
      form_group(place, options(rank, 2));
    } catch (const std::exception& error) {
      limit_descriptors(256);  // UBSan opens some to look at what is thrown
      said = error.what();
    }
    if (rank == 0) board.put("done", "yes");
    if (rank == 1) board.take("done", std::chrono::steady_clock::now() + kJoinTimeout);
    return said;
  });
  CHECK_THAT(outcomes[1].said, Catch::Contains("watching rank 0") && Catch::Contains("Too many open files"));
  CHECK_THAT(outcomes[0].said, Catch::Contains("forming the group: rank 1") && Catch::Contains("left the job"));
  CHECK(outcomes[0].seconds < 5.0);
}

TEST_CASE("rank 0 ending before the others opened its memory is said to have ended") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 1) {
      struct Late : test::PassedOn {
        using PassedOn::PassedOn;
        std::string take(const std::string& key, Deadline deadline) override {
          std::string answer = PassedOn::take(key, deadline);
          PassedOn::take("gone", deadline);
          return answer;
        }
      } place(board);
      form_group(place, options(rank, 2));
      return "formed";
    }
    const auto deadline = std::chrono::steady_clock::now() + kJoinTimeout;
    const auto facts = meet(board, 0, 2, deadline);
    { const ShmSegment segment = meet_on_this_host(board, 0, facts, {0, 1}, 1U << 20, deadline); }
    board.put("gone", "yes");
    return "gone";
  });
  CHECK_THAT(outcomes[1].said, Catch::Contains("rank 0 (pid") && Catch::Contains("left while the group formed"));
}

namespace {

enum class Why { undumpable, other_memory, user_namespace };

bool write_file(const char* path, const std::string& text) {
  return static_cast<bool>(std::ofstream(path) << text << std::flush);
}

// The same user by number, with all capabilities, in a user namespace of its own.
bool enter_user_namespace() {
  const std::string map = std::to_string(::geteuid()) + " " + std::to_string(::geteuid()) + " 1";
  const std::string groups = std::to_string(::getegid()) + " " + std::to_string(::getegid()) + " 1";
  return ::unshare(CLONE_NEWUSER) == 0 && write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/uid_map", map) && write_file("/proc/self/gid_map", groups);
}

// For those that come after the first: its memory is not what it says.
class OtherMemory : public test::PassedOn {
 public:
  using PassedOn::PassedOn;
  std::string first(const std::string&, const std::string&) override {
    return nlohmann::json{{"pid", ::getpid()}, {"fd", other_.fd()}, {"token", 1}}.dump();
  }

 private:
  SharedMemory other_ = SharedMemory::create("other", 8);
};

// What this process writes to stderr while `run` runs.
std::string stderr_of(const std::function<void()>& run) {
  const int kept = ::dup(2), file = ::memfd_create("stderr", 0);
  ::dup2(file, 2);
  run();
  ::dup2(kept, 2);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::pread(file, text.data(), text.size(), 0))));
  ::close(kept);
  ::close(file);
  return text;
}

std::string sum_of_three(CommGroup& group, int rank) {
  float value = static_cast<float>(rank + 1);
  group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f32, Reduction::sum, kJoinTimeout);
  group.barrier(kJoinTimeout);
  return (group.spans_hosts() ? "apart " : "together ") + std::to_string(value);
}

}  // namespace

TEST_CASE("ranks of one host that cannot open each other's memory talk over TCP, and one line says why") {
  const Why why = GENERATE(Why::undumpable, Why::other_memory, Why::user_namespace);
  CAPTURE(static_cast<int>(why));
  if (why == Why::user_namespace) {
    const auto allowed = run_ranks(1, [](int) { return enter_user_namespace() ? "yes" : "no"; });
    if (allowed[0].said != "yes") {
      WARN("no user namespaces here");
      return;
    }
  }
  SharedBoard board;
  const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
    if (rank == 1 && why == Why::undumpable) ::prctl(PR_SET_DUMPABLE, 0);
    if (rank == 1 && why == Why::user_namespace) enter_user_namespace();
    OtherMemory wrong(board);
    GroupStore& place = rank == 1 && why == Why::other_memory ? static_cast<GroupStore&>(wrong) : board;
    std::unique_ptr<CommGroup> group;
    const std::string line = stderr_of([&] { group = form_group(place, options(rank, 3)); });
    return sum_of_three(*group, rank) + line;
  });
  test::require_all_returned(outcomes);
  for (const int rank : {0, 2}) CHECK(outcomes[static_cast<std::size_t>(rank)].said == "apart 6.000000");
  CHECK_THAT(outcomes[1].said, Catch::StartsWith("apart 6.000000"));
  const std::string reason = why == Why::undumpable ? "it is not dumpable" : "/proc shows another pid";
  if (why != Why::user_namespace)
    CHECK_THAT(outcomes[1].said, Catch::Contains("and talks to them over TCP: " + reason));
}

TEST_CASE("the longest timeouts there are do not overflow into the past") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    GroupOptions patient = options(rank, 2);
    patient.join_timeout = std::chrono::milliseconds::max();
    const auto formed = form_group(board, patient);
    CommGroup& group = *formed;
    group.barrier(std::chrono::milliseconds::max());
    return "met";
  });
  test::require_all_returned(outcomes);
}

TEST_CASE("a child forked from a rank is not the rank: it drops the group and the others hear of nothing") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    auto group = form_group(board, options(rank, 2));
    if (rank == 1) {
      const pid_t child = ::fork();
      if (child == 0) {
        group.reset();
        ::_exit(0);
      }
      ::waitpid(child, nullptr, 0);
      board.put("forked", "yes");
      return board.take("seen", std::chrono::steady_clock::now() + kJoinTimeout);
    }
    board.take("forked", std::chrono::steady_clock::now() + kJoinTimeout);
    FailureKind kind{};
    try {
      group->barrier(std::chrono::milliseconds{300});  // rank 1 is alive and does not come
    } catch (const CollectiveError& error) {
      kind = error.kind();
    }
    board.put("seen", "yes");
    return kind == FailureKind::timed_out ? "missing" : "left";
  });
  test::require_all_returned(outcomes);
  CHECK(outcomes[0].said == "missing");
}

TEST_CASE("a group leaves no descriptor to a program that is executed") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    const auto inherited = [] {
      int count = 0;
      for (int fd = 0; fd < 256; ++fd) {
        const int flags = ::fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++count;
      }
      return count;
    };
    const int before = inherited();
    const auto formed = form_group(board, options(rank, 2));
    CommGroup& group = *formed;
    group.barrier(kJoinTimeout);
    const std::string said = inherited() == before ? "none" : "some";
    group.barrier(kJoinTimeout);
    return said;
  });
  for (const auto& outcome : outcomes) CHECK(outcome.said == "none");
}
