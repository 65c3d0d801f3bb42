// The collectives of a Group, which its caller carries out at once, beside the same ones as torch calls them, and
// beside what torch computes on one rank.
#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "strategies/collectives/collectives.h"
#include "strategies/torch/compat.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/hosts_store.h"

using namespace dtrain;
using Op = c10d::ReduceOp;

namespace {

// What each rank's `run` says. With `ends`, sessions are shut down after it; without, they may be killed.
std::vector<std::string> on_ranks(int ranks, const std::function<std::string(Session&)>& run, bool ends = true) {
  std::vector<std::string> said;
  for (const auto& outcome : test::outcomes_of(ranks, run, ends)) {
    INFO(outcome.said);
    CHECK(!outcome.threw);
    CHECK((outcome.exited || (!ends && outcome.signal == SIGKILL)));
    said.push_back(outcome.said);
  }
  return said;
}

// How a call is made: as Group does it, or as torch does, whose operations are queued.
enum class Way { now, queued };
constexpr Way kBoth[] = {Way::now, Way::queued};

c10d::Backend& backend(const GroupPtr& group) { return *group->getBackend(at::kCPU); }

void all_gather(const GroupPtr& group, Way way, at::Tensor output, at::Tensor input) {
  if (way == Way::now) return dtrain::all_gather(group, output, input);
  backend(group)._allgather_base(output, input)->wait();
}

void reduce_scatter(const GroupPtr& group, Way way, at::Tensor output, at::Tensor input, const Op& op = Op::SUM) {
  if (way == Way::now) return dtrain::reduce_scatter(group, output, input, op);
  c10d::ReduceScatterOptions options;
  options.reduceOp = op;
  backend(group)._reduce_scatter_base(output, input, options)->wait();
}

void all_to_all(const GroupPtr& group, Way way, at::Tensor output, at::Tensor input) {
  if (way == Way::now) return dtrain::all_to_all(group, output, input);
  std::vector<std::int64_t> equal;
  backend(group).alltoall_base(output, input, equal, equal)->wait();
}

void barrier(const GroupPtr& group, Way way) {
  if (way == Way::now) return dtrain::barrier(group);
  group->barrier()->wait();
}

void all_reduce(const GroupPtr& group, Way way, const at::Tensor& tensor) {
  if (way == Way::now) return dtrain::all_reduce(group, tensor);
  std::vector<at::Tensor> tensors{tensor};
  group->allreduce(tensors)->wait();
}

void send(const GroupPtr& group, Way way, const at::Tensor& tensor, int to, int tag = 0) {
  if (way == Way::now) return dtrain::send(group, tensor, to, tag);
  std::vector<at::Tensor> tensors{tensor};
  backend(group).send(tensors, to, tag)->wait();
}

// Whose message it was. From any rank: -1.
int recv(const GroupPtr& group, Way way, const at::Tensor& tensor, int from, int tag = 0) {
  if (way == Way::now && from < 0) return dtrain::recv_any(group, tensor, tag);
  if (way == Way::now) dtrain::recv(group, tensor, from, tag);
  if (way == Way::now) return from;
  std::vector<at::Tensor> tensors{tensor};
  const auto work = from < 0 ? backend(group).recvAnysource(tensors, tag) : backend(group).recv(tensors, from, tag);
  work->wait();
  return work->sourceRank();
}

// Small whole numbers, others on each rank, so that sums of any order are exact in every type.
at::Tensor values(int rank, std::int64_t count, at::ScalarType type) {
  return (torch::arange(count, torch::kLong) * 5 + rank * 3 + 1).remainder(7).to(type);
}

// Every collective of this size and type, both ways; what is wrong.
std::string wrong_of(const GroupPtr& group, std::int64_t count, at::ScalarType type) {
  const int rank = group->getRank(), ranks = group->getSize();
  std::vector<at::Tensor> parts, wholes, shares;
  for (int r = 0; r < ranks; ++r) {
    parts.push_back(values(r, count, type));
    wholes.push_back(values(r, count * ranks, type));
    shares.push_back(wholes.back().narrow(0, rank * count, count));
  }
  const at::Tensor gathered = torch::cat(parts), dealt = torch::cat(shares);
  const at::Tensor sum = torch::stack(shares).to(torch::kDouble).sum(0).to(type);
  const at::Tensor least = std::get<0>(torch::stack(shares).to(torch::kDouble).min(0)).to(type);
  std::string wrong;
  for (const Way way : kBoth) {
    const auto check = [&](const at::Tensor& found, const at::Tensor& expected, const char* what) {
      if (!torch::equal(found, expected))
        wrong += std::string(way == Way::now ? "now " : "queued ") + what + " of " + std::to_string(count) + " " +
                 c10::toString(type) + "; ";
    };
    at::Tensor all = torch::zeros({count * ranks}, type), part = torch::zeros({count}, type);
    all_gather(group, way, all, parts[static_cast<std::size_t>(rank)]);
    check(all, gathered, "all_gather");
    all_gather(group, way, all.zero_(), parts[static_cast<std::size_t>(rank)].repeat_interleave(2).slice(0, 0, {}, 2));
    check(all, gathered, "all_gather of every second element");
    all.zero_().narrow(0, rank * count, count).copy_(parts[static_cast<std::size_t>(rank)]);
    all_gather(group, way, all, all.narrow(0, rank * count, count));
    check(all, gathered, "all_gather in place");
    all.zero_().narrow(0, 0, count).copy_(parts[static_cast<std::size_t>(rank)]);
    all_gather(group, way, all, all.narrow(0, 0, count));
    check(all, gathered, "all_gather of what is in another rank's place");
    all_to_all(group, way, all.zero_(), wholes[static_cast<std::size_t>(rank)]);
    check(all, dealt, "all_to_all");
    all_to_all(group, way, all.zero_().view({ranks, count}),
               wholes[static_cast<std::size_t>(rank)].view({ranks, count}));
    check(all, dealt, "all_to_all of rows");
    barrier(group, way);
    if (type == torch::kBool || type == torch::kFloat8_e4m3fn) continue;
    reduce_scatter(group, way, part, wholes[static_cast<std::size_t>(rank)]);
    check(part, sum, "reduce_scatter");
    reduce_scatter(group, way, part, wholes[static_cast<std::size_t>(rank)], Op::MIN);
    check(part, least, "least of reduce_scatter");
    at::Tensor wide = torch::zeros({count, 2}, type);
    reduce_scatter(group, way, wide.select(1, 1), wholes[static_cast<std::size_t>(rank)]);
    check(wide, torch::stack({torch::zeros({count}, type), sum}, 1), "reduce_scatter into a column");
    all.copy_(wholes[static_cast<std::size_t>(rank)]);
    reduce_scatter(group, way, all.narrow(0, rank * count, count), all);
    check(all.narrow(0, rank * count, count), sum, "reduce_scatter in place");
  }
  return wrong;
}

// A message around the ring of ranks, and back to whom it came from; what is wrong.
std::string wrong_messages_of(const GroupPtr& group, std::int64_t count, at::ScalarType type) {
  const int rank = group->getRank(), ranks = group->getSize();
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  std::string wrong;
  for (const Way way : kBoth) {
    const at::Tensor own = values(rank, count, type), wide = torch::zeros({count, 2}, type);
    const auto check = [&](bool right, const char* what) {
      if (!right)
        wrong += std::string(way == Way::now ? "now " : "queued ") + what + " of " + std::to_string(count) + " " +
                 c10::toString(type) + "; ";
    };
    const auto out = [&] { send(group, way, own.repeat_interleave(2).slice(0, 0, {}, 2), next, 3); };
    if (rank == 0) out();
    check(recv(group, way, wide.select(1, 1), before, 3) == before, "source");
    if (rank != 0) out();
    check(torch::equal(wide.select(1, 1), values(before, count, type)), "message");
    check(wide.select(1, 0).to(torch::kInt).count_nonzero().item<int>() == 0, "column beside a message");
    const at::Tensor back = torch::zeros({count}, type);
    if (rank == 0) send(group, way, wide.select(1, 1), before);
    check(recv(group, way, back, -1) == next, "source of any rank's");
    if (rank != 0) send(group, way, wide.select(1, 1), before);
    check(torch::equal(back, own), "message that came back");
    barrier(group, way);
  }
  return wrong;
}

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& error) {
    return short_reason(error);
  }
  return "no error";
}

}  // namespace

TEST_CASE("what a caller carries out at once gives what is queued gives, and torch on one rank") {
  const int ranks = GENERATE(1, 2, 3);
  const auto said = on_ranks(ranks, [](Session& session) {
    std::string wrong;
    for (const auto type : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16, torch::kLong, torch::kInt,
                            torch::kShort, torch::kChar, torch::kByte, torch::kBool, torch::kFloat8_e4m3fn}) {
      for (const std::int64_t count : {0, 1, 3, 1001}) wrong += wrong_of(session.group(), count, type);
    }
    // Of more than a slot.
    return wrong + wrong_of(session.group(), 300'001, torch::kDouble);
  });
  CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("messages that their caller waits for are what those of a Work are") {
  const int ranks = GENERATE(2, 3);
  const auto said = on_ranks(ranks, [](Session& session) {
    std::string wrong;
    for (const auto type : {torch::kDouble, torch::kHalf, torch::kLong, torch::kBool, torch::kFloat8_e4m3fn})
      for (const std::int64_t count : {0, 1, 1001, 300'001}) wrong += wrong_messages_of(session.group(), count, type);
    return wrong;
  });
  CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("and so it does between hosts") {
  const std::string letters = GENERATE("ab", "aab");
  const auto said = on_ranks(static_cast<int>(letters.size()), [&](Session& session) {
    FormedGroup formed = test::form_on_hosts(session, letters);
    std::string wrong;
    for (const std::int64_t count : {0, 1, 1001}) wrong += wrong_of(formed.group, count, torch::kFloat);
    for (const std::int64_t count : {0, 1, 1001, 300'001})
      wrong += wrong_messages_of(formed.group, count, torch::kFloat);
    session.barrier();
    formed.shutdown();
    return wrong;
  });
  CHECK(said == std::vector<std::string>(letters.size()));
}

TEST_CASE("it comes after what other threads have queued, in the order of the calls") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    const GroupPtr group = session.group();
    constexpr int kTurns = 100;
    std::mutex mutex;
    std::condition_variable changed;
    int turn = 0;
    // Their calls take turns; the operations of the other thread are under way, or wait, meanwhile.
    const auto take_turn = [&](int own, const std::function<void()>& call) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return turn == own; });
      }
      call();
      const std::lock_guard lock(mutex);
      ++turn;
      changed.notify_all();
    };
    std::vector<at::Tensor> sums;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    std::thread other([&] {
      for (int i = 0; i < kTurns; ++i) {
        take_turn(2 * i, [&] {
          for (const int each : {0, 1}) {
            std::vector<at::Tensor> tensors{torch::full({50'000}, 2 * i + each + session.rank())};
            works.push_back(group->allreduce(tensors));
            sums.push_back(tensors[0]);
          }
        });
      }
    });
    std::string wrong;
    for (int i = 0; i < kTurns; ++i) {
      take_turn(2 * i + 1, [&] {
        wrong += wrong_of(group, i, torch::kFloat);
        if (!works.back()->isCompleted()) wrong += "the later one was first; ";
      });
    }
    other.join();
    for (int i = 0; i < 2 * kTurns; ++i) {
      works[static_cast<std::size_t>(i)]->wait();
      if (!sums[static_cast<std::size_t>(i)].eq(2 * i + 1).all().item<bool>()) wrong += "a sum; ";
    }
    return wrong;
  });
  CHECK(said == std::vector<std::string>(2));
}

TEST_CASE("what is refused is refused with the same line, and breaks nothing") {
  const int ranks = GENERATE(1, 2);
  const auto said = on_ranks(ranks, [](Session& session) {
    const GroupPtr group = session.group();
    const std::int64_t two = 2 * group->getSize();
    const auto floats = [](std::int64_t count) { return torch::zeros({count}); };
    const auto waves = [](std::int64_t count) { return torch::zeros({count}, torch::kComplexFloat); };
    std::vector<std::function<void(Way)>> calls{
        [&](Way way) { all_gather(group, way, floats(two), floats(3)); },
        [&](Way way) { all_gather(group, way, floats(two), torch::zeros({2}, torch::kInt)); },
        [&](Way way) { all_gather(group, way, floats(1).expand({two}), floats(2)); },
        [&](Way way) { all_gather(group, way, floats(two), floats(2).to_sparse()); },
        [&](Way way) { all_gather(group, way, floats(two), at::empty({2}, at::kMeta)); },
        [&](Way way) { reduce_scatter(group, way, floats(3), floats(two)); },
        [&](Way way) { reduce_scatter(group, way, floats(1).expand({2}), floats(two)); },
        [&](Way way) { reduce_scatter(group, way, floats(2), floats(two), Op::BAND); },
        [&](Way way) {
          reduce_scatter(group, way, torch::zeros({2}, torch::kLong), torch::zeros({two}, torch::kLong), Op::AVG);
        },
        [&](Way way) {
          const auto type = torch::kFloat8_e4m3fn;
          reduce_scatter(group, way, torch::zeros({2}, type), torch::zeros({two}, type));
        },
        [&](Way way) { all_to_all(group, way, torch::zeros({two}, torch::kInt), floats(two)); },
        [&](Way way) { all_to_all(group, way, torch::zeros({}), floats(two)); },
        [&](Way way) { all_to_all(group, way, floats(1).expand({two}), floats(two)); },
        [&](Way way) { all_to_all(group, way, floats(two), floats(two).to_sparse()); },
        [&](Way way) { all_gather(group, way, waves(two), waves(2).conj()); },
        [&](Way way) { reduce_scatter(group, way, waves(2), waves(two).conj()); },
        [&](Way way) { all_to_all(group, way, waves(two), waves(two).conj()); },
        [&](Way way) { send(group, way, floats(2), group->getRank()); },
        [&](Way way) { recv(group, way, floats(2), group->getSize()); },
        [&](Way way) { send(group, way, floats(2).to_sparse(), group->getSize() - 1 - group->getRank()); },
        [&](Way way) { recv(group, way, floats(1).expand({2}), group->getSize() - 1 - group->getRank()); },
        [&](Way way) { recv(group, way, floats(2), group->getSize() - 1 - group->getRank(), -1); },
    };
    if (group->getSize() == 1) calls.emplace_back([&](Way way) { recv(group, way, floats(2), -1); });
    const at::Tensor twice = floats(2 * two);
    if (group->getSize() > 1)
      calls.emplace_back([&](Way way) { all_to_all(group, way, twice.narrow(0, 1, two), twice.narrow(0, 0, two)); });
    std::string wrong;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::string now = message_of([&] { calls[i](Way::now); });
      const std::string queued = message_of([&] { calls[i](Way::queued); });
      if (now != queued || now.find("dtrain: ") != 0) wrong += std::to_string(i) + ": " + now + " | " + queued + "\n";
    }
    return wrong + wrong_of(group, 3, torch::kFloat);
  });
  CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("tensors with gaps between their elements are read and written as contiguous ones are") {
  const int ranks = GENERATE(1, 2, 3);
  const auto said = on_ranks(ranks, [](Session& session) {
    const GroupPtr group = session.group();
    const int rank = group->getRank(), all = group->getSize();
    // The first column of two, with what the second one held to be there afterwards.
    const auto gapped = [](const at::Tensor& tensor) {
      return torch::stack({tensor, torch::full_like(tensor, 77)}, -1).select(-1, 0);
    };
    const auto whole = [](const at::Tensor& column) {
      return column.as_strided({column.numel()}, {2}, column.storage_offset() + 1).eq(77).all().item<bool>();
    };
    std::string wrong;
    for (const Way way : kBoth) {
      const std::vector<std::function<void(at::Tensor, at::Tensor)>> calls{
          [&](auto to, auto from) { all_gather(group, way, to, from.narrow(0, 0, 4)); },
          [&](auto to, auto from) { reduce_scatter(group, way, to.narrow(0, 0, 4), from); },
          [&](auto to, auto from) { all_to_all(group, way, to, from); },
      };
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const at::Tensor input = values(rank, 4 * all, torch::kLong), output = torch::zeros({4 * all}, torch::kLong);
        const at::Tensor apart = gapped(output.clone());
        calls[i](output, input);
        calls[i](apart, gapped(input));
        if (!torch::equal(apart, output) || !whole(apart)) wrong += std::to_string(i) + " ";
      }
    }
    return wrong;
  });
  CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("rows of all_to_all that ranks cannot share are refused") {
  const auto said = on_ranks(2, [](Session& session) {
    std::string lines;
    for (const Way way : kBoth)
      lines += message_of([&] { all_to_all(session.group(), way, torch::zeros({3}), torch::zeros({3})); }) + "\n";
    return lines;
  });
  const std::string line =
      "dtrain: all_to_all without split sizes needs an output whose 3 rows can be divided by the 2 ranks\n";
  CHECK(said == std::vector<std::string>(2, line + line));
}

TEST_CASE("all_to_all of as many rows as split sizes say, and sizes that make something else") {
  using Sizes = std::vector<std::int64_t>;
  const auto said = on_ranks(3, [](Session& session) {
    const int rank = session.rank();
    // Rows of two columns that a rank has for another.
    const auto rows = [](int from, int to) { return std::int64_t{(from + 2 * to) % 3}; };
    Sizes has, gets;
    std::vector<at::Tensor> expected;
    for (int other = 0; other < 3; ++other) {
      has.push_back(rows(rank, other));
      gets.push_back(rows(other, rank));
      const std::int64_t before = rank == 0 ? 0 : rank == 1 ? rows(other, 0) : rows(other, 0) + rows(other, 1);
      expected.push_back(values(other, 2 * 3, torch::kShort).view({3, 2}).narrow(0, before, gets.back()));
    }
    at::Tensor input = values(rank, 2 * 3, torch::kShort).view({3, 2}), output = torch::zeros({3, 2}, torch::kShort);
    auto& group = backend(session.group());
    group.alltoall_base(output, input, gets, has)->wait();
    std::string found = torch::equal(output, torch::cat(expected)) ? "" : "the rows; ";
    for (Sizes sizes : {Sizes{1, 1}, Sizes{1, 1, 2}, Sizes{-1, 2, 2}})
      found += message_of([&] { group.alltoall_base(output, input, gets, sizes)->wait(); }) + "\n";
    return found;
  });
  const std::string line = "dtrain: all_to_all: the input has 3 rows, and ";
  CHECK(said == std::vector<std::string>(3, line + "2 split sizes for 3 ranks that make 2\n" + line +
                                                "3 split sizes for 3 ranks that make 4\n"
                                                "dtrain: all_to_all: a split size of the input is -1\n"));
}

TEST_CASE("calls that do not fit, a rank that is late and one that died are told with the same line") {
  const auto said = on_ranks(
      2,
      [](Session& session) {
        const std::vector<std::function<void(const GroupPtr&, Way)>> calls{
            [](const GroupPtr& group, Way way) { all_gather(group, way, torch::zeros({20}), torch::zeros({10})); },
            [](const GroupPtr& group, Way way) { reduce_scatter(group, way, torch::zeros({10}), torch::zeros({20})); },
            [](const GroupPtr& group, Way way) { all_to_all(group, way, torch::zeros({20}), torch::zeros({20})); },
            [](const GroupPtr& group, Way way) { barrier(group, way); },
            [](const GroupPtr& group, Way way) { all_reduce(group, way, torch::zeros({20})); },
        };
        // A group of its own for each call and each way: it is broken then.
        const std::size_t pairs = calls.size();
        std::vector<Group> fits, late, dies;
        for (std::size_t i = 0; i < 2 * pairs; ++i) {
          fits.push_back(session.world().again({"one"}));
          late.push_back(session.world().again({"one", std::chrono::milliseconds{200}}));
          dies.push_back(session.world().again({"one"}));
        }
        std::string told;
        const auto compare = [&](const char* what, const std::vector<Group>& groups, const auto& call) {
          for (std::size_t i = 0; i < pairs; ++i) {
            const std::string now = message_of([&] { call(groups[2 * i].process_group(), i, Way::now); });
            const std::string queued = message_of([&] { call(groups[2 * i + 1].process_group(), i, Way::queued); });
            if (now != queued || now.find("dtrain: group 'one' (ranks 0, 1): collective 1") != 0)
              told += std::string(what) + ": " + now + " | " + queued + "\n";
          }
        };
        const int rank = session.rank();
        compare("does not fit", fits, [&](const GroupPtr& group, std::size_t i, Way way) {
          calls[(i + static_cast<std::size_t>(rank)) % pairs](group, way);
        });
        const auto as_called = [&](const GroupPtr& group, std::size_t i, Way way) { calls[i](group, way); };
        if (rank == 0) compare("late", late, as_called);
        session.barrier();
        if (rank == 1) ::raise(SIGKILL);
        compare("died", dies, as_called);
        return told;
      },
      /*ends=*/false);
  CHECK(said == std::vector<std::string>(2));
}

TEST_CASE("messages that do not fit, or do not come, are told with the same line") {
  const auto said = on_ranks(
      2,
      [](Session& session) {
        std::vector<Group> fits, late, dies;
        for (std::size_t i = 0; i < 2; ++i) {
          fits.push_back(session.world().again({"one"}));
          late.push_back(session.world().again({"one", std::chrono::milliseconds{200}}));
          dies.push_back(session.world().again({"one"}));
        }
        const int rank = session.rank(), other = 1 - rank;
        std::string told;
        const auto compare = [&](const std::vector<Group>& groups, const char* line, const auto& call) {
          const std::string now = message_of([&] { call(groups[0].process_group(), Way::now); });
          const std::string queued = message_of([&] { call(groups[1].process_group(), Way::queued); });
          if (now != queued || now.find(line) == std::string::npos) told += now + " | " + queued + "\n";
        };
        const auto receives = [&](const GroupPtr& group, Way way) { recv(group, way, torch::zeros({2}), other, 7); };
        const auto sends = [&](const GroupPtr& group, Way way) { send(group, way, torch::zeros({30'000}), other, 7); };
        const auto first = [&](const auto& run, const auto& otherwise) {
          return [&](const GroupPtr& group, Way way) { rank == 0 ? run(group, way) : otherwise(group, way); };
        };
        compare(fits, "Float [30000] with tag 7", first(sends, receives));
        if (rank == 0) compare(late, "recv of Float [2] from rank 1 with tag 7", receives);
        session.barrier();
        if (rank == 1) ::raise(SIGKILL);
        compare(dies, "send of Float [30000] to rank 1 with tag 7", sends);
        return told;
      },
      /*ends=*/false);
  CHECK(said == std::vector<std::string>(2));
}

TEST_CASE("the flight recorder is told the same of both") {
  const test::TempFolder folder;
  ::setenv("DTRAIN_FLIGHT_DIR", folder.path().c_str(), 1);
  on_ranks(
      2,
      [&](Session& session) {
        for (const Way way : kBoth) {
          all_gather(session.group(), way, torch::zeros({2, 3}), torch::zeros({3}));
          reduce_scatter(session.group(), way, torch::zeros({3}), torch::zeros({6}), Op::MAX);
          all_to_all(session.group(), way, torch::zeros({4, 2}), torch::zeros({4, 2}));
          barrier(session.group(), way);
          const int other = 1 - session.rank();
          if (session.rank() == 0) send(session.group(), way, torch::zeros({5}), other, 7);
          recv(session.group(), way, torch::zeros({5}), other, 7);
          if (session.rank() == 1) send(session.group(), way, torch::zeros({5}), other, 7);
        }
        return message_of([&] { session.all_reduce(torch::zeros({1 + session.rank()})); });  // now files are written
      },
      /*ends=*/false);
  ::unsetenv("DTRAIN_FLIGHT_DIR");
  const auto records = nlohmann::json::parse(folder.read("flight_rank1.json")).at("records");
  const auto told = [&](std::size_t i) {
    auto record = records.at(i);
    for (const char* own : {"serial", "number", "queued_ns", "started_ns", "ended_ns"}) record.erase(own);
    return record;
  };
  REQUIRE(records.size() == 13);
  CHECK(told(0).at("op") == "all_gather_single");
  CHECK(told(4).at("op") == "recv");
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    CHECK(told(i) == told(i + 6));
    CHECK(told(i).at("state") == "done");
  }
}
