// hvd over groups of the session's ranks: contexts side by side, what their errors call the ranks, and the broadcasts.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "test/parity/hvd_cases.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using namespace dtrain::test;
using namespace std::chrono_literals;
using Strings = std::vector<std::string>;

namespace {

// What each rank says; all return.
Strings on_four(const std::function<std::string(Session&)>& body) {
  const auto outcomes = hvd_ranks(4, body);
  require_all_returned(outcomes);
  return said_by(outcomes);
}

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CollectiveError& error) {
    return fmt::format("{}: {}", error.rank(), error.what());
  }
  return "no error";
}

// How many of some reductions are not the sum over the group; by the same names in every group.
int wrong_sums(hvd::Context& context, const Group& group, int rank) {
  int wrong = 0;
  for (int step = 0; step < 30; ++step) {
    const at::Tensor small = at::full({3}, 1 << rank, at::kLong);
    const at::Tensor large = at::full({5000 + step}, 1 << rank, at::kLong);
    std::vector<hvd::Handle> handles{context.allreduce(small, "small", {.op = hvd::Op::sum}),
                                     context.allreduce(large, fmt::format("large {}", step), {.op = hvd::Op::sum})};
    for (const hvd::Handle& handle : handles) handle.wait();
    std::int64_t expected = 0;
    for (const int other : group.ranks()) expected += std::int64_t{1} << other;
    wrong += !at::equal(small, at::full_like(small, expected)) + !at::equal(large, at::full_like(large, expected));
  }
  return wrong;
}

// Twenty steps over a group on its share of the batches; the parameters' sum, to the last bit.
std::string trained(const Group& group, int kind) {
  hvd::Context context(group, brisk());
  torch::manual_seed(group.rank());  // the first rank's weights must come to all
  SmallNet net;
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(group.rank() == 0 ? 0.05 : 0.5).momentum(0.9));
  hvd::broadcast_parameters(group, *net);
  hvd::broadcast_optimizer_state(group, sgd);
  hvd::DistributedOptimizer optimizer(context, sgd, net->named_parameters());
  for (int step = 0; step < 20; ++step) {
    mean_error(net, share_of(batch_of(1000 * kind + step), group.rank(), group.size())).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  double sum = 0;
  for (const auto& parameter : net->parameters()) sum += parameter.sum().item<double>();
  return fmt::format("{} of {}: {:a}", context.rank(), context.world_size(), sum);
}

}  // namespace

TEST_CASE("hvd: contexts of two halves, of a group across them, and of all ranks, at once and one after another") {
  const auto said = on_four([](Session& session) {
    const Group half = session.split(session.rank() % 2, {"half"});
    const Group across = session.new_group({3, 0, 1}, {"across"});
    std::string found;
    for (int time = 0; time < 2; ++time) {
      hvd::Context of_half(half, brisk());
      hvd::Context again(half, brisk());
      hvd::Context of_all(session, brisk());
      std::optional<hvd::Context> of_across;
      if (across) of_across.emplace(across, brisk());
      std::vector<int> wrong(4, 0);
      std::thread first([&] { wrong[0] = wrong_sums(of_half, half, session.rank()); });
      std::thread second([&] { wrong[1] = wrong_sums(again, half, session.rank()); });
      std::thread third([&] { wrong[2] = across ? wrong_sums(*of_across, across, session.rank()) : 0; });
      wrong[3] = wrong_sums(of_all, session.world(), session.rank());
      first.join();
      second.join();
      third.join();
      found += fmt::format("{}, {} ", fmt::join(wrong, " "), across ? of_across->rank() : -1);
      if (across && of_across->join() < 0) found += "nobody was last ";
      session.barrier();  // nobody's context ends what others still reduce
    }
    return found;
  });
  CHECK(said == Strings{"0 0 0 0, 1 0 0 0 0, 1 ", "0 0 0 0, 2 0 0 0 0, 2 ", "0 0 0 0, -1 0 0 0 0, -1 ",
                        "0 0 0 0, 0 0 0 0 0, 0 "});
}

TEST_CASE("hvd: training over a mesh's dimension is that over a world of its size") {
  std::vector<Strings> worlds;
  for (const int kind : {0, 1}) {
    const auto outcomes = hvd_ranks(2, [&](Session& session) { return trained(session.world(), kind); });
    require_all_returned(outcomes);
    worlds.push_back(said_by(outcomes));
  }
  const auto said = on_four([](Session& session) {
    const Mesh mesh(session, {{"replicate", 2}, {"shard", 2}});
    return trained(mesh.group("replicate"), mesh.coordinate("shard"));
  });
  CHECK(said == Strings{worlds[0][0], worlds[1][0], worlds[0][1], worlds[1][1]});
  CHECK(worlds[0][0] != worlds[1][0]);
}

TEST_CASE("hvd: a root is a rank of the group, and what does not fit names the session's ranks") {
  const auto said = on_four([](Session& session) -> std::string {
    const Group pair = session.new_group({3, 1}, {"pair"});
    hvd::NamedTensors tensors;
    tensors.insert("x", at::full({2}, static_cast<float>(session.rank())));
    if (!pair) {
      const auto refused = [&](const std::function<void()>& call) { return message_of<c10::Error>(call); };
      const std::string first = refused([&] { hvd::broadcast_parameters(pair, tensors); });
      return first == refused([&] { hvd::Context context(pair, brisk()); }) ? first : "two errors";
    }
    hvd::broadcast_parameters(pair, tensors, 0);
    const auto first = tensors["x"][0].item<float>();
    tensors["x"].fill_(session.rank());
    hvd::broadcast_parameters(pair, tensors, 1);
    const auto second = tensors["x"][0].item<float>();
    hvd::NamedTensors other;
    other.insert("x", at::zeros({session.rank()}));
    return fmt::format("{} {} {}", first, second,
                       message_of<std::runtime_error>([&] { hvd::broadcast_parameters(pair, other, 1); }));
  });
  const std::string outside = "dtrain: this rank is not in the group 'pair' (ranks 3, 1)";
  const std::string differs = "3 1 dtrain: rank 3: 'x' Float [3] here, but 'x' Float [1] on rank 1";
  CHECK(said == Strings{outside, differs, outside, differs});
}

TEST_CASE("hvd: errors of a group's context name the group, and the session's ranks") {
  const auto said = on_four([](Session& session) {
    const Group half = session.split(session.rank() / 2, {"half"});  // 0 1 | 2 3
    const bool second = half.rank() == 1;
    std::string found;
    {
      hvd::Context context(half, brisk());
      const at::Tensor x = at::ones({second ? 3 : 2});
      found += failure_of([&] { context.allreduce(x, "rank 0").wait(); }) + " / ";
    }
    auto ends = std::make_unique<hvd::Context>(half, brisk());
    if (second) {
      ends.reset();
    } else {
      found += failure_of([&] { ends->allreduce(at::ones({2}), "x").wait(); });
    }
    return found;
  });
  const auto differ = [](int first, int second) {
    return fmt::format(
        "{1}: dtrain: 'rank 0' was not reduced: group 'half' (ranks {0}, {1}): tensor 'rank 0' is not the same "
        "on all ranks: Float [2] on cpu, average on rank {0}, but Float [3] on cpu, average on rank "
        "{1} / ",
        first, second);
  };
  const auto left = [](int first, int second) {
    return fmt::format(
        "{1}: dtrain: 'x' was not reduced: group 'half' (ranks {0}, {1}): rank {1} ended its hvd::Context", first,
        second);
  };
  CHECK(said == Strings{differ(0, 1) + left(0, 1), differ(0, 1), differ(2, 3) + left(2, 3), differ(2, 3)});
}

TEST_CASE("hvd: a rank that dies ends its group's context, and the other half reduces on") {
  const auto outcomes = outcomes_of(
      4,
      [](Session& session) -> std::string {
        const Group half = session.split(session.rank() % 2, {"half"});
        hvd::Context context(half, brisk());
        const at::Tensor x = at::ones({2});
        context.allreduce(x, "x", {.op = hvd::Op::sum}).wait();
        session.barrier();  // all groups have formed, by rank 0's store
        if (session.rank() == 3) ::raise(SIGKILL);
        const std::string failure = failure_of([&] { context.allreduce(x, "x", {.op = hvd::Op::sum}).wait(); });
        return session.rank() == 1 ? failure : fmt::format("{} {}", failure, x[0].item<float>());
      },
      /*ends=*/false);
  CHECK(outcomes[0].said == "no error 4");
  CHECK(outcomes[2].said == "no error 4");
  CHECK(outcomes[3].signal == SIGKILL);
  CHECK_THAT(outcomes[1].said, Catch::StartsWith("3: dtrain: 'x' was not reduced: group 'half' (ranks 1, 3): ") &&
                                   Catch::Contains("rank 3 (pid ") && Catch::Contains("died"));
}

TEST_CASE("hvd: each group's first rank says what is late, and has a timeline of its own") {
  const TempFolder folder;
  const std::string path = folder / "trace.json";
  const auto said = on_four([&](Session& session) {
    ::setenv("HOROVOD_TIMELINE", path.c_str(), 1);
    ::setenv("HOROVOD_AUTOTUNE", "1", 1);
    const std::string errors = folder / fmt::format("stderr{}", session.rank());
    ::dup2(::open(errors.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
    hvd::Settings settings = hvd::parse_settings(process_env());
    settings.stall_warning = 200ms;
    settings.stall_failure = 700ms;
    const Group half = session.split(session.rank() % 2, {"half"});
    hvd::Context context(half, settings);
    hvd::Context of_all(session);
    of_all.allreduce(at::ones({1}), "of all").wait();
    context.allreduce(at::ones({1}), "of half").wait();
    session.barrier();
    if (session.rank() != 3) failure_of([&] { context.allreduce(at::ones({1}), "late").wait(); });
    session.barrier();
    return folder.read(fmt::format("stderr{}", session.rank()));
  });
  CHECK_THAT(said[1], Catch::Contains("dtrain: hvd: group 'half' (ranks 1, 3): for 0.2 s or more, rank 3 has not "
                                      "submitted 'late'"));
  CHECK(said[0] == "dtrain: hvd: HOROVOD_AUTOTUNE has no effect here\n");
  CHECK(said[3] == "");
  Strings traces;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("trace.json")) continue;
    traces.push_back(name + ' ' + nlohmann::json::parse(folder.read(name))[0]["args"]["name"].get<std::string>());
  }
  std::sort(traces.begin(), traces.end());
  CHECK(traces == Strings{"trace.json of all", "trace.json.dtrain_group_1_0_hvd_1 of half",
                          "trace.json.dtrain_group_1_1_hvd_1 of half"});
}
