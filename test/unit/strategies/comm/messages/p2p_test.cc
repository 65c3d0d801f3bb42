// Messages between ranks over shared memory and connections, by real processes.
#include "strategies/comm/messages/p2p.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "test/support/catch.h"
#include "test/unit/strategies/fake_hosts.h"
#include "test/unit/strategies/p2p_calls.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::message_of;
using test::OperationPtr;
using test::receive;
using test::run_ranks;
using test::send;
using test::SharedBoard;

namespace {

constexpr auto kMessageTimeout = test::kP2pTimeout;

// Runs body(group, rank) on a rank for each letter, its host's (fake_hosts.h); each says what it found wrong.
void on_ranks(const std::string& letters, std::uint32_t slot_bytes,
              const std::function<std::string(CommGroup&, int)>& body) {
  CAPTURE(letters, slot_bytes);
  SharedBoard board;
  const auto outcomes = run_ranks(
      static_cast<int>(letters.size()),
      [&](int rank) {
        const auto formed = test::form_on(board, letters, rank, slot_bytes, kMessageTimeout);
        CommGroup& group = *formed;
        std::string wrong = body(group, rank);
        group.barrier(kMessageTimeout);
        return wrong;
      },
      std::chrono::seconds{60});
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}

std::string check(const OperationPtr& received, const std::vector<std::byte>& expected, int from) {
  const int source = received->wait();
  if (source != from) return "from rank " + std::to_string(source) + ", not " + std::to_string(from) + "; ";
  return received->data == expected ? "" : "wrong bytes of " + std::to_string(expected.size()) + "; ";
}

// In turn, as both wait; what comes is `expected`.
std::string exchange_now(CommGroup& group, int other, int tag, const std::vector<std::byte>& sent,
                         const std::vector<std::byte>& expected) {
  std::vector<std::byte> got(expected.size());
  const auto out = [&] { test::send_now(group, sent, other, tag); };
  int source = other;
  if (other == 1) out();
  source = test::receive_now(group, got, tag % 4 == 3 ? P2pCore::kAny : other, tag);
  if (other != 1) out();
  if (source != other) return "from rank " + std::to_string(source) + ", not " + std::to_string(other) + "; ";
  return got == expected ? "" : "wrong bytes of " + std::to_string(expected.size()) + "; ";
}

}  // namespace

TEST_CASE("every rank sends to every other first and receives then, of any size") {
  const std::string letters = GENERATE("aa", "aaa", "aaaa", "ab", "aab", "abc", "abab");
  const std::uint32_t slot_bytes = GENERATE(4096U, 1U << 20);
  const int ranks = static_cast<int>(letters.size());
  on_ranks(letters, slot_bytes, [&](CommGroup& group, int rank) {
    const std::size_t sizes[] = {0, 1, 63, 1023, 1024, 1025, 4095, 4096, 4097, 100'001, 3'000'001};
    std::vector<OperationPtr> sends, receives;
    std::string wrong;
    for (int peer = 0; peer < ranks; ++peer) {
      for (const std::size_t size : sizes)
        if (peer != rank) sends.push_back(send(group, message_of(size, rank * 10 + peer), peer));
    }
    for (int peer = 0; peer < ranks; ++peer) {
      for (const std::size_t size : sizes)
        if (peer != rank) receives.push_back(receive(group, size, peer));
    }
    auto next = receives.begin();
    for (int peer = 0; peer < ranks; ++peer) {
      for (const std::size_t size : sizes)
        if (peer != rank) wrong += check(*next++, message_of(size, peer * 10 + rank), peer);
    }
    for (const auto& one : sends) one->wait();
    return wrong;
  });
}

TEST_CASE("who waits for a message takes it itself where there are cores enough") {
  const std::string letters = GENERATE("aa", "ab");
  on_ranks(letters, 1U << 20, [](CommGroup& group, int rank) {
    std::string wrong;
    int by_waiter = 0;
    for (int turn = 0; turn < 2000; ++turn) {
      std::thread::id by;
      std::vector<std::byte> data(64);
      std::promise<void> ended;
      const auto future = ended.get_future();
      const auto note = [&](const P2p::Outcome& outcome, const P2p::MakeWay&) {
        by = std::this_thread::get_id();
        if (outcome.error) wrong += "failed; ";
        ended.set_value();
      };
      const P2p::Request request{1 - rank, {turn, 1, "bytes [64]"}, kMessageTimeout, note};
      if (turn % 2 == rank) {
        group.p2p().send(data, request);
        future.wait();
      } else {
        const P2p::Id id = group.p2p().receive(data, request);
        const auto is_over = [&] { return future.wait_for(std::chrono::seconds{0}) == std::future_status::ready; };
        group.p2p().help(id, is_over);
        future.wait();
        by_waiter += by == std::this_thread::get_id() ? 1 : 0;
      }
    }
    // On a busy machine the thread is often first.
    if (std::thread::hardware_concurrency() >= 2 && by_waiter == 0) wrong += "the thread took all; ";
    return wrong;
  });
}

TEST_CASE("messages are received by tag in another order than they were sent, more than are kept") {
  const std::string letters = GENERATE("aa", "ab");
  on_ranks(letters, 1U << 20, [](CommGroup& group, int rank) {
    constexpr int kTags = 1500;
    const auto size_of = [](int tag) { return static_cast<std::size_t>(tag * 37 % 6000); };
    std::vector<OperationPtr> operations;
    std::string wrong;
    for (int tag = 0; tag < kTags && rank == 0; ++tag)
      for (int turn = 0; turn < 2; ++turn)
        operations.push_back(send(group, message_of(size_of(tag), tag + turn), 1, tag));
    for (int tag = kTags; tag-- > 0 && rank == 1;) {
      for (int turn = 0; turn < 2; ++turn)
        wrong += check(receive(group, size_of(tag), 0, tag), message_of(size_of(tag), tag + turn), 0);
    }
    for (const auto& one : operations) one->wait();
    return wrong;
  });
}

TEST_CASE("a receive of any rank's message says whose it was") {
  const std::size_t size = GENERATE(1, 20'000);
  const std::string letters = GENERATE("aaaa", "aabb", "abcd");
  on_ranks(letters, 1U << 20, [&](CommGroup& group, int rank) -> std::string {
    constexpr int kEach = 50;
    if (rank != 0) {
      std::vector<OperationPtr> sends;
      for (int i = 0; i < kEach; ++i) sends.push_back(send(group, message_of(size, rank * 1000 + i), 0, 7));
      for (const auto& one : sends) one->wait();
      return "";
    }
    std::vector<int> had(4);
    std::string wrong;
    for (int i = 0; i < 3 * kEach; ++i) {
      const auto one = receive(group, size, P2pCore::kAny, 7);
      const int from = one->wait();
      if (one->data != message_of(size, from * 1000 + had[static_cast<std::size_t>(from)]++)) wrong += "wrong bytes; ";
    }
    return wrong + (had == std::vector<int>{0, kEach, kEach, kEach} ? "" : "not each rank's");
  });
}

TEST_CASE("a message that nobody receives holds up neither collectives nor other messages") {
  const std::string letters = GENERATE("aaa", "aab", "abc");
  on_ranks(letters, 4096, [](CommGroup& group, int rank) {
    std::string wrong;
    OperationPtr large;
    if (rank == 0) large = send(group, message_of(5'000'000, 1), 1, 1);
    for (int i = 0; i < 20; ++i) {
      group.barrier(kMessageTimeout);
      const int to = (rank + 1) % 3, from = (rank + 2) % 3;
      const auto sent = send(group, message_of(10'000, rank + i), to, 0);
      wrong += check(receive(group, 10'000, from, 0), message_of(10'000, from + i), from);
      sent->wait();
    }
    if (rank == 1) wrong += check(receive(group, 5'000'000, 0, 1), message_of(5'000'000, 1), 0);
    if (large) large->wait();
    return wrong;
  });
}

namespace {

// One draw for all ranks: what is sent from where to where, each rank in an order of its own.
struct Message {
  int from, to, tag;
  std::size_t size;
  int seed;
};

std::vector<Message> draw_messages(int ranks, std::uint32_t seed, int count) {
  std::mt19937 random(seed);
  const auto draw = [&](int below) { return std::uniform_int_distribution<int>(0, below - 1)(random); };
  std::vector<Message> messages;
  for (int i = 0; i < count; ++i) {
    const std::size_t sizes[] = {0,
                                 1,
                                 1 + static_cast<std::size_t>(draw(300)),
                                 4096,
                                 static_cast<std::size_t>(draw(9000)),
                                 static_cast<std::size_t>(draw(200)) * 1001};
    const int from = draw(ranks), to = (from + 1 + draw(ranks - 1)) % ranks;
    const int tag = draw(5);
    // Tag 4 is received by any: so all of one size.
    messages.push_back({from, to, tag, tag == 4 ? 777 : sizes[draw(6)], i});
  }
  return messages;
}

std::string exchange(CommGroup& group, int rank, const std::vector<Message>& all, std::uint32_t seed) {
  // Sends keep their order among themselves, and so do receives; which comes first between them is drawn.
  std::mt19937 random(seed * 31 + static_cast<std::uint32_t>(rank));
  std::vector<OperationPtr> sends;
  std::vector<std::pair<OperationPtr, const Message*>> receives;
  auto next_send = all.begin(), next_receive = all.begin();
  while (next_send != all.end() || next_receive != all.end()) {
    const bool sending = next_receive == all.end() || (next_send != all.end() && random() % 2 == 0);
    const Message& m = sending ? *next_send++ : *next_receive++;
    if (sending && m.from == rank) sends.push_back(send(group, message_of(m.size, m.seed), m.to, m.tag));
    if (!sending && m.to == rank)
      receives.emplace_back(receive(group, m.size, m.tag == 4 ? P2pCore::kAny : m.from, m.tag), &m);
  }
  std::string wrong;
  std::vector<std::vector<const Message*>> any(8);
  for (const Message& m : all)
    if (m.to == rank && m.tag == 4) any[static_cast<std::size_t>(m.from)].push_back(&m);
  for (const auto& [operation, m] : receives) {
    if (m->tag != 4) {
      wrong += check(operation, message_of(m->size, m->seed), m->from);
      continue;
    }
    auto& due = any[static_cast<std::size_t>(operation->wait())];
    if (due.empty() || operation->data != message_of(777, due.front()->seed)) return "any: wrong bytes";
    due.erase(due.begin());
  }
  for (const auto& one : sends) one->wait();
  return wrong;
}

}  // namespace

TEST_CASE("seeded messages of all pairs arrive while collectives run") {
  const std::string letters = GENERATE("aa", "aaa", "aaaa", "ab", "aab", "abc", "aabb");
  const std::uint32_t seed = GENERATE(1U, 2U);
  const int ranks = static_cast<int>(letters.size());
  on_ranks(letters, seed % 2 == 0 ? 4096 : 1U << 20, [&](CommGroup& group, int rank) {
    std::string wrong;
    std::thread collectives([&] {
      try {
        for (int i = 0; i < 100; ++i) {
          std::vector<float> values(5000, static_cast<float>(rank));
          group.all_reduce(reinterpret_cast<std::byte*>(values.data()), values.size(), ElementType::f32, Reduction::sum,
                           kMessageTimeout);
          if (values.back() != static_cast<float>(ranks * (ranks - 1) / 2)) wrong = "a sum; ";
        }
      } catch (const std::exception& error) {
        wrong = error.what();
      }
    });
    const std::string other = exchange(group, rank, draw_messages(ranks, seed, 600), seed);
    collectives.join();
    return wrong + other;
  });
}

TEST_CASE("threads of one rank send and receive at once, each with tags of its own") {
  const std::string letters = GENERATE("aa", "ab");
  on_ranks(letters, 4096, [](CommGroup& group, int rank) {
    std::string wrong;
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          const auto size = static_cast<std::size_t>(i * 101 * (t + 1));
          if (t % 2 == 1) {
            const std::string said =
                exchange_now(group, 1 - rank, t, message_of(size, rank + i + t), message_of(size, 1 - rank + i + t));
            const std::lock_guard lock(mutex);
            wrong += said;
            continue;
          }
          const auto sent = send(group, message_of(size, rank + i + t), 1 - rank, t);
          const std::string said =
              check(receive(group, size, 1 - rank, t), message_of(size, 1 - rank + i + t), 1 - rank);
          sent->wait();
          const std::lock_guard lock(mutex);
          wrong += said;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return wrong;
  });
}

TEST_CASE("what an end calls may send, receive and wait") {
  const std::string letters = GENERATE("aa", "ab");
  on_ranks(letters, 1U << 20, [](CommGroup& group, int rank) -> std::string {
    constexpr int kCalls = 4;
    std::vector<std::byte> byte(1);
    std::vector<std::promise<std::string>> said(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      const auto nested = [&, i](const P2p::Outcome&, const P2p::MakeWay& make_way) {
        make_way();
        const auto sent = send(group, message_of(10'000, i), 1 - rank, 100 + i);
        said[static_cast<std::size_t>(i)].set_value(
            check(receive(group, 10'000, 1 - rank, 100 + i), message_of(10'000, i), 1 - rank));
        sent->wait();
      };
      group.p2p().receive(byte, {1 - rank, {i, 1, "one"}, kMessageTimeout, nested});
    }
    group.barrier(kMessageTimeout);  // a receive of what is there already would call `nested` on this thread
    std::string wrong;
    for (int i = 0; i < kCalls; ++i) send(group, message_of(1, i), 1 - rank, i)->wait();
    for (auto& one : said) wrong += one.get_future().get();
    group.barrier(kMessageTimeout);
    return wrong;
  });
}

TEST_CASE("huge messages go both ways at once, beside a large collective") {
  const std::string letters = GENERATE("aa", "ab");
  on_ranks(letters, 1U << 20, [](CommGroup& group, int rank) {
    constexpr std::size_t kHuge = (128U << 20) + 5;
    const auto sent = send(group, message_of(kHuge, rank), 1 - rank);
    const auto received = receive(group, kHuge, 1 - rank);
    std::vector<float> values(8U << 20, 1.0F);
    group.all_reduce(reinterpret_cast<std::byte*>(values.data()), values.size(), ElementType::f32, Reduction::sum,
                     kMessageTimeout);
    std::string wrong = values.front() == 2.0F && values.back() == 2.0F ? "" : "a sum; ";
    wrong += check(received, message_of(kHuge, 1 - rank), 1 - rank);
    sent->wait();
    return wrong;
  });
}

TEST_CASE("a rank sleeps while it waits for a message") {
  const std::string letters = GENERATE("aa", "ab", "aab");
  on_ranks(letters, 1U << 20, [](CommGroup& group, int rank) -> std::string {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::milliseconds{600};
    if (rank == 0) {
      // Something came that nobody asks for, and another rank's thread is asleep when rank 1 rings.
      const auto any = receive(group, 8, P2pCore::kAny, 1);
      send(group, message_of(100, 0), 1, 5)->wait();
      const auto never = receive(group, 8, 1, 9, std::chrono::seconds{60});
      any->wait();
      send(group, message_of(8, 0), 1, 9)->wait();
      never->wait();
      return "";
    }
    if (rank > 1) return "";
    const auto asked = receive(group, 8, 0, 9);
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    asked->ended.wait_until(until);
    ::getrusage(RUSAGE_SELF, &after);
    const auto used = [](const rusage& usage) {
      return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
             usage.ru_stime.tv_usec;
    };
    send(group, message_of(8, 1), 0, 1)->wait();
    asked->wait();
    send(group, message_of(8, 1), 0, 9)->wait();
    receive(group, 100, 0, 5)->wait();
    const auto microseconds = used(after) - used(before);
    return microseconds < 100'000 ? "" : "used " + std::to_string(microseconds) + " us";
  });
}

TEST_CASE("a group leaves no thread and no descriptor behind") {
  const std::string letters = GENERATE("aa", "ab", "aab", "abb");
  const auto count = [](const char* folder) {
    const std::filesystem::directory_iterator begin(folder), end;
    return std::distance(begin, end);
  };
  SharedBoard board;
  const auto outcomes = run_ranks(static_cast<int>(letters.size()), [&](int rank) -> std::string {
    std::thread([] {}).join();  // ThreadSanitizer has one of its own from then on
    const auto threads = count("/proc/self/task"), descriptors = count("/proc/self/fd");
    {
      const auto group = test::form_on(board, letters, rank, 1U << 20, kMessageTimeout);
      const int ranks = static_cast<int>(letters.size());
      const auto sent = send(*group, message_of(100'000, rank), (rank + 1) % ranks);
      const auto from = (rank + ranks - 1) % ranks;
      const std::string wrong = check(receive(*group, 100'000, from), message_of(100'000, from), from);
      if (!wrong.empty()) return wrong;
      sent->wait();
      group->barrier(kMessageTimeout);
    }
    return count("/proc/self/task") == threads && count("/proc/self/fd") == descriptors ? "" : "something is left";
  });
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}
