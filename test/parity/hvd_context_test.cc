// hvd::Context: reductions by name, and what is said when they cannot be.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "test/parity/hvd_cases.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/free_port.h"

using namespace dtrain;
using namespace dtrain::test;
using namespace std::chrono_literals;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// What a call throws, with its kind and rank if it is a CollectiveError.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CollectiveError& error) {
    return fmt::format("{} {}: {}", static_cast<int>(error.kind()), error.rank(), error.what());
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return std::string("other: ") + error.what();
  }
  return "none";
}

std::string kind_text(FailureKind kind) { return std::to_string(static_cast<int>(kind)); }

using Vector = std::vector<double>;

Vector adasum_reference(const Vector& a, const Vector& b) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  Vector sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    sum[i] = (aa > 0 ? 1 - dot / (2 * aa) : 1) * a[i] + (bb > 0 ? 1 - dot / (2 * bb) : 1) * b[i];
  return sum;
}

Vector gradient_of(int rank, int tensor) {
  Vector values;
  for (int i = 0; i < 5 + tensor; ++i) values.push_back(tensor == 2 && rank < 2 ? 0 : std::sin(7 * rank + i + tensor));
  return values;
}

Vector adasum_of_ranks(int first, int count, int tensor) {
  if (count == 1) return gradient_of(first, tensor);
  return adasum_reference(adasum_of_ranks(first, count / 2, tensor),
                          adasum_of_ranks(first + count / 2, count / 2, tensor));
}

}  // namespace

TEST_CASE("hvd: tensors of any kind, from several threads, in another order on each rank") {
  require_all_said(
      hvd_ranks(3,
                [](Session& session) -> std::string {
                  hvd::Settings settings = brisk();
                  settings.fusion_threshold = 64;
                  hvd::Context context(session, settings);
                  const std::vector<at::ScalarType> types{at::kDouble, at::kFloat, at::kHalf, at::kBFloat16};
                  bool right = true;
                  for (int round = 0; round < 20; ++round) {
                    std::vector<at::Tensor> tensors;
                    for (int i = 0; i < 12; ++i)
                      tensors.push_back(at::full({2 + i % 3, 3}, i + session.rank(),
                                                 types[static_cast<std::size_t>(i) % types.size()])
                                            .t());
                    const auto reduce = [&](int parity, int first) {
                      std::vector<hvd::Handle> handles;
                      for (int k = 0; k < 6; ++k) {
                        const int i = 2 * ((k + first) % 6) + parity;
                        handles.push_back(
                            context.allreduce(tensors[static_cast<std::size_t>(i)], fmt::format("t{}", i)));
                      }
                      for (const hvd::Handle& handle : handles) handle.wait();
                    };
                    std::thread other([&] { reduce(1, 2 * session.rank()); });
                    reduce(0, session.rank());
                    other.join();
                    for (int i = 0; i < 12; ++i)
                      right = right && at::allclose(tensors[static_cast<std::size_t>(i)].to(at::kDouble),
                                                    at::full({3, 2 + i % 3}, i + 1.0, at::kDouble), 1e-2);
                  }
                  at::Tensor whole = at::full({4}, session.rank(), at::kLong);
                  context.allreduce(whole, "whole", {.op = hvd::Op::sum}).wait();
                  at::Tensor empty = at::empty({0});
                  context.allreduce(empty, "empty").wait();
                  std::vector<at::Tensor> group{at::ones({2}), at::ones({3}) * session.rank()};
                  for (const hvd::Handle& handle : context.grouped_allreduce(group, "group")) handle.wait();
                  right = right && whole.sum().item<std::int64_t>() == 12 && group[1].sum().item<float>() == 3;
                  return right ? "right" : "wrong";
                }),
      "right");
}

TEST_CASE("hvd: adasum is that of the reference, tensor by tensor") {
  const int ranks = GENERATE(1, 2, 4);
  const std::int64_t threshold = GENERATE(0, 1 << 20);
  require_all_said(
      hvd_ranks(ranks,
                [&](Session& session) -> std::string {
                  hvd::Settings settings = brisk();
                  settings.fusion_threshold = threshold;
                  hvd::Context context(session, settings);
                  std::vector<at::Tensor> tensors;
                  for (int t = 0; t < 3; ++t)
                    tensors.push_back(at::tensor(gradient_of(session.rank(), t), at::kDouble));
                  for (const auto& handle : context.grouped_allreduce(tensors, "g", {.op = hvd::Op::adasum}))
                    handle.wait();
                  for (int t = 0; t < 3; ++t) {
                    const at::Tensor expected = at::tensor(adasum_of_ranks(0, session.world_size(), t), at::kDouble);
                    if (!at::allclose(tensors[static_cast<std::size_t>(t)], expected, 1e-12, 1e-12))
                      return fmt::format("tensor {} is wrong", t);
                  }
                  return "right";
                }),
      "right");
}

TEST_CASE("hvd: what is not taken is refused at the call, and nothing is lost") {
  require_all_said(hvd_ranks(3,
                             [](Session& session) -> std::string {
                               hvd::Context context(session, brisk());
                               at::Tensor x = at::ones({2});
                               const auto first = error_of([&] { context.allreduce(x, "x", {.op = hvd::Op::adasum}); });
                               const auto second = error_of([&] { context.allreduce(x.to(at::kLong), "x"); });
                               const std::vector<at::Tensor> mixed{x, x.to(at::kBool)};
                               const auto third = error_of([&] { context.grouped_allreduce(mixed, "g"); });
                               context.allreduce(x, "x").wait();
                               context.allreduce(x, "g.0").wait();
                               return fmt::format("{}\n{}\n{}\n", first, second, third);
                             }),
                   "dtrain: Op::adasum needs a world size that is a power of two, not 3\n"
                   "dtrain: 'x' has type Long; floating types can be reduced, and integers with Op::sum\n"
                   "dtrain: 'g.1' has type Bool; floating types can be reduced, and integers with Op::sum\n");
}

TEST_CASE("hvd: a tensor of another shape on one rank is an error on all that names it") {
  require_all_said(
      hvd_ranks(2,
                [](Session& session) {
                  hvd::Context context(session, brisk());
                  at::Tensor other = at::ones({4});
                  at::Tensor x = session.rank() == 0 ? at::ones({2, 3}) : at::ones({3, 2});
                  const hvd::Handle pending = context.allreduce(x, "x");
                  const std::string said = error_of([&] { pending.wait(); });
                  const std::string later = error_of([&] { context.allreduce(other, "y"); });
                  return fmt::format("{}\n{}", said, later.substr(0, 32));
                }),
      kind_text(FailureKind::mismatched) +
          " 1: dtrain: 'x' was not reduced: tensor 'x' is not the same on all ranks: Float [2, 3] on cpu, average "
          "on rank 0, but Float [3, 2] on cpu, average on rank 1\n" +
          kind_text(FailureKind::mismatched) + " 1: dtrain: 'y' was not reduced");
}

TEST_CASE("hvd: a tensor that one rank does not submit is said on standard error, and fails at the limit") {
  const TempFolder folder;
  const std::string path = folder / "stderr";
  const auto outcomes = hvd_ranks(2, [&](Session& session) {
    const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    ::dup2(file, STDERR_FILENO);
    hvd::Settings settings = brisk();
    if (session.rank() == 0) {  // its settings hold on both
      settings.stall_warning = 200ms;
      settings.stall_failure = 700ms;
    }
    hvd::Context context(session, settings);
    at::Tensor both = at::ones({2});
    context.allreduce(both, "both").wait();
    at::Tensor one = at::ones({2});
    const hvd::Handle first = context.allreduce(both, session.rank() == 0 ? "both" : "of rank 1");
    const hvd::Handle second = context.allreduce(one, session.rank() == 0 ? "of rank 0" : "also of rank 1");
    error_of([&] { first.wait(); });
    return error_of([&] { second.wait(); });
  });
  require_all_returned(outcomes);
  CHECK_THAT(outcomes[0].said, Catch::StartsWith(kind_text(FailureKind::timed_out)) &&
                                   Catch::Contains("dtrain: 'of rank 0' was not reduced: tensor '") &&
                                   Catch::Contains("was not submitted by rank"));
  CHECK_THAT(outcomes[1].said, Catch::Contains("'also of rank 1' was not reduced: tensor '"));
  const std::string said = text_of(path);
  // In one line if one cycle saw them both: that of "both" may have begun between them.
  CHECK_THAT(said, Catch::Contains("dtrain: hvd: for 0.2 s or more, rank 0 has not submitted 'of rank 1'"));
  CHECK_THAT(said, Catch::Contains("'of rank 1', 'also of rank 1'") ||
                       Catch::Contains("dtrain: hvd: for 0.2 s or more, rank 0 has not submitted 'also of rank 1'"));
  CHECK_THAT(said, Catch::Contains("rank 1 has not submitted 'of rank 0', 'both'") ||
                       Catch::Contains("rank 1 has not submitted 'both', 'of rank 0'") ||
                       Catch::Contains("rank 1 has not submitted 'of rank 0'"));
}

TEST_CASE("hvd: ranks with different numbers of steps join") {
  require_all_said(hvd_ranks(3,
                             [](Session& session) -> std::string {
                               hvd::Context context(session, brisk());
                               float sum = 0;
                               for (int step = 0; step <= 2 * session.rank(); ++step) {
                                 at::Tensor x = at::ones({3}, at::kFloat) * 3;
                                 context.allreduce(x, "x", {.compression = GradientCompression::fp16}).wait();
                                 sum += x[0].item<float>();
                               }
                               if (context.join() != 2) return "another one was last";
                               at::Tensor x = at::ones({3});
                               context.allreduce(x, "x", {.op = hvd::Op::sum}).wait();
                               if (x.sum().item<float>() != 9) return "not whole again";
                               // 3 ranks in the first step, 2 in the next two, 1 in the last two
                               const std::vector<float> expected{3, 3 + 2 + 2, 3 + 2 + 2 + 1 + 1};
                               return sum == expected[static_cast<std::size_t>(session.rank())] ? "right" : "wrong";
                             }),
                   "right");
}

TEST_CASE("hvd: a rank that ends its context, or dies, fails what the others wait for") {
  const auto outcomes = hvd_ranks(2, [](Session& session) -> std::string {
    auto context = std::make_unique<hvd::Context>(session, brisk());
    at::Tensor x = at::ones({2});
    context->allreduce(x, "x").wait();
    if (session.rank() == 1) {
      context.reset();
      return "ended";
    }
    return error_of([&] { context->allreduce(x, "x").wait(); });
  });
  require_all_returned(outcomes);
  CHECK(outcomes[0].said ==
        kind_text(FailureKind::peer_left) + " 1: dtrain: 'x' was not reduced: rank 1 ended its hvd::Context");

  const std::uint16_t port = free_port();
  const auto fates = run_ranks(2, [&](int rank) -> std::string {
    torch::set_num_threads(1);
    Session session = init(by_hand(rank, 2, port), quick());
    hvd::Context context(session, brisk());
    at::Tensor x = at::ones({2});
    context.allreduce(x, "x").wait();
    if (rank == 1) ::raise(SIGKILL);
    return error_of([&] { context.allreduce(x, "x").wait(); });
  });
  CHECK(fates[1].signal == SIGKILL);
  CHECK_THAT(fates[0].said,
             Catch::StartsWith(kind_text(FailureKind::peer_died) + " 1: dtrain: 'x' was not reduced: ") &&
                 Catch::Contains("died"));
}

TEST_CASE("hvd: the timeline, and the environment") {
  const TempFolder folder;
  const std::string path = folder / "timeline.json";
  require_all_said(hvd_ranks(2,
                             [&](Session& session) {
                               ::setenv("HOROVOD_TIMELINE", path.c_str(), 1);
                               ::setenv("HOROVOD_CYCLE_TIME", "0.5", 1);
                               hvd::Context context(session);
                               for (int step = 0; step < 5; ++step) {
                                 std::vector<at::Tensor> tensors{at::ones({2}), at::ones({3}), at::ones({4})};
                                 for (const auto& handle : context.grouped_allreduce(tensors, "g")) handle.wait();
                               }
                               return "";
                             }),
                   "");
  const auto events = nlohmann::json::parse(text_of(path));
  std::map<std::string, int> counts;
  std::vector<std::string> rows;
  for (const auto& event : events) {
    ++counts[event["name"]];
    if (event["ph"] == "M") rows.push_back(event["args"]["name"]);
    if (event["ph"] == "X") CHECK(event["dur"].get<std::int64_t>() >= 0);
  }
  std::sort(rows.begin(), rows.end());
  CHECK(rows == std::vector<std::string>{"g.0", "g.1", "g.2"});
  for (const char* what : {"NEGOTIATE", "QUEUE", "MEMCPY_IN", "ALLREDUCE", "MEMCPY_OUT"}) CHECK(counts[what] == 15);
}

TEST_CASE("hvd: mistakes in the use of the optimizer are said") {
  require_all_said(
      hvd_ranks(1,
                [](Session& session) -> std::string {
                  hvd::Context context(session, brisk());
                  torch::nn::Linear net(2, 1);
                  torch::optim::SGD sgd(net->parameters(), 0.1);
                  std::vector<std::string> said;
                  hvd::NamedTensors some;
                  some.insert("weight", net->weight);
                  said.push_back(error_of([&] { hvd::DistributedOptimizer(context, sgd, some); }));
                  const auto named = net->named_parameters();
                  hvd::OptimizerOptions mistyped;
                  mistyped.groups = {{"weigth"}};
                  said.push_back(error_of([&] { hvd::DistributedOptimizer(context, sgd, named, mistyped); }));
                  hvd::DistributedOptimizer optimizer(context, sgd, named);
                  const auto backward = [&] { net(torch::ones({1, 2})).sum().backward(); };
                  backward();
                  said.push_back(error_of([&] { optimizer.zero_grad(); }).substr(0, 42));
                  said.push_back(error_of(backward).substr(0, 24));
                  optimizer.synchronize();
                  said.push_back(error_of([&] { optimizer.step(); }).substr(0, 33));
                  {
                    const auto skip = optimizer.skip_synchronize();
                    optimizer.step();
                    backward();
                    said.push_back(error_of([&] { optimizer.step(); }).substr(0, 41));
                  }
                  optimizer.step();
                  return fmt::format("{}", fmt::join(said, "\n"));
                }),
      "dtrain: the optimizer has a parameter that is not in named_parameters\n"
      "dtrain: 'weigth' in a group is not a parameter of the optimizer\n"
      "dtrain: zero_grad() while the gradient of \n"
      "dtrain: the gradient of \n"
      "dtrain: step() after synchronize(\n"
      "dtrain: step() skips synchronize() while ");
}
