// The flight recorder of real groups: who writes a file, when, and when not.
#include "strategies/comm/flight/flight.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dtrain/errors.h"
#include "strategies/comm/memory/shm_wait.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/fake_hosts.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::require_all_returned;
using test::run_ranks;
using test::SharedBoard;

namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kPatience{20};
constexpr std::chrono::milliseconds kShort{300};

GroupOptions options(int rank, int ranks) {
  GroupOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.slot_bytes = 4096;
  options.join_timeout = kPatience;
  return options;
}

// A rank of one group, as CpuBackend has it.
struct Rank {
  Rank(SharedBoard& board, const std::string& folder, int rank, int ranks, const std::string& hosts = "") {
    ::setenv("DTRAIN_FLIGHT_DIR", folder.c_str(), 1);
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
    group =
        hosts.empty() ? form_group(board, options(rank, ranks)) : test::form_on(board, hosts, rank, 4096, kPatience);
    log = std::make_unique<FlightLog>("key", rank, ranks);
    log->watch(group);
  }

  // What a collective that fails says of the files; empty where it is done.
  std::string barrier(std::chrono::milliseconds timeout) {
    FlightCall call;
    call.op = "barrier";
    const auto ticket = log->queued(call, true);
    try {
      group->barrier(timeout);
    } catch (const CollectiveError&) {
      log->ended(ticket, false);
      return log->settle() + ".";
    }
    log->ended(ticket, true);
    return "";
  }

  std::shared_ptr<CommGroup> group;
  std::unique_ptr<FlightLog> log;
};

std::vector<std::string> names_in(const test::TempFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Json file_of(const test::TempFolder& folder, int rank) {
  return Json::parse(folder.read("flight_rank" + std::to_string(rank) + ".json"), nullptr, false);
}

// The next file that comes into a folder.
class Arrivals {
 public:
  explicit Arrivals(const std::string& folder) : fd_(::inotify_init1(IN_CLOEXEC)) {
    ::inotify_add_watch(fd_, folder.c_str(), IN_MOVED_TO);
  }
  ~Arrivals() { ::close(fd_); }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  bool wait() const {
    pollfd entry{fd_, POLLIN, 0};
    if (::poll(&entry, 1, std::chrono::milliseconds(kPatience).count()) != 1) return false;
    char events[4096];
    return ::read(fd_, events, sizeof events) > 0;
  }

 private:
  const int fd_;
};

volatile sig_atomic_t own_calls = 0;
void own_handler(int) { own_calls = own_calls + 1; }

}  // namespace

TEST_CASE("the rank that others wait for writes its file too, and theirs are there when the error is thrown") {
  const test::TempFolder folder;
  SharedBoard board;
  const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
    Rank one(board, folder.path().string(), rank, 3);
    if (!one.barrier(kPatience).empty()) return "the first barrier failed";
    if (rank != 2) {
      const std::string said = one.barrier(kShort);
      const auto there = names_in(folder).size();
      board.put("said" + std::to_string(rank), "x");
      return there == 3 ? said : "files are missing";
    }
    for (const char* key : {"said0", "said1"}) board.take(key, ShmWait::after(kPatience));
    return one.barrier(kShort);
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes)
    CHECK(outcome.said == "dtrain flight " + folder.path().string() + " says what each rank was doing.");
  CHECK(names_in(folder) == std::vector<std::string>{"flight_rank0.json", "flight_rank1.json", "flight_rank2.json"});
  for (int rank = 0; rank < 3; ++rank) {
    const Json file = file_of(folder, rank);
    REQUIRE(file.is_object());
    CHECK(file["rank"] == rank);
    CHECK(file["cause"] == Json{{"kind", "timed_out"}, {"group", 1}, {"rank", 2}});
    CHECK(file["groups"][0]["queued"] == (rank == 2 ? 1 : 2));
    CHECK(file["groups"][0]["finished"] == 1);
    CHECK(file["records"].size() == (rank == 2 ? 1 : 2));
  }
}

TEST_CASE("a rank that is alone on its host, and in no collective, writes its file too") {
  const test::TempFolder folder;
  SharedBoard board;
  const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
    Rank one(board, folder.path().string(), rank, 3, "aab");
    if (!one.barrier(kPatience).empty()) return "the first barrier failed";
    if (rank != 2) return one.barrier(kShort) == "." ? "it has no file" : "";
    const Arrivals arrivals(folder.path().string());
    while (!std::filesystem::exists(folder.path() / "flight_rank2.json"))
      if (!arrivals.wait()) return "no file";
    return "";
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
  CHECK(file_of(folder, 2)["cause"]["kind"] == "timed_out");
}

TEST_CASE("a stopped rank does not hold up the error of the others") {
  const test::TempFolder folder;
  SharedBoard board;
  const auto outcomes = run_ranks(
      2,
      [&](int rank) -> std::string {
        Rank one(board, folder.path().string(), rank, 2);
        if (rank == 1) {
          ::raise(SIGSTOP);
          return "";
        }
        const auto before = std::chrono::steady_clock::now();
        const std::string said = one.barrier(kShort), again = one.barrier(kShort);
        if (said != again || said == ".") return "it says '" + said + "' and '" + again + "'";
        return std::chrono::steady_clock::now() - before < std::chrono::seconds{5} ? "" : "it took long";
      },
      std::chrono::seconds{8});
  CHECK(outcomes[0].said == "");
  CHECK(outcomes[0].exited);
  CHECK(names_in(folder) == std::vector<std::string>{"flight_rank0.json"});
}

TEST_CASE("nothing is written where a rank leaves, aborts or dies, or all goes well") {
  const std::string way = GENERATE("well", "leave", "abort", "die");
  CAPTURE(way);
  const test::TempFolder folder;
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    Rank one(board, folder.path().string(), rank, 2);
    if (rank == 1 && way == "leave") return "";
    if (rank == 1 && way == "abort") one.group->abort();
    if (rank == 1 && way == "die") ::raise(SIGKILL);
    return one.barrier(kPatience);
  });
  CHECK(outcomes[0].said == (way == "well" ? "" : "."));
  CHECK(names_in(folder).empty());
}

TEST_CASE("a signal asks for the file, and the group goes on") {
  const test::TempFolder folder;
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    Rank one(board, folder.path().string(), rank, 2);
    if (rank == 0) {
      const Arrivals arrivals(folder.path().string());
      ::kill(::getpid(), SIGUSR2);
      if (!arrivals.wait()) return "no file";
    }
    return one.barrier(kPatience);
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
  CHECK(names_in(folder) == std::vector<std::string>{"flight_rank0.json"});
  CHECK(file_of(folder, 0)["cause"] == Json{{"kind", "signal"}});
}

TEST_CASE("another file under the name that is written first is left as it was") {
  const test::TempFolder folder, elsewhere;
  elsewhere.write("precious", "precious");
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    Rank one(board, folder.path().string(), rank, 2);
    if (rank == 0) {
      const std::string part = folder / ("flight_rank0.json." + std::to_string(::getpid()) + ".part");
      std::filesystem::create_hard_link(elsewhere / "precious", part);
      const Arrivals arrivals(folder.path().string());
      ::kill(::getpid(), SIGUSR2);
      if (!arrivals.wait()) return "no file";
    }
    return one.barrier(kPatience);
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
  CHECK(elsewhere.read("precious") == "precious");
  CHECK(names_in(folder) == std::vector<std::string>{"flight_rank0.json"});
  const auto mode = std::filesystem::status(folder / "flight_rank0.json").permissions();
  CHECK(mode == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("a program keeps the handler it has, and forked children live on") {
  const test::TempFolder folder;
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 0) ::signal(SIGUSR2, own_handler);
    Rank one(board, folder.path().string(), rank, 2);
    if (rank == 0) {
      ::raise(SIGUSR2);
      if (own_calls != 1) return "the program's handler is gone";
    } else {
      const pid_t child = ::fork();
      if (child == 0) {
        ::raise(SIGUSR2);
        one.log.reset();  // as a child's destructors do
        ::_exit(7);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) return "the child did not live on";
    }
    return one.barrier(kPatience);
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
  CHECK(names_in(folder).empty());
}

TEST_CASE("of more groups than the kernel waits for at once, any may fail") {
  constexpr int kGroups = 130;
  const test::TempFolder folder;
  std::vector<std::unique_ptr<SharedBoard>> boards;
  for (int i = 0; i < kGroups; ++i) boards.push_back(std::make_unique<SharedBoard>());
  SharedBoard over;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    std::vector<std::unique_ptr<Rank>> ranks;
    for (auto& board : boards) ranks.push_back(std::make_unique<Rank>(*board, folder.path().string(), rank, 2));
    if (rank == 1) {
      over.take("over", ShmWait::after(kPatience));
      return "";
    }
    ranks.back()->barrier(kShort);
    const auto there = names_in(folder).size();
    over.put("over", "x");
    return there == 2 ? "" : "a file is missing";
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("a folder that is stuck holds up neither the error nor the end") {
  const test::TempFolder folder;
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    auto one = std::make_unique<Rank>(board, folder.path().string(), rank, 2);
    if (rank == 1) {
      board.take("over", ShmWait::after(kPatience));
      return "";
    }
    const Arrivals arrivals(folder.path().string());
    ::kill(::getpid(), SIGUSR2);  // the thread has begun then
    if (!arrivals.wait()) return "no file";
    // Whoever opens a file there waits until this is answered, which nobody does.
    const int held = ::fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY);
    const std::uint64_t opens = FAN_OPEN_PERM | FAN_EVENT_ON_CHILD;
    if (::fanotify_mark(held, FAN_MARK_ADD, opens, AT_FDCWD, folder.path().c_str()) != 0) return "cannot hold it up";
    const auto before = std::chrono::steady_clock::now();
    const std::string said = one->barrier(kShort), again = one->barrier(kShort);
    one.reset();
    const auto took = std::chrono::steady_clock::now() - before;
    ::close(held);
    board.put("over", "x");
    if (said != "." || again != ".") return "it says '" + said + "' and '" + again + "'";
    return took < std::chrono::seconds{5} ? "" : "it took long";
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("what an earlier job left is gone, but not what an earlier round did, nor anything else") {
  const bool restarted = GENERATE(false, true);
  CAPTURE(restarted);
  const test::TempFolder folder;
  for (const char* name : {"flight_rank0.json", "flight_rank0.json.77.part", "flight_rank00.json", "flight_rank5.json"})
    std::ofstream(folder.path() / name) << "old";
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (restarted) ::setenv("DTRAIN_ROUND", "1", 1);
    const Rank one(board, folder.path().string(), rank, 2);
    return "";
  });
  require_all_returned(outcomes);
  const std::vector<std::string> others{"flight_rank00.json", "flight_rank5.json"};
  CHECK((names_in(folder) == others) != restarted);
  CHECK(names_in(folder).size() == (restarted ? 4 : 2));
}

TEST_CASE("a folder that cannot be written to is said, and the error comes all the same") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    Rank one(board, "/proc/none/of/this", rank, 2);
    if (rank == 1) board.take("over", ShmWait::after(kPatience));
    const std::string said = one.barrier(kShort);
    board.put("over", "x");
    return said;
  });
  require_all_returned(outcomes);
  CHECK(outcomes[0].said == ".");
}
