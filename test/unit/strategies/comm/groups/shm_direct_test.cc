// What ranks of one host read in each other's memory, beside what goes through slots, by real processes.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "strategies/comm/local/local_collectives.h"
#include "test/support/catch.h"
#include "test/unit/strategies/collectives.h"

using namespace dtrain;
using test::run_ranks;
using test::SharedBoard;
using Bytes = std::vector<std::byte>;

namespace {

constexpr std::chrono::seconds kDirectTimeout{20};

GroupOptions direct_options(int rank, int ranks) {
  GroupOptions o;
  o.rank = rank;
  o.ranks = ranks;
  o.slot_bytes = 64 * 1024;
  return o;
}

// As seccomp profiles of containers do.
void forbid_reading() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    throw std::runtime_error("no seccomp");
}

constexpr std::size_t kBytes = 2'000'000;

std::uint64_t reads_from(CommGroup& group) { return group.local().reads_from(); }

// Whether two processes of this kind may read each other's memory here.
bool may_read() {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) {
    static const std::uint64_t number = 4711;
    board.put("pid/" + std::to_string(rank), std::to_string(::getpid()));
    const auto until = std::chrono::steady_clock::now() + kDirectTimeout;
    const auto pid = static_cast<pid_t>(std::stol(board.take("pid/" + std::to_string(1 - rank), until)));
    std::uint64_t found = 0;
    const iovec into{&found, sizeof found}, from{const_cast<std::uint64_t*>(&number), sizeof number};
    const bool read = ::process_vm_readv(pid, &into, 1, &from, 1, 0) == sizeof found && found == number;
    board.put("done/" + std::to_string(rank), "yes");
    board.take("done/" + std::to_string(1 - rank), until);
    return std::string(read ? "read" : "");
  });
  return outcomes[0].said == "read" && outcomes[1].said == "read";
}

Bytes content(int from, int about, std::size_t bytes) {
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 7 + i / 253 + static_cast<std::size_t>(from * 31 + about * 101)) & 0xFF);
  return data;
}

// Every collective that moves bytes, of this size; what is wrong.
std::string wrong_moves(CommGroup& group, int rank, int ranks, std::size_t bytes) {
  std::string wrong;
  const auto check = [&](bool right, const std::string& what) {
    if (!right) wrong += what + " of " + std::to_string(bytes) + "; ";
  };
  const auto places_in = [&](Bytes& all) {
    std::vector<std::byte*> places;
    for (int r = 0; r < ranks; ++r) places.push_back(all.data() + static_cast<std::size_t>(r) * bytes);
    return places;
  };
  Bytes expected;
  for (int r = 0; r < ranks; ++r) {
    const Bytes one = content(r, 0, bytes);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  const Bytes own = content(rank, 0, bytes);
  for (int root = 0; root < ranks; ++root) {
    Bytes data = rank == root ? content(root, 5, bytes) : Bytes(bytes);
    group.broadcast(data.data(), bytes, root, kDirectTimeout);
    check(data == content(root, 5, bytes), "broadcast");
    Bytes all(rank == root ? expected.size() : 0);
    group.gather(own.data(), rank == root ? places_in(all) : std::vector<std::byte*>(), bytes, root, kDirectTimeout);
    check(rank != root || all == expected, "gather");
    all = expected;
    std::vector<const std::byte*> parts;
    for (std::byte* place : places_in(all)) parts.push_back(place);
    Bytes part(bytes);
    group.scatter(rank == root ? parts : std::vector<const std::byte*>(), part.data(), bytes, root, kDirectTimeout);
    check(part == own, "scatter");
  }
  // The input elsewhere, in its place, and in another rank's.
  for (const int place : {-1, rank, (rank + 1) % ranks}) {
    Bytes all(expected.size());
    const auto places = places_in(all);
    std::byte* input = place < 0 ? nullptr : places[static_cast<std::size_t>(place)];
    if (input != nullptr) std::copy(own.begin(), own.end(), input);
    group.all_gather(input == nullptr ? own.data() : input, places, bytes, kDirectTimeout);
    check(all == expected, "all_gather from place " + std::to_string(place));
  }
  // Rank 0 has much for each, the others have little for it and for each other.
  const auto size_of = [&](int from, int to) { return from == 0 ? bytes + static_cast<std::size_t>(to) : to + 3U; };
  std::vector<Bytes> inputs, outputs;
  for (int r = 0; r < ranks; ++r) {
    inputs.push_back(content(rank, r, size_of(rank, r)));
    outputs.emplace_back(size_of(r, rank));
  }
  test::exchange(group, inputs, outputs, kDirectTimeout);
  for (int r = 0; r < ranks; ++r)
    check(outputs[static_cast<std::size_t>(r)] == content(r, rank, size_of(r, rank)), "all_to_all");
  // In place, on the last rank alone.
  inputs.clear();
  for (int r = 0; r < ranks; ++r) inputs.push_back(content(rank, r, bytes));
  outputs.assign(static_cast<std::size_t>(ranks), Bytes(bytes));
  auto& into = rank == ranks - 1 ? inputs : outputs;
  test::exchange(group, inputs, into, kDirectTimeout);
  for (int r = 0; r < ranks; ++r)
    check(into[static_cast<std::size_t>(r)] == content(r, rank, bytes), "all_to_all in place on one rank");
  return wrong;
}

}  // namespace

TEST_CASE("what ranks read in each other's memory is what goes through slots") {
  const int ranks = GENERATE(1, 2, 3);
  const std::string way = GENERATE("direct", "refused by a setting", "forbidden to one rank");
  const bool reads = way == "direct" && (ranks == 1 || may_read());
  CAPTURE(ranks, way, reads);
  SharedBoard board;
  const auto outcomes = run_ranks(
      ranks,
      [&](int rank) {
        ::setenv("DTRAIN_DIRECT_READS", way == "refused by a setting" ? "0" : "1", 1);
        if (way == "forbidden to one rank" && rank == ranks - 1) forbid_reading();
        const auto group = form_group(board, direct_options(rank, ranks));
        std::string wrong;
        if (reads != (reads_from(*group) <= 1'048'576) && ranks > 1) wrong += "decided otherwise; ";
        for (const std::size_t bytes : {32'767U, 32'768U, 100'001U, 1'500'001U})
          wrong += wrong_moves(*group, rank, ranks, bytes);
        group->barrier(kDirectTimeout);
        return wrong;
      },
      std::chrono::seconds{60});
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("what ranks measure decides for all of them whether they read") {
  const int ranks = GENERATE(2, 3);
  // One that wants to read whatever it costs does not decide for the others, who measure.
  const int wants = GENERATE(-1, 1);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) {
    if (rank == wants) ::setenv("DTRAIN_DIRECT_READS", "1", 1);
    const auto group = form_group(board, direct_options(rank, ranks));
    const std::string wrong = wrong_moves(*group, rank, ranks, 1'500'001);
    group->barrier(kDirectTimeout);
    return wrong.empty() ? std::to_string(reads_from(*group)) : wrong;
  });
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == outcomes[0].said);
  const std::string said = outcomes[0].said;
  const bool known = said == "32768" || said == "1048576" || said == std::to_string(~std::uint64_t{0});
  CHECK(known);
}

TEST_CASE("an input that overlaps its own place, and a rank that may no longer read: all go through slots") {
  SharedBoard board;
  const int late = GENERATE(0, 1);
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    ::setenv("DTRAIN_DIRECT_READS", "1", 1);
    const auto group = form_group(board, direct_options(rank, 2));
    const bool could = reads_from(*group) < kBytes;
    Bytes own(kBytes + 8), other(kBytes);
    const Bytes mine = content(rank, 0, kBytes);
    std::copy(mine.begin(), mine.end(), own.begin() + 8);
    std::vector<std::byte*> outputs{own.data(), other.data()};
    if (rank == 1) std::swap(outputs[0], outputs[1]);
    group->all_gather(own.data() + 8, outputs, kBytes, kDirectTimeout);
    std::string wrong;
    if (!std::equal(mine.begin(), mine.end(), own.begin()) || other != content(1 - rank, 0, kBytes))
      wrong += "overlap; ";
    if (rank == late) forbid_reading();
    wrong += wrong_moves(*group, rank, 2, kBytes);
    if (could && reads_from(*group) < kBytes) wrong += "still reads; ";
    group->barrier(kDirectTimeout);
    return wrong;
  });
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("an all_gather's input may be any part of its output") {
  const bool reads = GENERATE(true, false);
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    ::setenv("DTRAIN_DIRECT_READS", reads ? "1" : "0", 1);
    const auto group = form_group(board, direct_options(rank, 2));
    Bytes expected = content(0, 0, kBytes), second = content(1, 0, kBytes);
    expected.insert(expected.end(), second.begin(), second.end());
    std::string wrong;
    for (const std::size_t at : {std::size_t{0}, std::size_t{8}, kBytes / 2, kBytes - 8, kBytes}) {
      Bytes all(2 * kBytes);
      const Bytes mine = content(rank, 0, kBytes);
      std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
      group->all_gather(all.data() + at, {all.data(), all.data() + kBytes}, kBytes, kDirectTimeout);
      if (all != expected) wrong += "from " + std::to_string(at) + "; ";
    }
    group->barrier(kDirectTimeout);
    return wrong;
  });
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("a setting that makes no sense is an error where the group forms") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 1) ::setenv("DTRAIN_DIRECT_READS", "no", 1);
    try {
      form_group(board, direct_options(rank, 2));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  });
  test::require_all_returned(outcomes);
  CHECK(outcomes[1].said ==
        "dtrain: DTRAIN_DIRECT_READS is 'no'; it must be 1 (wherever it is allowed) or 0 (never); unset, ranks measure "
        "what is faster");
  CHECK_THAT(outcomes[0].said, Catch::Contains("rank 1 (pid "));
}
