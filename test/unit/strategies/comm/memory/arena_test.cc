// Reductions of what lies in arenas, by real processes: the same bits as of what lies anywhere else.
#include "strategies/comm/memory/arena.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "test/support/catch.h"
#include "test/unit/strategies/collectives.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::unique_ptr<CommGroup> form(GroupStore& place, int rank, int ranks) {
  GroupOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.slot_bytes = 32 * 1024;  // so that a message has several parts
  options.join_timeout = kTimeout;
  return form_group(place, options);
}

// An all-reduce of what begins `skew` bytes into an arena, or into memory of no arena: empty, or what is wrong.
template <class T>
std::string check(CommGroup& group, int rank, int ranks, ElementType type, Reduction reduction, std::size_t count,
                  bool shared, std::size_t skew) {
  const std::size_t bytes = skew + count * sizeof(T) + 1;
  std::vector<std::byte> elsewhere(shared ? 0 : bytes);
  std::byte* const begin = shared ? Arena::own()->allocate(bytes) : elsewhere.data();
  for (std::size_t i = 0; i < count; ++i) {
    const T value = input<T>(rank, i);
    std::memcpy(begin + skew + i * sizeof(T), &value, sizeof(T));
  }
  begin[bytes - 1] = std::byte{0x5A};
  group.all_reduce(begin + skew, count, type, reduction, kTimeout);
  std::string wrong = begin[bytes - 1] == std::byte{0x5A} ? "" : "wrote past the end; ";
  for (std::size_t i = 0; i < count && wrong.empty(); ++i) {
    const T value = expected<T>(reduction, one_host(ranks), i);
    if (std::memcmp(begin + skew + i * sizeof(T), &value, sizeof(T)) != 0)
      wrong = std::string(name_of(type)) + " " + name_of(reduction) + ": element " + std::to_string(i) + "; ";
  }
  if (shared) Arena::own()->free(begin);
  return wrong;
}

// A child forked from this rank, which ends with what `body` returns.
pid_t in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(static_cast<unsigned>(3 * kTimeout.count()));
  ::signal(SIGSEGV, SIG_DFL);  // as a sanitizer, or the test's frame, may have it
  ::_exit(body());
}

// Its exit code, or the signal below 0.
int ended(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::string check_with(CommGroup& group, int rank, int ranks, bool shared) {
  std::string wrong;
  for (const std::size_t skew : {0UL, 3UL}) {
    for (const std::size_t count : {1UL, 8'191UL, 20'001UL, 40'009UL}) {
      wrong += check<float>(group, rank, ranks, ElementType::f32, Reduction::sum, count, shared, skew);
      wrong += check<double>(group, rank, ranks, ElementType::f64, Reduction::avg, count, shared, skew);
      wrong += check<c10::BFloat16>(group, rank, ranks, ElementType::bf16, Reduction::sum, count, shared, skew);
      wrong += check<std::int8_t>(group, rank, ranks, ElementType::i8, Reduction::max, count, shared, skew);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("tensors in arenas are reduced to the reference's bits, whichever ranks have theirs there") {
  for (const int ranks : {2, 3}) {
    SharedBoard board;
    const auto outcomes = run_ranks(
        ranks,
        [&](int rank) {
          const auto group = form(board, rank, ranks);
          std::string wrong;
          for (int who = 0; who < 1 << ranks; ++who) wrong += check_with(*group, rank, ranks, (who >> rank & 1) != 0);
          return wrong;
        },
        std::chrono::seconds{120});
    require_all_returned(outcomes);
    for (const auto& outcome : outcomes) CHECK(outcome.said.empty());
  }
}

TEST_CASE("two groups of one process share its arena") {
  SharedBoard one, other;
  const auto outcomes = run_ranks(2, [&](int rank) {
    const auto first = form(one, rank, 2), second = form(other, rank, 2);
    return check_with(*first, rank, 2, true) + check_with(*second, rank, 2, true);
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said.empty());
}

TEST_CASE("ranks with tensors in arenas are told who calls another collective, and who is gone") {
  for (const bool leaves : {false, true}) {
    SharedBoard board;
    const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
      const auto group = form(board, rank, 3);
      auto* data = Arena::own()->allocate(1 << 20);
      group->barrier(kTimeout);
      if (rank == 1 && leaves) ::_exit(0);
      try {
        group->all_reduce(data, (1 << 18) - (rank == 1 ? 1 : 0), ElementType::f32, Reduction::sum, kTimeout);
      } catch (const CollectiveError& error) {
        // One that is late might still write there.
        Arena::own()->free(data);
        const bool again = leaves && Arena::own()->allocate(1 << 20) == data;
        return std::to_string(static_cast<int>(error.kind())) + " rank " + std::to_string(error.rank()) + " |" +
               (again ? " given out again" : "");
      }
      return "no error";
    });
    const auto kind = leaves ? FailureKind::peer_died : FailureKind::mismatched;
    for (const int r : {0, 2}) CHECK(outcomes[static_cast<std::size_t>(r)].said == start_of(kind, 1));
  }
}

TEST_CASE("memory that is freed is given back to the machine") {
  const auto outcomes = run_ranks(1, [](int) -> std::string {
    Arena& arena = *Arena::own();
    const auto shared_pages = [] {
      std::ifstream statm("/proc/self/statm");
      long total = 0, resident = 0, shared = 0;
      statm >> total >> resident >> shared;
      return shared;
    };
    auto* data = arena.allocate(64 << 20);
    const long before = shared_pages();
    std::memset(data, 1, 64 << 20);
    const long used = shared_pages();
    arena.free(data);
    const long after = shared_pages();
    if (used - before < (60 << 20) / 4096 || after - before > (4 << 20) / 4096) return "pages stay";
    if (arena.allocate(64 << 20)[12345] != std::byte{0}) return "old contents";
    return "fine";
  });
  CHECK(outcomes[0].said == "fine");
}

TEST_CASE("what lies in an arena is a forked child's own from the fork on, as other memory is") {
  SharedBoard board;
  const auto outcomes = run_ranks(1, [&](int) -> std::string {
    Arena& arena = *Arena::own();
    constexpr std::size_t kBytes = 1 << 20;
    auto* kept = arena.allocate(kBytes);
    auto* freed = arena.allocate(kBytes);
    // Some pages are touched and some are not, others than before the last fork.
    const auto fill = [&](std::size_t from, int value) {
      for (auto* data : {kept, freed}) std::memset(data + from, value, kBytes / 4);
    };
    const auto holds = [](const std::byte* data, std::size_t from, int value) {
      return std::all_of(data + from, data + from + kBytes / 4,
                         [&](auto b) { return b == static_cast<std::byte>(value); });
    };
    const auto until = [] { return std::chrono::steady_clock::now() + kTimeout; };
    const auto child_of = [&](const std::string& name, int first, int second) {
      return in_child([&, name, first, second] {
        board.take("changed", until());  // by the parent
        if (!holds(kept, 0, first) || !holds(freed, kBytes / 2, second)) return 1;
        std::memset(kept, 99, kBytes);
        board.put(name, "wrote");
        board.take("end", until());
        if (!holds(kept, 0, 99)) return 2;
        arena.free(kept);
        if (arena.allocate(64) != nullptr || Arena::known() != nullptr) return 3;
        std::byte* const own = Arena::own()->allocate(kBytes);
        return own != nullptr && own[kBytes - 1] == std::byte{0} && holds(freed, kBytes / 2, second) ? 0 : 4;
      });
    };
    fill(0, 1);
    const pid_t one = child_of("one", 1, 0);
    fill(kBytes / 2, 2);
    const pid_t other = child_of("other", 1, 2);
    const pid_t same = child_of("same", 1, 2);
    Arena::drop_copy();
    fill(0, 3);
    arena.free(freed);
    board.put("changed", "yes");
    for (const char* name : {"one", "other", "same"}) board.take(name, until());
    if (!holds(kept, 0, 3)) return "a child wrote into its parent's memory";
    board.put("end", "yes");
    return std::to_string(ended(one)) + std::to_string(ended(other)) + std::to_string(ended(same));
  });
  CHECK(outcomes[0].said == "000");
}

TEST_CASE("a page that was freed before a later fork is zeros in its child") {
  const auto outcomes = run_ranks(1, [](int) -> std::string {
    Arena& arena = *Arena::own();
    constexpr std::size_t kBytes = 1 << 20;
    auto* data = arena.allocate(kBytes);
    std::memset(data, 1, kBytes);
    const int first = ended(in_child([&] { return data[5] == std::byte{1} ? 0 : 1; }));
    arena.free(data);
    data = arena.allocate(2 * kBytes);
    const auto empty = [&] { return std::all_of(data, data + 2 * kBytes, [](auto b) { return b == std::byte{0}; }); };
    return std::to_string(first) + std::to_string(ended(in_child([&] { return empty() ? 0 : 1; })));
  });
  CHECK(outcomes[0].said == "00");
}

TEST_CASE("a forked child has nothing of its group's memory, nor of the others' arenas") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    const auto group = form(board, rank, 2);
    std::string wrong = check<float>(*group, rank, 2, ElementType::f32, Reduction::sum, 8'192, true, 0);
    // Whatever may be written there would end the collectives of all.
    const int harm = ended(in_child([&] { return group->header().failure.exchange(1) == 0 ? 1 : 2; }));
    if (harm != -SIGSEGV) wrong += "the child has it: " + std::to_string(harm);
    std::ifstream maps("/proc/self/maps");
    const std::string all{std::istreambuf_iterator<char>(maps), {}};
    if (all.find("memfd:dtrain-arena") == std::string::npos) wrong += "no arena here; ";
    const int child = ended(in_child([&] {
      std::ifstream its("/proc/self/maps");
      return std::string{std::istreambuf_iterator<char>(its), {}}.find("memfd:dtrain") == std::string::npos ? 0 : 1;
    }));
    if (child != 0) wrong += "the child maps what ranks share; ";
    return wrong + check_with(*group, rank, 2, true);
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said.empty());
}

TEST_CASE("a forked child may form a group of its own, with what it inherited too") {
  SharedBoard parents, children;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    auto group = form(parents, rank, 2);
    auto* inherited = reinterpret_cast<float*>(Arena::own()->allocate(1 << 16));
    std::fill_n(inherited, 1 << 14, 1.0F);
    const int child = ended(in_child([&] {
      group.reset();
      const auto own = form(children, rank, 2);
      own->all_reduce(reinterpret_cast<std::byte*>(inherited), 1 << 14, ElementType::f32, Reduction::sum, kTimeout);
      if (!check_with(*own, rank, 2, true).empty()) return 1;
      return inherited[0] == 2 && inherited[16'383] == 2 ? 0 : 2;
    }));
    if (child != 0) return "a child ended with " + std::to_string(child);
    if (inherited[0] != 1) return "a child wrote into its parent's memory";
    group->barrier(kTimeout);
    return "";
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said.empty());
}
