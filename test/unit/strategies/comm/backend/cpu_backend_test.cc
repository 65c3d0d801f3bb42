// The c10d side of the CPU backend, through a real store: futures, order, layouts, and errors that reach the caller.
#include "strategies/comm/backend/cpu_backend.h"

#include <ATen/native/Resize.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "dtrain/dtrain.h"
#include "strategies/comm/memory/arena.h"
#include "strategies/torch/compat.h"
#include "test/support/catch.h"
#include "test/unit/strategies/free_port.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::require_all_returned;
using test::run_ranks;

namespace {

// The environment of ranks started by hand: rank 0 hosts the store.
WorkerEnv by_hand(int rank, int ranks, std::uint16_t port) {
  WorkerEnv env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_world_size = ranks;
  env.master_addr = "127.0.0.1";
  env.master_port = port;
  env.launched = true;
  return env;
}

InitOptions quick() {
  InitOptions options;
  options.join_timeout = std::chrono::seconds{20};
  options.collective_timeout = std::chrono::seconds{20};
  return options;
}

// Runs body(session) on `ranks` ranks; each says what it found wrong.
std::vector<test::RankOutcome> in_sessions(int ranks, const std::function<std::string(Session&)>& body) {
  const std::uint16_t port = test::free_port();
  return run_ranks(ranks, [&](int rank) {
    torch::set_num_threads(1);
    Session session = init(by_hand(rank, ranks, port), quick());
    std::string wrong = body(session);
    session.shutdown();
    return wrong;
  });
}

void require_nothing_wrong(const std::vector<test::RankOutcome>& outcomes) {
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

// Let this process allocate at most so many bytes more.
[[maybe_unused]] void allow_bytes(rlim_t more) {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  for (int field = 0; field < 6; ++field) statm >> pages;  // the sixth is data and stack
  const rlim_t limit = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more;
  const rlimit data{limit, limit};
  ::setrlimit(RLIMIT_DATA, &data);
}

std::string unless(bool fine, const std::string& what) { return fine ? "" : what + "; "; }

}  // namespace

TEST_CASE("every tensor type is summed and averaged as torch does it") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    std::string wrong;
    for (const auto type : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16, torch::kLong, torch::kInt,
                            torch::kShort, torch::kChar, torch::kByte}) {
      auto sum = torch::arange(1000).remainder(50).to(type) + session.rank();
      session.all_reduce(sum);
      wrong += unless(torch::equal(sum, (torch::arange(1000).remainder(50) * 2 + 1).to(type)), c10::toString(type));
    }
    auto mean = torch::full({7}, 1.0 + session.rank());
    session.all_reduce(mean, c10d::ReduceOp::AVG);
    wrong += unless(torch::equal(mean, torch::full({7}, 1.5)), "avg");
    auto any = torch::full({3}, session.rank() == 1, torch::kBool);
    session.all_reduce(any);
    return wrong + unless(any.all().item<bool>(), "bool");
  }));
}

TEST_CASE("tensors that are not contiguous are read and written in their own layout") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    const auto base = torch::arange(24, torch::kFloat).reshape({4, 6});
    auto transposed = (base.clone() * (session.rank() + 1)).t();
    session.all_reduce(transposed);
    auto column = (base.clone() + session.rank()).select(1, 2);
    session.broadcast(column, 1);
    return unless(torch::equal(transposed, (base * 3).t()), "transposed") +
           unless(torch::equal(column, base.select(1, 2) + 1), "column");
  }));
}

TEST_CASE("a parameter in channels-last order is received in place, though it needs a gradient") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    torch::nn::Conv2d conv(4, 3, 3);
    conv->weight.set_data(torch::full({3, 4, 3, 3}, 1.0 + session.rank()).contiguous(at::MemoryFormat::ChannelsLast));
    session.broadcast(conv->weight, 1);
    return unless((conv->weight == 2.0).all().item<bool>() && conv->weight.is_leaf(), "weight");
  }));
}

TEST_CASE("the sizes around which the way of an all_reduce changes, at odd addresses") {
  require_nothing_wrong(in_sessions(3, [](Session& session) {
    std::string wrong;
    // 64 KiB: one shot or sliced. 1 MiB: one step or several.
    for (const std::int64_t border : {64 * 1024, 1024 * 1024, 2 * 1024 * 1024}) {
      for (const std::int64_t extra : {-1, 0, 1}) {
        auto bytes = torch::full({border + extra + 1}, session.rank() + 1, torch::kByte).slice(0, 1);
        session.all_reduce(bytes);
        wrong += unless((bytes == 6).all().item<bool>(), std::to_string(border + extra) + " bytes");
        auto floats = torch::full({border / 4 + extra + 1}, session.rank() + 1.0F).slice(0, 1);
        session.all_reduce(floats);
        wrong += unless((floats == 6).all().item<bool>(), std::to_string(border / 4 + extra) + " floats");
      }
    }
    return wrong;
  }));
}

TEST_CASE("shared tensors are reduced as others are, and hold the buckets of the Reducer") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    ::setenv("DDP_DISABLE_COMM_MEM", "0", 1);
    const auto kept = session.empty_shared({300, 100}, torch::kFloat64);
    std::string wrong = unless(kept.is_contiguous() && kept.size(0) == 300, "shape");
    kept.fill_(session.rank() + 1);
    session.all_reduce(kept);
    wrong += unless(torch::equal(kept, torch::full({300, 100}, 3, torch::kFloat64)), "sum");
    auto columns = kept.t();  // not contiguous: staged elsewhere
    session.all_reduce(columns, c10d::ReduceOp::AVG);
    wrong += unless(torch::equal(kept, torch::full({300, 100}, 3, torch::kFloat64)), "average");

    const auto leaf = session.empty_shared({2, 3}, torch::requires_grad());
    wrong += unless(leaf.is_leaf() && leaf.requires_grad(), "no leaf");
    const auto backend = session.group()->getBackend(torch::kCPU);
    wrong += unless(backend->allocateTensor(5, torch::dtype(torch::kInt).device("cpu:0")).numel() == 5, "cpu:0");
    bool refused = false;
    try {
      backend->allocateTensor(long{1} << 61, torch::kFloat64);
    } catch (const c10::Error&) {
      refused = true;
    }
    wrong += unless(refused, "too large");

    torch::manual_seed(1);
    torch::nn::Linear plain(200, 200);
    DdpOptions options;
    options.gradient_as_bucket_view = true;
    Ddp model(session, std::dynamic_pointer_cast<torch::nn::LinearImpl>(plain->clone()), options);
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      plain->zero_grad();
      const auto x = torch::randn({4, 200});
      model(x.slice(0, 2 * session.rank(), 2 * session.rank() + 2)).sum().backward();
      (plain(x).sum() / 2).backward();
      wrong += unless(torch::allclose(model->weight.grad(), plain->weight.grad()), "gradient");
    }
    const auto* arena = Arena::known();
    wrong += unless(arena != nullptr && arena->holds(reinterpret_cast<std::byte*>(model->weight.grad().data_ptr()), 1),
                    "the bucket is elsewhere");
    return wrong;
  }));
}

TEST_CASE("shared tensors are resized as others are, and stay shared") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    const auto shared = [](const at::Tensor& tensor) {
      return Arena::known()->holds(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
    };
    std::string wrong;
    for (const auto type : {torch::kFloat32, torch::kComplexFloat, torch::kInt8}) {
      auto tensor = session.empty_shared({5000}, type);
      wrong += unless(shared(tensor) && tensor.scalar_type() == type, "elsewhere");
      tensor.fill_(session.rank() + 1);
      tensor.resize_({30'000}).slice(0, 5000).fill_(2);  // what was there stays
      wrong += unless(shared(tensor), "resized elsewhere");
      session.all_reduce(tensor);
      wrong += unless(torch::real(tensor).sum().item<double>() == 5000 * 3 + 25'000 * 4, "sum");
      const std::size_t bytes = tensor.storage().nbytes();
      for (const std::size_t size : {std::size_t{0}, bytes}) {
        at::native::resize_bytes_cpu(tensor.storage().unsafeGetStorageImpl(), size);
        wrong += unless(tensor.storage().nbytes() == size, "another size");
      }
      tensor.fill_(1);
      wrong += unless(shared(tensor), "elsewhere after it was empty");
    }
    return wrong;
  }));
}

TEST_CASE("torch's Reducer gets real numbers for complex ones, and nobody else does") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    const auto backend = session.group()->getBackend(torch::kCPU);
    const auto row = backend->allocateTensor(5, torch::kComplexDouble);
    return unless(row.scalar_type() == torch::kDouble && row.numel() == 10, "the Reducer's") +
           unless(session.empty_shared({5}, torch::kComplexDouble).scalar_type() == torch::kComplexDouble, "ours");
  }));
}

TEST_CASE("MIN and MAX keep a NaN as torch's own do, and two groups of one process keep apart") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    auto ours = torch::tensor({1.0F, nan, 3.0F, nan});
    auto theirs = torch::tensor({2.0F, 2.0F, nan, nan});
    std::string wrong;
    const auto keys = c10::make_intrusive<c10d::PrefixStore>("second", session.store());
    CpuBackend second(keys, session.rank(), 2, std::chrono::seconds{20});
    for (const bool least : {true, false}) {
      auto value = (session.rank() == 0 ? ours : theirs).clone();
      std::vector<at::Tensor> copy{value.clone()};
      c10d::AllreduceOptions options;
      options.reduceOp = least ? c10d::ReduceOp::MIN : c10d::ReduceOp::MAX;
      const auto work = second.allreduce(copy, options);
      session.all_reduce(value, least ? c10d::ReduceOp::MIN : c10d::ReduceOp::MAX);
      work->wait();
      const auto expected = least ? torch::minimum(ours, theirs) : torch::maximum(ours, theirs);
      wrong += unless(torch::allclose(value, expected, 0, 0, /*equal_nan=*/true), least ? "min" : "max") +
               unless(torch::allclose(copy[0], expected, 0, 0, /*equal_nan=*/true), "second group");
    }
    second.barrier({})->wait();
    return wrong;
  }));
}

TEST_CASE("gathers and scatters of every shape") {
  require_nothing_wrong(in_sessions(3, [](Session& session) {
    std::string wrong;
    auto& group = *session.group();
    for (const std::int64_t n : {0, 1, 5, 400'000}) {
      std::vector<at::Tensor> mine{torch::full({n}, session.rank(), torch::kInt)};
      std::vector<std::vector<at::Tensor>> lists{
          {torch::empty({n}, torch::kInt), torch::empty({n}, torch::kInt), torch::empty({n}, torch::kInt)}};
      group.allgather(lists, mine)->wait();
      auto flat = torch::empty({3 * n}, torch::kInt);
      all_gather_single(group, flat, mine[0])->wait();
      const auto all = torch::arange(3, torch::kInt).repeat_interleave(n);
      wrong += unless(torch::equal(torch::cat(lists[0]), all), "allgather") +
               unless(torch::equal(flat, all), "allgather base");
      auto input = torch::arange(3 * n, torch::kFloat) + session.rank();
      auto output = torch::empty({n});
      reduce_scatter_single(group, output, input)->wait();
      const auto begin = session.rank() * n;
      wrong +=
          unless(torch::equal(output, 3 * torch::arange(begin, begin + n, torch::kFloat) + 3), "reduce_scatter base");
    }
    return wrong;
  }));
}

TEST_CASE("operations run in the order of the calls, and their futures carry the results") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    std::vector<at::Tensor> values;
    for (int i = 0; i < 200; ++i) {
      values.push_back(torch::full({i % 7 * 3000 + 1}, static_cast<float>(i)));
      std::vector<at::Tensor> one{values.back()};
      works.push_back(session.group()->allreduce(one));
    }
    std::string wrong;
    for (int i = 0; i < 200; ++i) {
      const auto future = works[static_cast<std::size_t>(i)]->getFuture();
      future->waitAndThrow();
      const auto tensors = future->value().toTensorVector();
      wrong += unless(tensors.size() == 1 && (tensors[0] == 2.0F * static_cast<float>(i)).all().item<bool>(),
                      "operation " + std::to_string(i));
    }
    return wrong;
  }));
}

TEST_CASE("a call that waits is carried out by its caller, after what was called before") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    std::string wrong;
    c10d::AllreduceOptions waits;
    waits.asyncOp = false;
    for (int i = 0; i < 100; ++i) {
      std::vector<at::Tensor> tensors{torch::full({1000}, i + session.rank())};
      wrong += unless(session.group()->allreduce(tensors, waits)->isCompleted(), "it was not carried out at once");
      wrong += unless(tensors[0].eq(2 * i + 1).all().item<bool>(), "sum");
    }
    for (int i = 0; i < 100; ++i) {
      std::vector<at::Tensor> first{torch::full({1000}, i + session.rank())}, second{torch::full({3}, i)};
      const auto before = session.group()->allreduce(first);
      session.group()->allreduce(second, waits)->wait();
      wrong += unless(before->isCompleted(), "the later one was first");
      wrong += unless(first[0].eq(2 * i + 1).all().item<bool>() && second[0].eq(2 * i).all().item<bool>(), "sum");
    }
    return wrong;
  }));
}

TEST_CASE("callbacks on futures may start operations and wait for them, several at once") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    std::vector<c10::intrusive_ptr<c10::ivalue::Future>> futures;
    // All of them before the first callback: the order of operations must be the same on both ranks.
    for (int i = 0; i < 3; ++i) {
      std::vector<at::Tensor> tensors{torch::ones({4})};
      futures.push_back(session.group()->allreduce(tensors)->getFuture());
    }
    for (auto& future : futures) {
      future = future->then(
          [&session](c10::ivalue::Future&) {
            at::Tensor inner = torch::ones({1});
            session.all_reduce(inner);
            return c10::IValue(inner);
          },
          c10::TensorType::get());
    }
    std::string wrong;
    for (const auto& future : futures) {
      future->wait();
      wrong += unless(future->value().toTensor().item<float>() == 2, "a callback's own all_reduce");
    }
    return wrong;
  }));
}

TEST_CASE("messages of any layout go both ways, by tag, and say whose they were") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    std::string wrong;
    auto& group = *session.group();
    const int other = 1 - session.rank();
    const auto base = torch::arange(600'000, torch::kFloat).reshape({600, 1000});
    std::vector<at::Tensor> small{torch::full({3}, session.rank(), torch::kLong)}, large{base.t() + session.rank()};
    std::vector<c10::intrusive_ptr<c10d::Work>> sends{group.send(large, other, 1), group.send(small, other, 2)};
    std::vector<at::Tensor> got{torch::empty({3}, torch::kLong)},
        column{torch::zeros({1000, 1200}).slice(1, 0, 1200, 2)};
    const auto any = group.recvAnysource(got, 2);
    any->wait();
    wrong += unless(any->sourceRank() == other && (got[0] == other).all().item<bool>(), "the message of any rank");
    const auto named = group.recv(column, other, 1);
    named->wait();
    wrong += unless(named->sourceRank() == other && torch::equal(column[0], base.t() + other), "the large message");
    wrong += unless(torch::equal(named->getFuture()->value().toTensorVector().at(0), column[0]), "its future");
    for (const auto& send : sends) send->wait();
    session.barrier();
    return wrong;
  }));
}

TEST_CASE("a message of another type is an error that shows both, and the group's") {
  const std::uint16_t port = test::free_port();
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    Session session = init(by_hand(rank, 2, port), quick());
    std::vector<at::Tensor> tensors{torch::zeros({2, 3}, rank == 0 ? torch::kFloat : torch::kInt)};
    std::string said;
    try {
      if (rank == 0) session.group()->send(tensors, 1, 0)->wait();
      if (rank == 0) session.barrier();
      session.group()->recv(tensors, 0, 0)->wait();
    } catch (const CollectiveError& error) {
      said = error.what();
    }
    return said +
           (session.group()->getBackend(c10::DeviceType::CPU)->getError() == c10d::ErrorType::SUCCESS ? "?" : "");
  });
  for (const auto& outcome : outcomes) {
    CHECK_THAT(outcome.said, Catch::EndsWith("rank 0 sent Float [2, 3] with tag 0, rank 1 expects Int [2, 3]"));
    CHECK(outcome.seconds < 10.0);
  }
}

TEST_CASE("what the backend cannot do is refused at the call and breaks nothing") {
  require_nothing_wrong(in_sessions(2, [](Session& session) {
    std::string wrong;
    const auto refused = [&](const char* what, const std::function<void()>& call) {
      try {
        call();
        wrong += std::string(what) + " was taken; ";
      } catch (const c10::Error&) {
      }
    };
    refused("float8", [&] { session.all_reduce(torch::zeros({2}, torch::kFloat8_e4m3fn)); });
    refused("an integer mean", [&] { session.all_reduce(torch::zeros({2}, torch::kLong), c10d::ReduceOp::AVG); });
    refused("a bitwise and", [&] { session.all_reduce(torch::zeros({2}), c10d::ReduceOp::BAND); });
    refused("a root outside", [&] { session.broadcast(torch::zeros({2}), 2); });
    refused("an expanded tensor", [&] { session.all_reduce(torch::zeros({1}).expand({4})); });
    std::vector<at::Tensor> one{torch::zeros({2})}, expanded{torch::zeros({1}).expand({4})};
    refused("a message to itself", [&] { session.group()->send(one, session.rank(), 0); });
    refused("a message from itself", [&] { session.group()->recv(one, session.rank(), 0); });
    refused("a message to nobody", [&] { session.group()->send(one, 2, 0); });
    refused("a negative tag", [&] { session.group()->send(one, 1 - session.rank(), -1); });
    refused("a message into an expanded tensor", [&] { session.group()->recvAnysource(expanded, 0); });
    refused("a float8 among others", [&] {
      std::vector<at::Tensor> both{torch::zeros({2}), torch::zeros({2}, torch::kFloat8_e4m3fn)};
      session.group()->allreduce_coalesced(both);
    });
    auto still = torch::ones({2});
    session.all_reduce(still);
    return wrong + unless(torch::equal(still, torch::full({2}, 2.0)), "a later sum");
  }));
}

TEST_CASE("a death reaches wait(), the future and every later call as a CollectiveError") {
  const std::uint16_t port = test::free_port();
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    Session session = init(by_hand(rank, 2, port), quick());
    session.barrier();
    if (rank == 1) ::raise(SIGKILL);
    std::string said;
    for (int i = 0; i < 2; ++i) {
      try {
        session.all_reduce(torch::ones({3}));
      } catch (const CollectiveError& error) {
        said += error.kind() == FailureKind::peer_died && error.rank() == 1 ? "named " : error.what();
      }
    }
    return said;
  });
  CHECK(outcomes[0].said == "named named ");
  CHECK(outcomes[0].seconds < 5.0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their allocators end the process instead
TEST_CASE("a rank that fails on its own inside a collective breaks the group, so that nothing is mixed up") {
  const std::uint16_t port = test::free_port();
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    torch::set_num_threads(1);
    Session session = init(by_hand(rank, 2, port), quick());
    // Inside the operation a tensor that is not contiguous is copied: here that copy cannot be allocated.
    auto base = torch::zeros({2, 1 << 24}, torch::kByte);
    if (rank == 1) allow_bytes(8 << 20);
    std::string said;
    for (int i = 0; i < 2; ++i) {
      try {
        i == 0 ? session.all_reduce(base.t()) : session.barrier();
        said += "done ";
      } catch (const CollectiveError& error) {
        said += error.kind() == FailureKind::aborted && error.rank() == 1 ? "aborted " : error.what();
      } catch (const std::exception&) {
        said += "failed ";
      }
    }
    return said;
  });
  CHECK(outcomes[0].said == "aborted aborted ");
  CHECK(outcomes[1].said == "failed aborted ");
  CHECK(outcomes[0].seconds < 10.0);
}
#endif

TEST_CASE("abort ends a collective that waits, and its session can be dropped with work pending") {
  const std::uint16_t port = test::free_port();
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    torch::set_num_threads(1);
    Session session = init(by_hand(rank, 2, port), quick());
    std::vector<at::Tensor> value{torch::ones({3})};
    if (rank == 1) {
      session.store()->wait({"queued"});
      session.group()->getBackend(c10::DeviceType::CPU)->abort();
      return "aborted";
    }
    const auto running = session.group()->allreduce(value);
    const auto pending = session.group()->allreduce(value);
    session.store()->set("queued", "yes");
    std::string said;
    try {
      running->wait();
    } catch (const CollectiveError& error) {
      said = error.kind() == FailureKind::aborted && error.rank() == 1 ? "aborted " : error.what();
    }
    { const Session dropped = std::move(session); }
    return said + (pending->isCompleted() && !pending->isSuccess() ? "failed" : "left open");
  });
  CHECK(outcomes[0].said == "aborted failed");
  CHECK(outcomes[0].seconds < 10.0);
}

TEST_CASE("a process forked from a rank can drop the session and not use it") {
  require_nothing_wrong(in_sessions(2, [](Session& session) -> std::string {
    std::vector<at::Tensor> byte{torch::zeros({1})};
    if (session.rank() == 0) session.group()->send(byte, 1, 0)->wait();
    if (session.rank() == 1) {
      session.group()->recv(byte, 0, 0)->wait();  // so that its thread runs
      const pid_t child = ::fork();
      if (child == 0) {
        int code = 1;
        std::vector<at::Tensor> one{torch::zeros({1})};
        try {
          session.barrier();
        } catch (const c10::Error&) {
          code = 2;
        }
        try {
          session.group()->send(one, 0, 0);
        } catch (const c10::Error&) {
          code = code == 2 ? 0 : 1;
        }
        { const Session dropped = std::move(session); }
        ::_exit(code);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      if (status != 0) return "the child ended with " + std::to_string(status);
    }
    auto value = torch::ones({3});
    session.all_reduce(value);
    return unless((value == 2).all().item<bool>(), "a sum after the child's end");
  }));
}

TEST_CASE("a rank that drops its session after an error does not leave the others waiting") {
  const std::uint16_t port = test::free_port();
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    Session session = init(by_hand(rank, 2, port), quick());
    session.barrier();
    if (rank == 1) throw std::runtime_error("trouble of its own");
    session.barrier();
    return "no error";
  });
  CHECK_THAT(outcomes[0].said, Catch::Contains("rank 1") && Catch::Contains("left the job"));
  CHECK(outcomes[1].said == "trouble of its own");
  CHECK(outcomes[0].seconds < 5.0);
}

TEST_CASE("a rank that never comes, or a store that is not there, is a clear line") {
  const std::uint16_t port = test::free_port();
  InitOptions hasty = quick();
  hasty.join_timeout = std::chrono::seconds{1};
  const auto alone = run_ranks(1, [&](int) -> std::string {
    init(by_hand(0, 2, port), hasty);
    return "joined";
  });
  CHECK_THAT(alone[0].said, Catch::Contains("rank 0 of 2 could not join the group: rank 1 did not come"));
  const auto storeless = run_ranks(1, [&](int) -> std::string {
    init(by_hand(1, 2, test::free_port()), hasty);
    return "joined";
  });
  CHECK_THAT(storeless[0].said, Catch::Contains("rank 1 cannot reach the store at 127.0.0.1:"));
}

TEST_CASE("a world of one rank needs no store and does every collective") {
  require_all_returned(run_ranks(1, [](int) -> std::string {
    Session session = init(WorkerEnv{}, {});
    auto value = torch::full({3}, 5.0);
    session.all_reduce(value, c10d::ReduceOp::AVG);
    session.broadcast(value);
    session.barrier();
    auto gathered = torch::empty({3});
    all_gather_single(*session.group(), gathered, value)->wait();
    if (!torch::equal(gathered, torch::full({3}, 5.0))) throw std::runtime_error("not the value");
    session.shutdown();
    return "";
  }));
}
