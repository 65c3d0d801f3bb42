// Collectives beside work on other streams: what was queued before a collective is what it takes, and what comes after
// it sees its result.
#include <c10/core/Event.h>

#include "test/process/gpu/checks.h"

namespace dtrain::gpu_test {
namespace {

constexpr int kBusy = 60;  // milliseconds
constexpr std::int64_t kCount = 1 << 20;

double sum_of_ranks(const Checks& on) { return on.ranks() * (on.ranks() + 1) / 2.0; }

// Has these values late on the current stream, and others until then.
at::Tensor late(const Checks& on, double value, std::int64_t count = kCount) {
  const at::Tensor tensor = at::full({count}, -1, on.of(at::kFloat));
  keep_busy(on.device, kBusy);
  tensor.fill_(value);
  return tensor;
}

void before_each_collective(Checks& on) {
  const Group& world = on.session.world();
  const auto aside = [&](const char* name, const std::function<void()>& check) {
    on.run(fmt::format("side_stream_{}", name), [&] {
      const On guard(another_stream(on.device));
      check();
    });
  };
  aside("all_reduce", [&] {
    const at::Tensor tensor = late(on, on.rank() + 1);
    on.session.all_reduce(tensor);
    require_all(tensor, sum_of_ranks(on), "sum");
  });
  aside("broadcast", [&] {
    const at::Tensor tensor = late(on, on.rank() + 1);
    on.session.broadcast(tensor, on.ranks() - 1);
    require_all(tensor, on.ranks(), "values of the root");
  });
  aside("all_gather", [&] {
    const at::Tensor all = at::empty({on.ranks() * kCount}, on.of(at::kFloat));
    world.all_gather(all, late(on, on.rank()));
    require_equal(all.view({on.ranks(), kCount}).select(1, kCount - 1), at::arange(on.ranks(), at::kDouble),
                  "last ones");
  });
  aside("reduce_scatter", [&] {
    const at::Tensor part = at::empty({kCount}, on.of(at::kFloat));
    world.reduce_scatter(part, late(on, on.rank() + 1, on.ranks() * kCount));
    require_all(part, sum_of_ranks(on), "sum");
  });
  aside("all_to_all", [&] {
    const at::Tensor from = late(on, on.rank(), on.ranks() * kCount), to = at::empty_like(from);
    world.all_to_all(to, from);
    require_equal(to.view({on.ranks(), kCount}).select(1, 0), at::arange(on.ranks(), at::kDouble), "first ones");
  });
  if (on.ranks() < 2) return;
  aside("messages", [&] {
    const int other = on.rank() ^ 1;
    if (other >= on.ranks()) return;
    const at::Tensor in = at::empty({kCount}, on.of(at::kFloat)), out = late(on, on.rank());
    if (on.rank() < other) {
      world.send(out, other);
      world.recv(in, other);
    } else {
      world.recv(in, other);
      world.send(out, other);
    }
    require_all(in, other, "received");
  });
}

void waited_for_elsewhere(Checks& on) {
  on.run("wait_on_another_stream", [&] {
    const OtherStream first = another_stream(on.device), second = another_stream(on.device);
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor tensor;
    {
      const On guard(first);
      tensor = late(on, on.rank() + 1);
      std::vector<at::Tensor> tensors{tensor};
      work = on.session.group()->allreduce(tensors);
    }
    const On guard(second);
    work->wait();
    require_all(tensor * 2, 2 * sum_of_ranks(on), "twice the sum");
  });
  on.run("used_on_another_stream", [&] {
    if (!on.on_gpu()) return;
    const OtherStream first = another_stream(on.device), second = another_stream(on.device);
    c10::Event reduced(on.device.type());
    at::Tensor tensor;
    {
      const On guard(first);
      tensor = late(on, on.rank() + 1);
      on.session.all_reduce(tensor);
      reduced.record(*first);
    }
    reduced.block(*second);
    const On guard(second);
    require_all(tensor * 2, 2 * sum_of_ranks(on), "twice the sum");
  });
}

void given_back_at_once(Checks& on) {
  on.run("memory_given_back_at_once", [&] {
    std::vector<at::Tensor> sums;
    for (int i = 0; i < 20; ++i) {
      const On guard(another_stream(on.device));
      at::Tensor tensor = at::full({kCount}, on.rank() + i, on.of(at::kFloat));
      std::vector<at::Tensor> tensors{tensor};
      const auto work = on.session.group()->allreduce(tensors);
      work->wait();
      sums.push_back(tensor.max());
      tensor.reset();
      tensors.clear();
      at::full({kCount}, 1e6, on.of(at::kFloat));  // may get the same memory
    }
    if (on.on_gpu()) torch::cuda::synchronize();
    for (int i = 0; i < 20; ++i) {
      require_all(sums[static_cast<std::size_t>(i)].cpu(), sum_of_ranks(on) - on.ranks() + on.ranks() * i, "sum");
    }
  });
  on.run("many_in_a_row", [&] {
    const at::Tensor tensor = at::full({1000}, 1, on.of(at::kDouble));
    for (int i = 0; i < 200; ++i) {
      on.session.all_reduce(tensor);
      tensor.div_(on.ranks());
    }
    require_all(tensor, 1, "unchanged");
  });
}

void horovod(Checks& on) {
  on.run("side_stream_horovod", [&] {
    hvd::Context context(on.session);
    const OtherStream first = another_stream(on.device), second = another_stream(on.device);
    std::vector<at::Tensor> tensors;
    std::vector<hvd::Handle> handles;
    {
      const On guard(first);
      for (int i = 0; i < 5; ++i) {
        tensors.push_back(late(on, on.rank() + 1 + i, 1000));
        handles.push_back(context.allreduce(tensors.back(), fmt::format("tensor {}", i), {hvd::Op::sum}));
      }
    }
    const On guard(second);
    for (std::size_t i = 0; i < 5; ++i) {
      if (handles[i].done()) require_all(tensors[i], sum_of_ranks(on) + on.ranks() * static_cast<double>(i), "done");
      handles[i].wait();
      require_all(tensors[i] * 2, 2 * (sum_of_ranks(on) + on.ranks() * static_cast<double>(i)), "twice the sum");
    }
  });
}

void ddp(Checks& on) {
  on.run("side_stream_ddp", [&] {
    const On guard(another_stream(on.device));
    torch::manual_seed(3);
    torch::nn::Linear layer(64, 64);
    layer->to(on.device);
    Ddp model(on.session, layer);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor x = late(on, on.rank() + 1, 64).view({1, 64});
      model.zero_grad();
      model(x).sum().backward();
      require_all(layer->weight.grad(), (on.ranks() + 1) / 2.0, "gradient");
    }
  });
}

}  // namespace

void check_streams(Checks& checks) {
  before_each_collective(checks);
  waited_for_elsewhere(checks);
  given_back_at_once(checks);
  horovod(checks);
  ddp(checks);
}

}  // namespace dtrain::gpu_test
