// Groups of a session's ranks, and meshes of them, in real processes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using dtrain::test::message_of;
using Strings = std::vector<std::string>;

namespace {

// What each rank's `run` says; with `ends`, after its session was shut down.
Strings on_ranks(int ranks, const std::function<std::string(Session&)>& run, bool ends = true) {
  Strings said;
  for (const auto& outcome : test::outcomes_of(ranks, run, ends)) {
    INFO(outcome.said);
    CHECK(!outcome.threw);
    CHECK((outcome.exited || outcome.signal == SIGKILL));
    said.push_back(outcome.said);
  }
  return said;
}

// Another one for each rank, the same on all of them.
torch::Tensor of_rank(int rank, std::int64_t count) {
  return torch::arange(count, torch::kDouble) * 3 + rank * rank * 7 + 1;
}

torch::Tensor sum_of(const std::vector<int>& ranks, std::int64_t count) {
  torch::Tensor sum = torch::zeros({count}, torch::kDouble);
  for (const int rank : ranks) sum += of_rank(rank, count);
  return sum;
}

// Five updates of a small net over a group; the last loss, to the last bit. Data is the same wherever `place` and
// `kind` are.
std::string losses(const Group& group, int place, int kind, const DdpOptions& options = {}) {
  torch::manual_seed(group.rank());  // the first rank's weights must come to all
  torch::nn::Sequential net(torch::nn::Linear(6, 5), torch::nn::Tanh(), torch::nn::Linear(5, 2));
  Ddp model(group, std::shared_ptr<torch::nn::SequentialImpl>(net.ptr()), options);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  torch::Tensor loss;
  for (int step = 0; step < 5; ++step) {
    torch::manual_seed(1000 * kind + 10 * step + place);
    const torch::Tensor x = torch::randn({8, 6});
    model.zero_grad();
    loss = (model(x) - x.narrow(1, 0, 2).sin()).pow(2).mean();
    loss.backward();
    sgd.step();
  }
  model.verify_sync();
  return fmt::format("{:a}", loss.item<float>());
}

}  // namespace

TEST_CASE("even and odd ranks, each with two groups beside the world's, from three threads at once") {
  const auto said = on_ranks(5, [](Session& session) {
    const Group half = session.split(session.rank() % 2, {"half"});
    const Group again = half.again();
    constexpr int kTimes = 60;
    const auto wrong = [&](const Group& group, std::int64_t count) {
      int found = 0;
      for (int i = 0; i < kTimes; ++i) {
        torch::Tensor tensor = of_rank(session.rank(), count + i);
        group.all_reduce(tensor);
        found += !torch::equal(tensor, sum_of(group.ranks(), count + i));
      }
      return found;
    };
    int in_half = -1;
    int in_again = -1;
    std::thread first([&] { in_half = wrong(half, 1); });
    std::thread second([&] { in_again = wrong(again, 20'000); });
    const int in_world = wrong(session.world(), 50);
    first.join();
    second.join();
    return fmt::format("{} {} {} of {}: {}", in_half, in_again, in_world, half.size(), fmt::join(half.ranks(), " "));
  });
  CHECK(said ==
        Strings{"0 0 0 of 3: 0 2 4", "0 0 0 of 2: 1 3", "0 0 0 of 3: 0 2 4", "0 0 0 of 2: 1 3", "0 0 0 of 3: 0 2 4"});
}

TEST_CASE("a mesh of 2 x 2: reductions along both dimensions, and hybrid sharding's are the world's") {
  const auto said = on_ranks(4, [](Session& session) {
    const Mesh mesh(session, {{"replicate", 2}, {"shard", 2}});
    const Group& shard = mesh.group("shard");
    const Group& replicate = mesh.group("replicate");
    bool fits = mesh.coordinate("replicate") == session.rank() / 2 && mesh.coordinate("shard") == session.rank() % 2;
    for (const Group& group : {shard, replicate}) {
      torch::Tensor sum = of_rank(session.rank(), 1001);
      group.all_reduce(sum);
      fits = fits && torch::equal(sum, sum_of(group.ranks(), 1001));
    }
    torch::Tensor expected = of_rank(session.rank(), 1000);
    session.all_reduce(expected);
    torch::Tensor mine = torch::empty({500}, torch::kDouble);
    shard.reduce_scatter(mine, of_rank(session.rank(), 1000));
    replicate.all_reduce(mine);
    torch::Tensor all = torch::empty({1000}, torch::kDouble);
    shard.all_gather(all, mine);
    fits = fits && torch::equal(all, expected);
    return fmt::format("{} | {} | {}", fmt::join(shard.ranks(), " "), fmt::join(replicate.ranks(), " "),
                       fits ? "fits" : "does not fit");
  });
  CHECK(said == Strings{"0 1 | 0 2 | fits", "0 1 | 1 3 | fits", "2 3 | 0 2 | fits", "2 3 | 1 3 | fits"});
}

TEST_CASE("a group has the order of its list, and ranks outside of it are told so") {
  const auto said = on_ranks(3, [](Session& session) -> std::string {
    const Group pair = session.new_group({2, 0}, {"pair"});
    if (!pair) return message_of<c10::Error>([&] { pair.barrier(); });
    torch::Tensor tensor = torch::full({3}, static_cast<float>(session.rank()));
    pair.broadcast(tensor, 0);
    const std::string name = pair.process_group()->getGroupName();
    const bool registered = c10d::resolve_process_group(name) == pair.process_group();
    pair.end();
    return fmt::format("{} {} {} {}", pair.rank(), tensor[0].item<float>(), registered,
                       message_of<c10::Error>([&] { pair.barrier(); }));
  });
  const std::string ended = "dtrain: the group 'pair' has ended, or the session was shut down";
  CHECK(said ==
        Strings{"1 2 true " + ended, "dtrain: this rank is not in the group 'pair' (ranks 2, 0)", "0 2 true " + ended});
}

TEST_CASE("a Group that nobody made says so") {
  const auto said = message_of<c10::Error>([] { Group().barrier(); });
  CHECK(said == "dtrain: this Group is empty; use session.world(), or what new_group(), split() or a Mesh returned");
}

TEST_CASE("ranks that do not agree on a group are named on all ranks, and the session goes on") {
  const auto said = on_ranks(4, [](Session& session) {
    using List = std::vector<int>;
    std::string found;
    const auto refused = [&](const std::function<void()>& form) { found += message_of<ConfigError>(form) + "\n"; };
    refused([&] { session.new_group(session.rank() == 3 ? List{0, 1} : List{0, 2}); });
    refused([&] { session.rank() == 1 ? session.split(1) : session.new_group({0, 1}); });
    refused([&] { Mesh(session, {{"a", session.rank() == 2 ? 4 : 2}, {"b", session.rank() == 2 ? 1 : 2}}); });
    refused([&] { session.new_group({}); });
    refused([&] { session.new_group({1, 3, 1}); });
    refused([&] { session.new_group({0, 4}); });
    refused([&] { Mesh(session, {{"a", 2}, {"b", 3}}); });
    const Group all = session.new_group({3, 2, 1, 0});
    torch::Tensor one = torch::ones({1});
    all.all_reduce(one);
    return found + all.name() + fmt::format(" {}", one.item<float>());
  });
  const std::string rule = "; every rank of the session makes the same calls in the same order\n";
  const std::string expected =
      "dtrain: the ranks do not agree on a group: rank 3 says new_group([0, 1]), rank 0 says new_group([0, 2])" + rule +
      "dtrain: the ranks do not agree on a group: rank 1 says split(), rank 0 says new_group([0, 1])" + rule +
      "dtrain: the ranks do not agree on a group: rank 2 says Mesh(a 4 x b 1), rank 0 says Mesh(a 2 x b 2)" + rule +
      "dtrain: new_group([]): a group needs a rank\n"
      "dtrain: new_group([1, 3, 1]): rank 1 is named twice\n"
      "dtrain: new_group([0, 4]): there is no rank 4; ranks are 0 to 3\n"
      "dtrain: mesh a 2 x b 3 does not fit the 4 ranks: the product of the sizes must be the world size\n"
      "group 1 4";
  CHECK(said == Strings(4, expected));
}

TEST_CASE("a world of one rank has groups and meshes too") {
  const auto said = on_ranks(1, [](Session& session) {
    const Mesh mesh(session, {{"replicate", 1}, {"shard", 1}});
    torch::Tensor all = torch::zeros({4});
    mesh.group("shard").all_gather(all, torch::ones({4}));
    const Group none = session.split(std::nullopt);
    session.new_group({0}).barrier();
    return fmt::format("{} {} {}", all.sum().item<float>(), none ? "in" : "out", losses(mesh.group("replicate"), 0, 0));
  });
  const auto plain = on_ranks(1, [](Session& session) { return "4 out " + losses(session.world(), 0, 0); });
  CHECK(said == plain);
}

TEST_CASE("a rank that dies in a group is named by its number in the session, and other groups go on") {
  const auto before = test::shared_memory_names();
  const auto said = on_ranks(
      4,
      [](Session& session) -> std::string {
        const Group half = session.split(session.rank() % 2, {"half"});
        half.barrier();
        session.barrier();  // rank 0 has the store, by which the others' group forms, and ends soon
        if (session.rank() == 3) ::raise(SIGKILL);
        torch::Tensor tensor = torch::ones({100});
        try {
          half.broadcast(tensor, 1);
        } catch (const CollectiveError& error) {
          return fmt::format("{} {}", error.rank(), error.what());
        }
        return "no error";
      },
      /*ends=*/false);
  CHECK(said[0] == "no error");
  CHECK(said[2] == "no error");
  CHECK_THAT(said[1], Catch::StartsWith("3 dtrain: group 'half' (ranks 1, 3): collective 2 (broadcast 400 bytes from "
                                        "rank 3): rank 3 (pid ") &&
                          Catch::EndsWith("died"));
  CHECK(test::shared_memory_names() == before);
}

TEST_CASE("calls that do not fit, and a late rank, are told with the session's ranks") {
  const auto said = on_ranks(4, [](Session& session) {
    const Group pair = session.new_group({3, 1}, {"pair"});
    const Group late = session.new_group({1, 2}, {"late", std::chrono::milliseconds{300}});
    std::string found;
    if (pair) found = message_of<CollectiveError>([&] { pair.all_reduce(torch::ones({pair.rank() + 1})); });
    if (session.rank() == 1) found += " / " + message_of<CollectiveError>([&] { late.barrier(); });
    session.barrier();  // the world is whole, and rank 2 is there all the time
    return found;
  });
  const std::string differ = "group 'pair' (ranks 3, 1): collective 1: rank 1 (pid ";
  CHECK_THAT(said[3], Catch::Contains(differ) && Catch::Contains("rank 3 called all_reduce sum of 1 float32, rank 1 "
                                                                 "called all_reduce sum of 2 float32"));
  CHECK_THAT(said[1], Catch::Contains(differ) &&
                          Catch::Contains("group 'late' (ranks 1, 2): collective 1 (barrier): "
                                          "rank 2 (pid ") &&
                          Catch::Contains("did not arrive in time"));
}

TEST_CASE("Ddp over a mesh's dimension trains as Ddp over a world of that size") {
  const bool views = GENERATE(false, true);
  DdpOptions options;
  options.gradient_as_bucket_view = views;
  options.bucket_bytes = options.first_bucket_bytes = 64;
  std::vector<Strings> worlds;
  for (const int kind : {0, 1})
    worlds.push_back(
        on_ranks(2, [&](Session& session) { return losses(session.world(), session.rank(), kind, options); }));
  const auto said = on_ranks(4, [&](Session& session) {
    const Mesh mesh(session, {{"replicate", 2}, {"shard", 2}});
    return losses(mesh.group("replicate"), mesh.coordinate("replicate"), mesh.coordinate("shard"), options);
  });
  CHECK(said == Strings{worlds[0][0], worlds[1][0], worlds[0][1], worlds[1][1]});
  CHECK(said[0] != said[1]);
}

TEST_CASE("ranks of a group that have diverged are named as the session counts them") {
  const auto said = on_ranks(4, [](Session& session) -> std::string {
    const Group half = session.split(session.rank() % 2);
    torch::nn::Linear layer(3, 2);
    Ddp model(half, layer);
    if (session.rank() == 3) {
      const torch::NoGradGuard no_grad;
      layer->bias.add_(1);
    }
    try {
      model.verify_sync();
    } catch (const DivergedError& error) {
      return fmt::format("{}: {}", fmt::join(error.ranks(), ","), error.what());
    }
    return "the same";
  });
  CHECK(said[0] == "the same");
  CHECK(said[2] == "the same");
  for (const std::size_t rank : {1U, 3U})
    CHECK_THAT(said[rank], Catch::StartsWith("3: dtrain: parameter 'bias' of rank 3 differs from that of rank 1: "));
}
