// Reductions of what lies in arenas, by real processes: the same bits as of what lies anywhere else.
#include "strategies/comm/arena.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "test/support/catch.h"
#include "test/unit/strategies/collectives.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::unique_ptr<CommGroup> form(MeetingPlace& place, int rank, int ranks) {
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

TEST_CASE("memory that is freed is given back to the machine, and a forked child gets none") {
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
    const pid_t child = ::fork();
    if (child == 0) ::_exit(arena.allocate(64) == nullptr ? 7 : 0);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? "fine" : "the child shares its parent's memory";
  });
  CHECK(outcomes[0].said == "fine");
}
