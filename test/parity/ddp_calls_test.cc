// The order in which a program calls Ddp, and what it hears where that cannot work, or its modules do not fit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"

using namespace dtrain;
using test::message_of, test::on_ranks;

namespace {

struct Scaled : torch::nn::Module {
  Scaled() {
    layer = register_module("layer", torch::nn::Linear(8, 4));
    scale = register_buffer("scale", torch::ones({1, 4}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return layer(x) * scale; }
  torch::nn::Linear layer{nullptr};
  torch::Tensor scale;
};

// Two forwards, one backward: what differs from the gradients of one process on the batches of both ranks, with two
// modules of the same weights.
template <class Module>
std::string two_forwards(Session& session, const std::shared_ptr<Module>& module,
                         const std::shared_ptr<Module>& plain) {
  const auto x = [](int rank) { return torch::arange(32.0).view({4, 8}) / 7 + rank; };
  Ddp model(session, module);
  std::string wrong;
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    plain->zero_grad();
    (model(x(session.rank())).pow(2).sum() + model(x(session.rank()) * 2).pow(3).sum()).backward();
    for (int rank = 0; rank < 2; ++rank)
      ((plain->forward(x(rank)).pow(2).sum() + plain->forward(x(rank) * 2).pow(3).sum()) / 2).backward();
    const auto ours = module->parameters(), theirs = plain->parameters();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (!torch::allclose(ours[i].grad(), theirs[i].grad(), 1e-4, 1e-4)) wrong += fmt::format("{}.{} ", step, i);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("two forwards may come before one backward, buffers or not") {
  for (const std::string& one : on_ranks(2, [](Session& session) {
         torch::manual_seed(1);
         const auto module = std::make_shared<Scaled>();
         torch::manual_seed(1);
         return two_forwards(session, module, std::make_shared<Scaled>());
       }))
    CHECK(one.empty());
}

TEST_CASE("two forwards may come before one backward of batch norm, in training and in evaluation") {
  for (const bool trains : {true, false}) {
    for (const std::string& one : on_ranks(2, [trains](Session& session) {
           const auto make = [trains] {
             torch::manual_seed(1);
             torch::nn::Sequential net(torch::nn::Linear(8, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 2));
             net->train(trains);
             return net.ptr();
           };
           return two_forwards(session, make(), make());
         }))
      CHECK(one.empty());
  }
}

TEST_CASE("what Ddp calls is named by what it is for, on both ranks") {
  struct Story {
    const char* line;
    std::function<void(Session&)> run;  // rank 1 does something else than rank 0
  };
  const auto net = [] { return torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4)); };
  const torch::Tensor x = torch::arange(8.0).view({2, 4});
  const auto train = [&](Session& session, const DdpOptions& options,
                         const std::function<void(Ddp<torch::nn::SequentialImpl>&)>& then) {
    auto module = net();
    Ddp<torch::nn::SequentialImpl> model(session, module.ptr(), options);
    for (int step = 0; step < 3; ++step) model(x).sum().backward();
    then(model);
  };
  DdpOptions small;
  small.bucket_bytes = small.first_bucket_bytes = 16;
  DdpOptions narrow = small;
  narrow.compression = GradientCompression::fp16;
  const auto forgets_backward = [&](Session& session, const DdpOptions& options) {
    train(session, options, [&](auto& model) {
      const auto loss = model(x).sum();
      if (session.rank() == 0) loss.backward();
      model(x);
    });
  };
  const Story stories[] = {
      {"rank 0 called all_reduce sum of 4 float32 (Ddp backward, bucket 1 of 4), "
       "rank 1 called broadcast 32 bytes from rank 0 (Ddp forward: buffers)",
       [&](Session& session) { forgets_backward(session, small); }},
      {"rank 0 called all_reduce sum of 4 float16 (Ddp backward, bucket 1), "
       "rank 1 called broadcast 32 bytes from rank 0 (Ddp forward: buffers)",
       [&](Session& session) { forgets_backward(session, narrow); }},
      {"rank 0 called all_gather 32 bytes (Ddp: verify_sync), rank 1 called barrier (shutdown())",
       [&](Session& session) {
         train(session, {}, [&](auto& model) { session.rank() == 0 ? model.verify_sync() : session.shutdown(); });
       }},
      {"rank 0 called all_gather 8 bytes (Ddp construction), rank 1 called all_reduce sum of 3 float32",
       [&](Session& session) {
         if (session.rank() == 1) return session.all_reduce(torch::ones({3}));
         const Ddp<torch::nn::SequentialImpl> model(session, net().ptr());
       }},
      {"rank 0 called all_gather 8 bytes (forming a group), rank 1 called all_reduce sum of 3 float32",
       [&](Session& session) {
         if (session.rank() == 1) return session.all_reduce(torch::ones({3}));
         session.new_group({0, 1});
       }},
  };
  for (const Story& story : stories) {
    for (const std::string& one : test::said_by(test::outcomes_of(
             2, [&](Session& session) { return message_of<CollectiveError>([&] { story.run(session); }); }, false)))
      CHECK_THAT(
          one, Catch::Matches("dtrain: collective [0-9]+: rank 1 \\(pid [0-9]+\\) made a call that does not fit: .*") &&
                   Catch::Contains(story.line));
  }
}

TEST_CASE("a collective that a rank does not come to is named with what it is for") {
  const auto said = test::said_by(test::outcomes_of(
      2,
      [](Session& session) -> std::string {
        torch::nn::BatchNorm1d norm(4);
        Ddp model(session, norm);
        const auto step = [&] { model(torch::arange(8.0).view({2, 4})).sum().backward(); };
        step();
        if (session.rank() == 1) return "leaves";
        return message_of<CollectiveError>(step);
      },
      false));
  CHECK_THAT(said[0], Catch::StartsWith("dtrain: collective ") && Catch::Contains("; Ddp forward: ") &&
                          Catch::Contains("): rank 1 (pid ") && Catch::Contains(") left the job"));
}

TEST_CASE("an embedding with sparse gradients is named, with what to do") {
  const auto said = on_ranks(2, [](Session& session) {
    torch::nn::Embedding words(torch::nn::EmbeddingOptions(10, 4).sparse(true));
    Ddp model(session, words);
    return message_of<ConfigError>([&] { model(torch::tensor({1, 2})).sum().backward(); });
  });
  for (const std::string& one : said)
    CHECK_THAT(one, Catch::StartsWith("dtrain: Ddp averages dense gradients, and that of 'weight' is sparse; ") &&
                        Catch::Contains("sparse(true)"));
}

TEST_CASE("a forward under no_sync after a forward whose backward was left out is an error there") {
  const auto said = test::said_by(test::outcomes_of(
      2,
      [](Session& session) -> std::string {
        torch::nn::Linear layer(4, 1);
        Ddp model(session, layer);
        std::string found;
        for (int step = 0; step < 4; ++step) {
          found = message_of<std::exception>([&] {
            {
              const auto pause = model.no_sync();
              model(torch::ones({2, 4})).sum().backward();
            }
            const auto loss = model(torch::ones({2, 4})).sum();
            if (step != 1 || session.rank() == 0) loss.backward();
          });
          if (found != "no error") return fmt::format("{}: {}", step, found);
        }
        return "went on";
      },
      /*ends=*/false));
  CHECK_THAT(said[1], Catch::StartsWith("2: dtrain: Ddp: the last forward without no_sync had no backward"));
  CHECK_THAT(said[0], Catch::StartsWith("1: dtrain: ") && Catch::Contains("rank 1 (pid") && Catch::Contains("left"));
}

TEST_CASE("two forwards with one backward, and forwards without gradients, change nothing for no_sync") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    torch::nn::Linear layer(4, 1);
    Ddp model(session, layer);
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      {
        const auto pause = model.no_sync();
        model(torch::ones({2, 4})).sum().backward();
      }
      (model(torch::ones({2, 4})) + model(torch::ones({2, 4}))).sum().backward();
      const torch::NoGradGuard no_grad;
      model(torch::ones({2, 4}));
    }
    return fmt::format("{}", layer->weight.grad().sum().item<float>());
  });
  for (const std::string& one : said) CHECK(one == "24");
}

TEST_CASE("modules that differ within a group are refused there, with the session's ranks") {
  const auto said = on_ranks(4, [](Session& session) -> std::string {
    const Group group = session.split(session.rank() % 2).again();
    torch::nn::Linear layer(session.rank() == 3 ? 5 : 4, 1);
    const std::string found = message_of<DivergedError>([&] { const Ddp model(group, layer); });
    group.barrier();  // it goes on
    return found;
  });
  const std::string apart =
      "dtrain: Ddp needs the same module on all ranks, and rank 3 has another: 'weight' is "
      "Float [1, 5] on rank 3, and Float [1, 4] on rank 1";
  CHECK(said == std::vector<std::string>{"no error", apart, "no error", apart});
}

TEST_CASE("modules that differ between ranks are refused on every rank, with names and sizes") {
  struct Difference {
    std::function<torch::nn::Sequential(int rank)> make;
    std::string text;
  };
  const auto two = [](std::int64_t hidden) {
    return torch::nn::Sequential(torch::nn::Linear(4, hidden), torch::nn::Linear(hidden, 1));
  };
  const auto named = [](const std::vector<std::string>& names) {
    torch::nn::Sequential net;
    for (const std::string& name : names)
      net->push_back(std::string(name), torch::nn::AnyModule(torch::nn::Linear(4, 4)));
    return net;
  };
  const std::vector<Difference> all{
      // By name, although what comes in its place is of its size.
      {[&](int rank) {
         return rank == 1 ? named({"fc1", "fc3"}) : named({"fc1", "fc2", "fc3"});
       },
       "'fc2.weight' of rank 0 (Float [4, 4]) does not exist on rank 1"},
      {[&](int rank) { return two(rank == 1 ? 17 : 16); },
       "'0.weight' is Float [17, 4] on rank 1, and Float [16, 4] on rank 0"},
      {[&](int rank) { return rank == 1 ? torch::nn::Sequential(torch::nn::Linear(4, 16)) : two(16); },
       "'1.weight' of rank 0 (Float [1, 16]) does not exist on rank 1"},
      {[&](int rank) {
         auto net = two(16);
         if (rank == 1) net->push_back(torch::nn::BatchNorm1d(1));
         return net;
       },
       "'2.weight' of rank 1 (Float [1]) does not exist on rank 0"},
      {[&](int rank) {
         auto net = two(16);
         if (rank == 1) net->parameters()[1].set_requires_grad(false);
         return net;
       },
       "'0.bias' is Float [16], which needs no gradient on rank 1, and Float [16] on rank 0"},
      {[&](int rank) {
         auto net = two(16);
         if (rank == 1) net->to(torch::kDouble);
         return net;
       },
       "'0.weight' is Double [16, 4] on rank 1, and Float [16, 4] on rank 0"},
  };
  for (const Difference& one : all) {
    const auto said = on_ranks(3, [&one](Session& session) -> std::string {
      std::shared_ptr<torch::nn::SequentialImpl> net = one.make(session.rank()).ptr();
      try {
        const Ddp model(session, net);
      } catch (const DivergedError& error) {
        return fmt::format("{} {}", fmt::join(error.ranks(), ","), error.what());
      }
      return "taken";
    });
    for (const std::string& rank_said : said)
      CHECK(rank_said == "1 dtrain: Ddp needs the same module on all ranks, and rank 1 has another: " + one.text);
  }
}
