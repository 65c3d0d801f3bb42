#pragma once
// What the collectives of any group must give: every one of them, by real processes, against a reference computed here
// one element at a time. Each check returns what it found wrong.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <signal.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <functional>
#include <type_traits>

#include "strategies/comm/groups/form_group.h"
#include "strategies/comm/memory/shm_wait.h"
#include "test/unit/strategies/ranks.h"

namespace dtrain::test {

constexpr auto kTimeout = std::chrono::seconds{20};
constexpr Reduction kReductions[] = {Reduction::sum, Reduction::avg,  Reduction::product, Reduction::min,
                                     Reduction::max, Reduction::band, Reduction::bor,     Reduction::bxor};

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

// How ranks are distributed over hosts: the reference adds on each host, and then what the hosts have.
using Layout = std::vector<std::vector<int>>;

inline int ranks_of(const Layout& hosts) {
  std::size_t ranks = 0;
  for (const auto& host : hosts) ranks += host.size();
  return static_cast<int>(ranks);
}

// One host, or one rank on each: nothing is added twice.
inline bool is_flat(const Layout& hosts) {
  return hosts.size() == 1 || hosts.size() == static_cast<std::size_t>(ranks_of(hosts));
}

inline Layout one_host(int ranks) {
  Layout hosts(1);
  for (int r = 0; r < ranks; ++r) hosts[0].push_back(r);
  return hosts;
}

template <class T>
using Sum = std::conditional_t<sizeof(T) == 2 && !std::is_integral_v<T>, float, T>;

// Of these ranks, in their order; an average is divided by `world`.
template <class T>
T expected_of(Reduction reduction, const std::vector<int>& ranks, int world, std::size_t i) {
  using A = Sum<T>;
  A value = static_cast<A>(input<T>(ranks.front(), i));
  for (std::size_t r = 1; r < ranks.size(); ++r)
    value = combine<A>(reduction, value, static_cast<A>(input<T>(ranks[r], i)));
  if (reduction == Reduction::avg) value = static_cast<A>(value / static_cast<decltype(std::real(value))>(world));
  return static_cast<T>(value);
}

template <class T>
T expected(Reduction reduction, const Layout& hosts, std::size_t i) {
  const int ranks = ranks_of(hosts);
  if constexpr (std::is_same_v<T, bool>) {
    int set = 0;
    for (int r = 0; r < ranks; ++r) set += input<T>(r, i) ? 1 : 0;
    if (reduction == Reduction::bxor) return set % 2 != 0;
    const bool all = reduction == Reduction::product || reduction == Reduction::min || reduction == Reduction::band;
    return set >= (all ? ranks : 1);
  } else {
    if (is_flat(hosts)) return expected_of<T>(reduction, one_host(ranks)[0], ranks, i);
    using A = Sum<T>;
    A value = static_cast<A>(expected_of<T>(reduction, hosts[0], ranks, i));
    for (std::size_t h = 1; h < hosts.size(); ++h)
      value = combine<A>(reduction, value, static_cast<A>(expected_of<T>(reduction, hosts[h], ranks, i)));
    return static_cast<T>(value);
  }
}

// Empty, or which element is wrong. Bit for bit: the order of the additions is part of the contract.
template <class T>
std::string check_all_reduce(CommGroup& group, int rank, const Layout& hosts, ElementType type, Reduction reduction,
                             std::size_t count) {
  std::vector<std::byte> data(count * sizeof(T) + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = input<T>(rank, i);
    std::memcpy(data.data() + i * sizeof(T), &value, sizeof(T));
  }
  data.back() = std::byte{0x5A};
  group.all_reduce(data.data(), count, type, reduction, kTimeout);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = expected<T>(reduction, hosts, i);
    if (std::memcmp(data.data() + i * sizeof(T), &value, sizeof(T)) == 0) continue;
    return std::string(name_of(type)) + " " + name_of(reduction) + " of " + std::to_string(count) + ": element " +
           std::to_string(i) + "; ";
  }
  return data.back() == std::byte{0x5A} ? "" : std::string(name_of(type)) + ": wrote past the end; ";
}

template <class T>
std::string check_type(CommGroup& group, int rank, const Layout& hosts, ElementType type) {
  std::string wrong;
  for (const Reduction reduction : kReductions) {
    if (!is_defined(reduction, type)) continue;
    if (kComplex<T> && reduction == Reduction::product) continue;  // reduce_test's: std multiplies in its own way
    for (const std::size_t count : {0UL, 1UL, 2UL, 3UL, 1023UL, 1025UL, 9001UL, 70001UL}) {
      wrong += check_all_reduce<T>(group, rank, hosts, type, reduction, count);
    }
  }
  return wrong;
}

inline std::string check_every_type(CommGroup& group, int rank, const Layout& hosts) {
  return check_type<double>(group, rank, hosts, ElementType::f64) +
         check_type<float>(group, rank, hosts, ElementType::f32) +
         check_type<c10::Half>(group, rank, hosts, ElementType::f16) +
         check_type<c10::BFloat16>(group, rank, hosts, ElementType::bf16) +
         check_type<std::complex<double>>(group, rank, hosts, ElementType::c128) +
         check_type<std::complex<float>>(group, rank, hosts, ElementType::c64) +
         check_type<std::int64_t>(group, rank, hosts, ElementType::i64) +
         check_type<std::int32_t>(group, rank, hosts, ElementType::i32) +
         check_type<std::int16_t>(group, rank, hosts, ElementType::i16) +
         check_type<std::int8_t>(group, rank, hosts, ElementType::i8) +
         check_type<std::uint64_t>(group, rank, hosts, ElementType::u64) +
         check_type<std::uint32_t>(group, rank, hosts, ElementType::u32) +
         check_type<std::uint16_t>(group, rank, hosts, ElementType::u16) +
         check_type<std::uint8_t>(group, rank, hosts, ElementType::u8) +
         check_type<bool>(group, rank, hosts, ElementType::boolean);
}

// Of a rank that throws something, what that is.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

using Parts = std::vector<std::vector<std::byte>>;

inline std::vector<std::byte*> places_of(Parts& parts) {
  std::vector<std::byte*> places;
  for (auto& part : parts) places.push_back(part.data());
  return places;
}

inline std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(seed) * 101) & 0xFF);
  return data;
}

// What is reduced, of a type or another.
struct Reduced {
  ElementType type;
  Reduction reduction;
  std::size_t count;
};

inline std::string wrong_in(const char* op, const Reduced& what) {
  return std::string(op) + " " + name_of(what.type) + " " + name_of(what.reduction) + " of " +
         std::to_string(what.count) + "; ";
}

template <class T, class Value>
std::vector<std::byte> bytes_of_each(std::size_t count, Value value) {
  std::vector<std::byte> data(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T one = value(i);
    std::memcpy(data.data() + i * sizeof(T), &one, sizeof(T));
  }
  return data;
}

// A type of each way of adding, with every reduction: what the type decides beyond that is check_every_type's.
template <class Check>
std::string for_reduced_types(Check check) {
  std::string wrong;
  const auto each = [&]<class T>(std::type_identity<T> type, ElementType named) {
    for (const Reduction reduction : kReductions) {
      if (!is_defined(reduction, named)) continue;
      for (const std::size_t count : {0UL, 1UL, 777UL, reduction == Reduction::sum ? 30'001UL : 3001UL})
        wrong += check(type, Reduced{named, reduction, count});
    }
  };
  each(std::type_identity<double>{}, ElementType::f64);
  each(std::type_identity<float>{}, ElementType::f32);
  each(std::type_identity<c10::BFloat16>{}, ElementType::bf16);
  each(std::type_identity<std::int64_t>{}, ElementType::i64);
  each(std::type_identity<std::uint8_t>{}, ElementType::u8);
  each(std::type_identity<bool>{}, ElementType::boolean);
  return wrong;
}

template <class T>
std::string check_reduce_scatter(CommGroup& group, int rank, const Layout& hosts, const Reduced& what) {
  const auto first = [](int to) { return 1000 * static_cast<std::size_t>(to); };
  std::vector<std::vector<std::byte>> parts;
  for (int to = 0; to < ranks_of(hosts); ++to)
    parts.push_back(bytes_of_each<T>(what.count, [&](std::size_t i) { return input<T>(rank, i + first(to)); }));
  std::vector<const std::byte*> places;
  for (const auto& part : parts) places.push_back(part.data());
  std::vector<std::byte> output(what.count * sizeof(T));
  group.reduce_scatter(places, output.data(), what.count, what.type, what.reduction, kTimeout);
  const auto right =
      bytes_of_each<T>(what.count, [&](std::size_t i) { return expected<T>(what.reduction, hosts, i + first(rank)); });
  return output == right ? "" : wrong_in("reduce_scatter", what);
}

// Elsewhere than at the root nothing changes.
template <class T>
std::string check_reduce(CommGroup& group, int rank, const Layout& hosts, const Reduced& what, int root) {
  auto data = bytes_of_each<T>(what.count, [&](std::size_t i) { return input<T>(rank, i); });
  const auto right =
      rank != root ? data
                   : bytes_of_each<T>(what.count, [&](std::size_t i) { return expected<T>(what.reduction, hosts, i); });
  group.reduce(data.data(), what.count, what.type, what.reduction, root, kTimeout);
  return data == right ? "" : wrong_in("reduce", what);
}

// broadcast, all_gather and reduce_scatter.
inline std::string check_moves(CommGroup& group, int rank, const Layout& hosts) {
  const int ranks = ranks_of(hosts);
  std::string wrong;
  for (const std::size_t bytes : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 100'000UL}) {
    for (int root = 0; root < ranks; ++root) {
      auto data = pattern(bytes, rank);
      group.broadcast(data.data(), bytes, root, kTimeout);
      if (data != pattern(bytes, root)) wrong += "broadcast of " + std::to_string(bytes) + "; ";
    }
    std::vector<std::vector<std::byte>> outputs(static_cast<std::size_t>(ranks), std::vector<std::byte>(bytes));
    group.all_gather(pattern(bytes, rank).data(), places_of(outputs), bytes, kTimeout);
    for (int r = 0; r < ranks; ++r) {
      if (outputs[static_cast<std::size_t>(r)] != pattern(bytes, r))
        wrong += "all_gather of " + std::to_string(bytes) + "; ";
    }
  }
  return wrong + for_reduced_types([&]<class T>(std::type_identity<T>, const Reduced& what) {
           return check_reduce_scatter<T>(group, rank, hosts, what);
         });
}

// reduce, gather and scatter.
inline std::string check_rooted(CommGroup& group, int rank, const Layout& hosts) {
  const int ranks = ranks_of(hosts);
  std::string wrong;
  for (int root = 0; root < ranks; ++root) {
    wrong += for_reduced_types([&]<class T>(std::type_identity<T>, const Reduced& what) {
      return check_reduce<T>(group, rank, hosts, what, root);
    });
    for (const std::size_t bytes : {0UL, 1UL, 4096UL, 100'001UL}) {
      const std::size_t everywhere = rank == root ? static_cast<std::size_t>(ranks) : 0;
      std::vector<std::vector<std::byte>> all(everywhere, std::vector<std::byte>(bytes));
      const std::vector<std::byte*> places = places_of(all);
      group.gather(pattern(bytes, rank).data(), places, bytes, root, kTimeout);
      for (std::size_t r = 0; r < all.size(); ++r)
        if (all[r] != pattern(bytes, static_cast<int>(r))) wrong += "gather of " + std::to_string(bytes) + "; ";
      std::vector<const std::byte*> sources(places.begin(), places.end());
      std::vector<std::byte> own(bytes);
      group.scatter(sources, own.data(), bytes, root, kTimeout);
      if (own != pattern(bytes, rank)) wrong += "scatter of " + std::to_string(bytes) + "; ";
    }
  }
  return wrong;
}

inline void exchange(CommGroup& group, const Parts& has, Parts& gets, std::chrono::milliseconds timeout) {
  const std::vector<std::span<const std::byte>> inputs(has.begin(), has.end());
  const std::vector<std::span<std::byte>> outputs(gets.begin(), gets.end());
  group.all_to_all(inputs, outputs, timeout);
}

// What `from` has for `to`: of another size for each pair, nothing for some, more than a slot for others.
inline std::vector<std::byte> part_of(int from, int to) {
  const std::size_t sizes[] = {0, 1, 5000, 300, 20'000};
  return pattern(sizes[(from * 2 + to * 3) % 5], from * 10 + to);
}

inline std::string check_all_to_all(CommGroup& group, int rank, int ranks) {
  Parts has, gets;
  for (int r = 0; r < ranks; ++r) {
    has.push_back(part_of(rank, r));
    gets.emplace_back(part_of(r, rank).size());
  }
  for (int again = 0; again < 3; ++again) {
    exchange(group, has, gets, kTimeout);
    for (int r = 0; r < ranks; ++r) {
      auto& got = gets[static_cast<std::size_t>(r)];
      if (got != part_of(r, rank)) return "from rank " + std::to_string(r);
      std::fill(got.begin(), got.end(), std::byte{});
    }
  }
  return "";
}

using Forming = std::function<std::unique_ptr<CommGroup>(GroupStore& place, int rank, int ranks)>;

// Rank `victim` does `harm` instead of its third collective, when all have ended the second; the others must fail
// naming it.
inline std::vector<RankOutcome> harmed(const Forming& form, int ranks, int victim,
                                       const std::function<void(CommGroup&)>& harm, std::chrono::milliseconds timeout,
                                       std::chrono::seconds limit = kRanksLimit) {
  SharedBoard board;
  return run_ranks(
      ranks,
      [&](int rank) -> std::string {
        const auto formed = form(board, rank, ranks);
        CommGroup& group = *formed;
        group.barrier(kTimeout);
        std::vector<float> data(100'000, 1.0F);
        auto* bytes = reinterpret_cast<std::byte*>(data.data());
        group.all_reduce(bytes, data.size(), ElementType::f32, Reduction::sum, kTimeout);
        board.put("ready/" + std::to_string(rank), "yes");
        if (rank == victim) {
          for (int r = 0; r < ranks; ++r) board.take("ready/" + std::to_string(r), ShmWait::after(kTimeout));
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

inline std::string start_of(FailureKind kind, int rank) {
  return std::to_string(static_cast<int>(kind)) + " rank " + std::to_string(rank) + " |";
}

}  // namespace dtrain::test
