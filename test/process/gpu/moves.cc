// Every collective and message of a Group on tensors of the session's device.
#include "test/process/gpu/checks.h"

namespace dtrain::gpu_test {
namespace {

using c10d::ReduceOp;

double sum_of_ranks(const Checks& on) { return on.ranks() * (on.ranks() + 1) / 2.0; }

// 0, 1, ... from `first` on.
at::Tensor row(const Checks& on, std::int64_t count, double first, at::ScalarType type = at::kFloat) {
  return at::arange(count, at::kDouble).add(first).to(type).to(on.device);
}

// The row of rank r, as all ranks know it.
at::Tensor row_of(int rank, std::int64_t count) { return at::arange(count, at::kDouble).add(100 * rank); }

at::Tensor rows_of_all(const Checks& on, std::int64_t count) {
  std::vector<at::Tensor> all;
  for (int r = 0; r < on.ranks(); ++r) all.push_back(row_of(r, count));
  return at::cat(all);
}

void all_reduce_types(Checks& on) {
  for (const auto type :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kChar, at::kByte}) {
    on.run(fmt::format("all_reduce_{}", c10::toString(type)), [&] {
      const at::Tensor tensor = at::full({1000}, on.rank() + 1, on.of(type));
      on.session.all_reduce(tensor);
      require_all(tensor, sum_of_ranks(on), "sum");
    });
  }
  on.run("all_reduce_bool", [&] {
    const at::Tensor tensor = at::full({10}, on.rank() == 0, on.of(at::kBool));
    on.session.all_reduce(tensor);
    require_all(tensor, 1, "sum");
  });
}

void all_reduce_operations(Checks& on) {
  on.run("all_reduce_operations", [&] {
    const auto reduced = [&](ReduceOp::RedOpType op) {
      const at::Tensor tensor = at::full({33}, on.rank() + 1, on.of(at::kFloat));
      on.session.all_reduce(tensor, op);
      return tensor;
    };
    double product = 1;
    for (int r = 1; r <= on.ranks(); ++r) product *= r;
    require_all(reduced(ReduceOp::MIN), 1, "min");
    require_all(reduced(ReduceOp::MAX), on.ranks(), "max");
    require_all(reduced(ReduceOp::PRODUCT), product, "product");
    require_all(reduced(ReduceOp::AVG), (on.ranks() + 1) / 2.0, "average");
  });
  on.run("all_reduce_large", [&] {
    const at::Tensor tensor = row(on, 1 << 24, 0).fmod(1000).add(on.rank());
    on.session.all_reduce(tensor);
    const at::Tensor wanted =
        at::arange(1 << 24, on.of(at::kFloat)).fmod(1000).mul(on.ranks()).add(sum_of_ranks(on) - on.ranks());
    require(at::equal(tensor, wanted), "64 MiB differ");
  });
  on.run("all_reduce_scalar", [&] {
    const at::Tensor tensor = at::full({}, on.rank() + 1, on.of(at::kFloat));
    on.session.all_reduce(tensor);
    require_all(tensor, sum_of_ranks(on), "sum");
  });
}

// As on CPUs: any strides, and what lies between the elements stays.
void strides(Checks& on) {
  on.run("strided_all_reduce", [&] {
    const at::Tensor whole = row(on, 24, 0).view({4, 6}).clone();
    const at::Tensor columns = whole.slice(1, 0, 6, 2);  // every other one
    columns.add_(on.rank());
    on.session.all_reduce(columns);
    const at::Tensor before = at::arange(24, at::kDouble).view({4, 6});
    at::Tensor wanted = before.clone();
    wanted.slice(1, 0, 6, 2).mul_(on.ranks()).add_(sum_of_ranks(on) - on.ranks());
    require_equal(whole, wanted, "every other column");
    const at::Tensor turned = row(on, 15, on.rank()).view({3, 5}).t();
    on.session.all_reduce(turned);
    require_equal(turned,
                  at::arange(15, at::kDouble).mul(on.ranks()).add(sum_of_ranks(on) - on.ranks()).view({3, 5}).t(),
                  "transposed");
  });
  on.run("channels_last_all_reduce", [&] {
    const at::Tensor image = row(on, 48, on.rank()).view({2, 3, 2, 4}).contiguous(at::MemoryFormat::ChannelsLast);
    on.session.all_reduce(image);
    require_equal(image,
                  at::arange(48, at::kDouble).mul(on.ranks()).add(sum_of_ranks(on) - on.ranks()).view({2, 3, 2, 4}),
                  "image");
  });
  on.run("strided_others", [&] {
    const at::Tensor turned = row(on, 12, 100 * on.rank()).view({3, 4}).t();
    on.session.broadcast(turned, on.ranks() - 1);
    require_equal(turned, row_of(on.ranks() - 1, 12).view({3, 4}).t(), "broadcast");
    const at::Tensor every_other = row(on, 12, 0).view({6, 2}).select(1, 0);
    every_other.copy_(row_of(on.rank(), 6));
    const at::Tensor all = at::empty({on.ranks() * 6}, on.of(at::kFloat));
    on.session.world().all_gather(all, every_other);
    require_equal(all, rows_of_all(on, 6), "all_gather");
    const at::Tensor parts = row(on, on.ranks() * 6, 0);
    const at::Tensor reduced = at::zeros({6, 2}, on.of(at::kFloat)).select(1, 1);
    on.session.world().reduce_scatter(reduced, parts);
    require_equal(reduced, at::arange(6, at::kDouble).add(6 * on.rank()).mul(on.ranks()), "reduce_scatter");
  });
}

void broadcasts(Checks& on) {
  on.run("broadcast", [&] {
    for (int root = 0; root < on.ranks(); ++root) {
      for (const auto type : {at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kBool, at::kByte}) {
        const at::Tensor tensor = at::full({77}, on.rank() == root ? 1 : 0, on.of(type));
        on.session.broadcast(tensor, root);
        require_all(tensor, 1, c10::toString(type));
      }
    }
  });
}

void gathers(Checks& on) {
  const Group& world = on.session.world();
  on.run("all_gather", [&] {
    const at::Tensor all = at::empty({on.ranks() * 5}, on.of(at::kFloat));
    world.all_gather(all, row(on, 5, 100 * on.rank()));
    require_equal(all, rows_of_all(on, 5), "apart");
    const at::Tensor same = at::zeros({on.ranks() * 5}, on.of(at::kFloat));
    const at::Tensor part = same.narrow(0, 5 * on.rank(), 5);
    part.copy_(row_of(on.rank(), 5));
    world.all_gather(same, part);
    require_equal(same, rows_of_all(on, 5), "in place");
  });
  on.run("reduce_scatter", [&] {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor whole = row(on, on.ranks() * 4, on.rank(), type);
      const at::Tensor own = at::arange(4, at::kDouble).add(4 * on.rank());
      const at::Tensor part = at::empty({4}, on.of(type));
      world.reduce_scatter(part, whole);
      require_equal(part, own.mul(on.ranks()).add(sum_of_ranks(on) - on.ranks()), "apart");
      const at::Tensor inside = whole.narrow(0, 4 * on.rank(), 4);
      world.reduce_scatter(inside, whole, ReduceOp::MAX);
      require_equal(inside, own.add(on.ranks() - 1), "in place");
    }
  });
  on.run("all_to_all", [&] {
    const at::Tensor from = at::empty({on.ranks() * 2, 3}, on.of(at::kFloat));
    at::Tensor wanted = at::empty({on.ranks() * 2, 3}, at::kDouble);
    for (int r = 0; r < on.ranks(); ++r) {
      from.narrow(0, 2 * r, 2).fill_(10 * on.rank() + r);
      wanted.narrow(0, 2 * r, 2).fill_(10 * r + on.rank());
    }
    const at::Tensor to = at::empty_like(from);
    world.all_to_all(to, from);
    require_equal(to, wanted, "parts");
  });
}

void messages(Checks& on) {
  if (on.ranks() < 2) return;
  const Group& world = on.session.world();
  const int next = (on.rank() + 1) % on.ranks(), before = (on.rank() + on.ranks() - 1) % on.ranks();
  // Around the ring; an even rank sends first.
  const auto around = [&](const at::Tensor& out, const at::Tensor& in) {
    if (on.rank() % 2 == 0) {
      world.send(out, next);
      world.recv(in, before);
    } else {
      world.recv(in, before);
      world.send(out, next);
    }
  };
  on.run("messages", [&] {
    const at::Tensor in = at::empty({1000}, on.of(at::kFloat));
    for (int i = 0; i < 3; ++i) {
      around(row(on, 1000, 100 * on.rank() + i), in);
      require_equal(in, row_of(before, 1000).add(i), "ring");
    }
  });
  on.run("strided_messages", [&] {
    const at::Tensor out = row(on, 12, 0).view({6, 2}).select(1, 0);
    out.copy_(row_of(on.rank(), 6));
    const at::Tensor whole = at::full({6, 2}, -1, on.of(at::kFloat));
    around(out, whole.select(1, 1));
    require_equal(whole.select(1, 1), row_of(before, 6), "received");
    require_all(whole.select(1, 0), -1, "what lies between");
  });
  on.run("recv_any", [&] {
    if (!on.on_gpu()) return;
    bool refused = false;
    try {
      world.recv_any(at::empty({1}, on.of(at::kFloat)));
    } catch (const c10::Error&) {
      refused = true;
    }
    require(refused, "NCCL has none, and nothing was thrown");
  });
}

void nothing(Checks& on) {
  const Group& world = on.session.world();
  const auto none = [&] { return at::empty({0}, on.of(at::kFloat)); };
  on.run("empty_all_reduce", [&] { on.session.all_reduce(none()); });
  on.run("empty_broadcast", [&] { on.session.broadcast(none()); });
  on.run("empty_all_gather", [&] { world.all_gather(none(), none()); });
  on.run("empty_reduce_scatter", [&] { world.reduce_scatter(none(), none()); });
  on.run("empty_all_to_all", [&] { world.all_to_all(none(), none()); });
  on.run("full_after_empty", [&] {
    const at::Tensor tensor = at::full({9}, 1, on.of(at::kFloat));
    on.session.all_reduce(tensor);
    require_all(tensor, on.ranks(), "sum");
  });
}

void groups(Checks& on) {
  on.run("groups", [&] {
    const Group half = on.session.split(on.rank() % 2);
    const at::Tensor tensor = at::full({50}, on.rank() + 1, on.of(at::kFloat));
    half.all_reduce(tensor);
    double wanted = 0;
    for (int r = on.rank() % 2; r < on.ranks(); r += 2) wanted += r + 1;
    require_all(tensor, wanted, "half of the ranks");
    std::vector<int> turned;
    for (int r = on.ranks(); r-- > 0;) turned.push_back(r);
    const Group reversed = on.session.new_group(turned);
    const at::Tensor all = at::empty({on.ranks()}, on.of(at::kFloat));
    reversed.all_gather(all, at::full({1}, on.rank(), on.of(at::kFloat)));
    require_equal(all, at::arange(on.ranks(), at::kDouble).flip(0), "in the other order");
    reversed.end();
    const Group again = on.session.world().again();
    const at::Tensor one = at::ones({3}, on.of(at::kFloat));
    again.all_reduce(one);
    require_all(one, on.ranks(), "again");
  });
  on.run("cpu_beside_gpu", [&] {
    for (int i = 0; i < 20; ++i) {
      const at::Tensor there = at::full({100}, on.rank() + i, on.of(at::kFloat)), here = there.cpu();
      on.session.all_reduce(there);
      on.session.all_reduce(here);
      require_equal(there, here, "the two");
    }
  });
}

}  // namespace

void check_moves(Checks& checks) {
  all_reduce_types(checks);
  all_reduce_operations(checks);
  strides(checks);
  broadcasts(checks);
  gathers(checks);
  messages(checks);
  nothing(checks);
  groups(checks);
}

}  // namespace dtrain::gpu_test
