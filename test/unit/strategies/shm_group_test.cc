// Collectives over shared memory, by real processes, against a reference computed here one element at a time.
#include "strategies/comm/shm_group.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "test/support/catch.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::require_all_returned;
using test::run_ranks;
using test::SharedBoard;

namespace {

constexpr auto kTimeout = std::chrono::seconds{20};

ShmGroup::Options options(int rank, int ranks, std::uint32_t slot_bytes = 1U << 20) {
  ShmGroup::Options o;
  o.rank = rank;
  o.ranks = ranks;
  o.slot_bytes = slot_bytes;
  return o;
}

template <class T>
constexpr bool kComplex = requires(T t) {
  t.imag();
};

// The value that `rank` brings for element i: small, both signs, never the same for two ranks.
template <class T>
T input(int rank, std::size_t i) {
  const int value = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 13 + 3) % 23) - 9;
  if constexpr (std::is_same_v<T, bool>) return value % 2 != 0;
  if constexpr (std::is_unsigned_v<T>) return static_cast<T>(value + 9);
  if constexpr (std::is_integral_v<T>) return static_cast<T>(value);
  if constexpr (kComplex<T>) {
    return {static_cast<float>(value) * 0.37F, static_cast<float>(value % 5)};
  } else {
    return static_cast<T>(static_cast<float>(value) * 0.37F);
  }
}

template <class A>
A combine(Reduction reduction, A a, A b) {
  if (reduction == Reduction::product) return static_cast<A>(a * b);
  if constexpr (!kComplex<A>) {
    if (reduction == Reduction::min) return std::min(a, b);
    if (reduction == Reduction::max) return std::max(a, b);
  }
  if constexpr (std::is_integral_v<A>) {
    if (reduction == Reduction::band) return static_cast<A>(a & b);
    if (reduction == Reduction::bor) return static_cast<A>(a | b);
    if (reduction == Reduction::bxor) return static_cast<A>(a ^ b);
  }
  return static_cast<A>(a + b);
}

template <class T>
T expected(Reduction reduction, int ranks, std::size_t i) {
  if constexpr (std::is_same_v<T, bool>) {
    int set = 0;
    for (int r = 0; r < ranks; ++r) set += input<T>(r, i) ? 1 : 0;
    if (reduction == Reduction::bxor) return set % 2 != 0;
    const bool all = reduction == Reduction::product || reduction == Reduction::min || reduction == Reduction::band;
    return set >= (all ? ranks : 1);
  } else {
    using A = std::conditional_t<sizeof(T) == 2 && !std::is_integral_v<T>, float, T>;
    A value = static_cast<A>(input<T>(0, i));
    for (int r = 1; r < ranks; ++r) value = combine<A>(reduction, value, static_cast<A>(input<T>(r, i)));
    if (reduction == Reduction::avg) value = static_cast<A>(value / static_cast<decltype(std::real(value))>(ranks));
    return static_cast<T>(value);
  }
}

// Empty, or which element is wrong. Bit for bit: the order of the additions is part of the contract.
template <class T>
std::string check_all_reduce(ShmGroup& group, int rank, int ranks, ElementType type, Reduction reduction,
                             std::size_t count) {
  std::vector<std::byte> data(count * sizeof(T) + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = input<T>(rank, i);
    std::memcpy(data.data() + i * sizeof(T), &value, sizeof(T));
  }
  data.back() = std::byte{0x5A};
  group.all_reduce(data.data(), count, type, reduction, kTimeout);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = expected<T>(reduction, ranks, i);
    if (std::memcmp(data.data() + i * sizeof(T), &value, sizeof(T)) == 0) continue;
    return std::string(name_of(type)) + " " + name_of(reduction) + " of " + std::to_string(count) + ": element " +
           std::to_string(i) + "; ";
  }
  return data.back() == std::byte{0x5A} ? "" : std::string(name_of(type)) + ": wrote past the end; ";
}

template <class T>
std::string check_type(ShmGroup& group, int rank, int ranks, ElementType type) {
  std::string wrong;
  for (const Reduction reduction : {Reduction::sum, Reduction::avg, Reduction::product, Reduction::min, Reduction::max,
                                    Reduction::band, Reduction::bor, Reduction::bxor}) {
    if (!is_defined(reduction, type)) continue;
    if (kComplex<T> && reduction == Reduction::product) continue;  // reduce_test's: std multiplies in its own way
    for (const std::size_t count : {0UL, 1UL, 2UL, 3UL, 1023UL, 1025UL, 9001UL, 70001UL}) {
      wrong += check_all_reduce<T>(group, rank, ranks, type, reduction, count);
    }
  }
  return wrong;
}

std::string check_every_type(ShmGroup& group, int rank, int ranks) {
  return check_type<double>(group, rank, ranks, ElementType::f64) +
         check_type<float>(group, rank, ranks, ElementType::f32) +
         check_type<c10::Half>(group, rank, ranks, ElementType::f16) +
         check_type<c10::BFloat16>(group, rank, ranks, ElementType::bf16) +
         check_type<std::complex<double>>(group, rank, ranks, ElementType::c128) +
         check_type<std::complex<float>>(group, rank, ranks, ElementType::c64) +
         check_type<std::int64_t>(group, rank, ranks, ElementType::i64) +
         check_type<std::int32_t>(group, rank, ranks, ElementType::i32) +
         check_type<std::int16_t>(group, rank, ranks, ElementType::i16) +
         check_type<std::int8_t>(group, rank, ranks, ElementType::i8) +
         check_type<std::uint64_t>(group, rank, ranks, ElementType::u64) +
         check_type<std::uint32_t>(group, rank, ranks, ElementType::u32) +
         check_type<std::uint16_t>(group, rank, ranks, ElementType::u16) +
         check_type<std::uint8_t>(group, rank, ranks, ElementType::u8) +
         check_type<bool>(group, rank, ranks, ElementType::boolean);
}

std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(seed) * 101) & 0xFF);
  return data;
}

// Rank `victim` does `harm` instead of its third collective; the others must fail naming it.
std::vector<test::RankOutcome> harmed(int ranks, int victim, const std::function<void(ShmGroup&)>& harm,
                                      std::chrono::milliseconds timeout,
                                      std::chrono::seconds limit = std::chrono::seconds{30}) {
  SharedBoard board;
  return run_ranks(
      ranks,
      [&](int rank) -> std::string {
        ShmGroup group(board, options(rank, ranks));
        group.barrier(kTimeout);
        std::vector<float> data(100'000, 1.0F);
        auto* bytes = reinterpret_cast<std::byte*>(data.data());
        group.all_reduce(bytes, data.size(), ElementType::f32, Reduction::sum, kTimeout);
        if (rank == victim) {
          harm(group);
          return "harmed";
        }
        const auto start = std::chrono::steady_clock::now();
        try {
          group.all_reduce(bytes, data.size(), ElementType::f32, Reduction::sum, timeout);
        } catch (const CollectiveError& error) {
          const bool soon = std::chrono::steady_clock::now() - start < timeout + std::chrono::seconds{1};
          bool again = false;
          try {
            group.barrier(timeout);
          } catch (const CollectiveError& second) {
            again = second.kind() == error.kind() && second.rank() == error.rank();
          }
          return std::to_string(static_cast<int>(error.kind())) + " rank " + std::to_string(error.rank()) +
                 (soon ? "" : " late") + (again ? "" : " not again") + " | " + error.what();
        }
        return "no error";
      },
      limit);
}

std::string start_of(FailureKind kind, int rank) {
  return std::to_string(static_cast<int>(kind)) + " rank " + std::to_string(rank) + " |";
}

}  // namespace

TEST_CASE("all_reduce gives the reference's bits on every rank, for every type, reduction and size") {
  const int ranks = GENERATE(1, 2, 3, 4);
  // The small slot makes most sizes a row of steps.
  const std::uint32_t slot_bytes = GENERATE(4096U, 1U << 20);
  CAPTURE(ranks, slot_bytes);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) {
    ShmGroup group(board, options(rank, ranks, slot_bytes));
    std::string wrong = check_every_type(group, rank, ranks);
    group.barrier(kTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("a NaN of any rank reaches all, through every reduction") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    ShmGroup group(board, options(rank, 2));
    std::string kept;
    for (int owner = 0; owner < 2; ++owner) {
      for (const Reduction reduction : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max}) {
        float value = rank == owner ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
        group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f32, reduction, kTimeout);
        kept += std::isnan(value) ? '1' : '0';
      }
    }
    group.barrier(kTimeout);
    return kept;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "11111111");
}

TEST_CASE("broadcast, all_gather and reduce_scatter move the right bytes") {
  const int ranks = GENERATE(2, 3);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) -> std::string {
    ShmGroup group(board, options(rank, ranks, 4096));
    std::string wrong;
    for (const std::size_t bytes : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 100'000UL}) {
      for (int root = 0; root < ranks; ++root) {
        auto data = pattern(bytes, rank);
        group.broadcast(data.data(), bytes, root, kTimeout);
        if (data != pattern(bytes, root)) wrong += "broadcast of " + std::to_string(bytes) + "; ";
      }
      std::vector<std::vector<std::byte>> outputs(static_cast<std::size_t>(ranks), std::vector<std::byte>(bytes));
      std::vector<std::byte*> places;
      for (auto& output : outputs) places.push_back(output.data());
      group.all_gather(pattern(bytes, rank).data(), places, bytes, kTimeout);
      for (int r = 0; r < ranks; ++r) {
        if (outputs[static_cast<std::size_t>(r)] != pattern(bytes, r))
          wrong += "all_gather of " + std::to_string(bytes) + "; ";
      }
    }
    for (const std::size_t count : {0UL, 1UL, 777UL, 10'001UL}) {
      std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks), std::vector<float>(count));
      std::vector<const std::byte*> places;
      for (std::size_t to = 0; to < inputs.size(); ++to) {
        for (std::size_t i = 0; i < count; ++i) inputs[to][i] = input<float>(rank, i + 1000 * to);
        places.push_back(reinterpret_cast<const std::byte*>(inputs[to].data()));
      }
      std::vector<float> output(count);
      group.reduce_scatter(places, reinterpret_cast<std::byte*>(output.data()), count, ElementType::f32, Reduction::sum,
                           kTimeout);
      for (std::size_t i = 0; i < count; ++i) {
        if (output[i] != expected<float>(Reduction::sum, ranks, i + 1000 * static_cast<std::size_t>(rank))) {
          wrong += "reduce_scatter of " + std::to_string(count) + "; ";
          break;
        }
      }
    }
    group.barrier(kTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("reduce, gather and scatter give the root's result to the root, or take it from there") {
  const int ranks = GENERATE(2, 3);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) -> std::string {
    ShmGroup group(board, options(rank, ranks, 4096));
    std::string wrong;
    for (int root = 0; root < ranks; ++root) {
      for (const std::size_t count : {0UL, 1UL, 777UL, 30'001UL}) {
        std::vector<float> data(count), before;
        for (std::size_t i = 0; i < count; ++i) data[i] = input<float>(rank, i);
        before = data;
        group.reduce(reinterpret_cast<std::byte*>(data.data()), count, ElementType::f32, Reduction::sum, root,
                     kTimeout);
        for (std::size_t i = 0; i < count && rank == root; ++i) before[i] = expected<float>(Reduction::sum, ranks, i);
        if (data != before) wrong += "reduce of " + std::to_string(count) + "; ";
      }
      for (const std::size_t bytes : {0UL, 1UL, 4096UL, 100'001UL}) {
        const std::size_t everywhere = rank == root ? static_cast<std::size_t>(ranks) : 0;
        std::vector<std::vector<std::byte>> all(everywhere, std::vector<std::byte>(bytes));
        std::vector<std::byte*> places;
        for (auto& one : all) places.push_back(one.data());
        group.gather(pattern(bytes, rank).data(), places, bytes, root, kTimeout);
        for (std::size_t r = 0; r < all.size(); ++r)
          if (all[r] != pattern(bytes, static_cast<int>(r))) wrong += "gather of " + std::to_string(bytes) + "; ";
        std::vector<const std::byte*> sources(places.begin(), places.end());
        std::vector<std::byte> own(bytes);
        group.scatter(sources, own.data(), bytes, root, kTimeout);
        if (own != pattern(bytes, rank)) wrong += "scatter of " + std::to_string(bytes) + "; ";
      }
    }
    group.barrier(kTimeout);
    return wrong;
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

// What `from` has for `to`: of another size for each pair, nothing for some, more than a slot for others.
std::vector<std::byte> part_of(int from, int to) {
  const std::size_t sizes[] = {0, 1, 5000, 300, 20'000};
  return pattern(sizes[(from * 2 + to * 3) % 5], from * 10 + to);
}

TEST_CASE("all_to_all moves parts of any sizes") {
  const int ranks = GENERATE(2, 3, 4);
  SharedBoard board;
  const auto outcomes = run_ranks(ranks, [&](int rank) -> std::string {
    ShmGroup group(board, options(rank, ranks, 4096));
    std::vector<std::vector<std::byte>> has, gets;
    for (int r = 0; r < ranks; ++r) {
      has.push_back(part_of(rank, r));
      gets.emplace_back(part_of(r, rank).size());
    }
    for (int again = 0; again < 3; ++again) {
      group.all_to_all({has.begin(), has.end()}, {gets.begin(), gets.end()}, kTimeout);
      for (int r = 0; r < ranks; ++r) {
        auto& got = gets[static_cast<std::size_t>(r)];
        if (got != part_of(r, rank)) return "from rank " + std::to_string(r);
        std::fill(got.begin(), got.end(), std::byte{});
      }
    }
    group.barrier(kTimeout);
    return "";
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

TEST_CASE("parts of all_to_all that do not fit are named on every rank") {
  SharedBoard board;
  const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
    ShmGroup group(board, options(rank, 3));
    std::vector<std::vector<std::byte>> has(3, std::vector<std::byte>(8)), gets = has;
    if (rank == 2) gets[1].resize(4);
    try {
      group.all_to_all({has.begin(), has.end()}, {gets.begin(), gets.end()}, kTimeout);
    } catch (const CollectiveError& error) {
      return error.what();
    }
    return "no error";
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) {
    CAPTURE(outcome.said);
    CHECK(outcome.said.find("rank 2 (pid ") != std::string::npos);
  }
  CHECK(outcomes[0].said.find("rank 1 has 8 bytes for rank 2, which expects 4") != std::string::npos);
}

TEST_CASE("more ranks than cores go on") {
  constexpr int kRanks = 8;
  SharedBoard board;
  const auto outcomes = run_ranks(kRanks, [&](int rank) -> std::string {
    ShmGroup group(board, options(rank, kRanks));
    double sum = 0;
    for (int i = 0; i < 300; ++i) {
      double value = rank + i;
      group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f64, Reduction::sum, kTimeout);
      sum += value;
    }
    return std::to_string(sum);
  });
  require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == std::to_string(300.0 * 28 + 8.0 * 299 * 300 / 2));
}

TEST_CASE("a rank that is killed inside a collective is named by all others within a second, and leaves nothing") {
  const auto before = test::shared_memory_names();
  const int victim = GENERATE(0, 1, 2);
  const auto outcomes = harmed(
      3, victim, [](ShmGroup&) { ::raise(SIGKILL); }, kTimeout);
  for (int r = 0; r < 3; ++r) {
    const auto& outcome = outcomes[static_cast<std::size_t>(r)];
    CAPTURE(r, victim, outcome.said);
    if (r == victim) {
      CHECK(outcome.signal == SIGKILL);
    } else {
      CHECK(outcome.said.find(start_of(FailureKind::peer_died, victim)) == 0);
      CHECK(outcome.seconds < 5.0);
    }
  }
  CHECK(test::shared_memory_names() == before);
}

TEST_CASE("a stopped rank makes the others miss their deadline, which says that it is stopped") {
  const auto outcomes = harmed(
      2, 1, [](ShmGroup&) { ::kill(::getpid(), SIGSTOP); }, std::chrono::milliseconds{700}, std::chrono::seconds{3});
  CAPTURE(outcomes[0].said);
  CHECK(outcomes[0].said.find(start_of(FailureKind::timed_out, 1)) == 0);
  CHECK(outcomes[0].said.find("it is stopped") != std::string::npos);
}

TEST_CASE("a rank that leaves is told apart from one that died") {
  const auto outcomes = harmed(
      2, 0, [](ShmGroup&) {}, kTimeout);
  CAPTURE(outcomes[1].said);
  const bool left = outcomes[1].said.find(start_of(FailureKind::peer_left, 0)) == 0;
  CHECK(left);
}

TEST_CASE("an abort reaches all ranks") {
  const auto outcomes = harmed(
      3, 2, [](ShmGroup& group) { group.abort(); }, kTimeout);
  for (int r = 0; r < 2; ++r) {
    CAPTURE(outcomes[static_cast<std::size_t>(r)].said);
    CHECK(outcomes[static_cast<std::size_t>(r)].said.find(start_of(FailureKind::aborted, 2)) == 0);
  }
}

TEST_CASE("ranks that call different collectives are told which") {
  const auto outcomes = harmed(
      2, 1,
      [](ShmGroup& group) {
        float value = 0;
        try {
          group.all_reduce(reinterpret_cast<std::byte*>(&value), 1, ElementType::f32, Reduction::max, kTimeout);
        } catch (const CollectiveError&) {
        }
      },
      kTimeout);
  CAPTURE(outcomes[0].said);
  CHECK(outcomes[0].said.find(start_of(FailureKind::mismatched, 1)) == 0);
  CHECK(outcomes[0].said.find(
            "rank 0 called all_reduce sum of 100000 float32, rank 1 called all_reduce max of 1 float32") !=
        std::string::npos);
}
