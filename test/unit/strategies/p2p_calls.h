#pragma once
// Sends and receives of a group in tests: each holds its own memory and is waited for with a deadline.
#include <future>
#include <stdexcept>

#include "strategies/comm/groups/group.h"
#include "strategies/comm/messages/p2p.h"

namespace dtrain::test {

inline constexpr std::chrono::seconds kP2pTimeout{20};

inline std::vector<std::byte> message_of(std::size_t bytes, int seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(seed) * 101 + i / 251) & 0xFF);
  return data;
}

struct Operation {
  std::vector<std::byte> data;
  std::promise<int> promise;
  std::future<int> ended = promise.get_future();
  P2p* p2p = nullptr;
  P2p::Id id = 0;

  bool is_over() const { return ended.wait_for(std::chrono::seconds{0}) == std::future_status::ready; }
  // The other rank. Throws what the operation ended with, or after the deadline. Every other operation's waiter helps.
  int wait() {
    if (id % 2 == 1 && !is_over()) p2p->help(id, [this] { return is_over(); });
    if (ended.wait_for(kP2pTimeout * 2) != std::future_status::ready) throw std::runtime_error("never ended");
    return ended.get();
  }
};
using OperationPtr = std::shared_ptr<Operation>;

inline P2p::Request request_of(const OperationPtr& operation, int peer, int tag, std::chrono::milliseconds timeout) {
  return {peer,
          {tag, 1, "bytes [" + std::to_string(operation->data.size()) + "]"},
          timeout,
          [operation](const P2p::Outcome& outcome, const P2p::MakeWay&) {
            if (outcome.error) return operation->promise.set_exception(outcome.error);
            operation->promise.set_value(outcome.peer);
          }};
}

inline OperationPtr send(CommGroup& group, std::vector<std::byte> data, int to, int tag = 0,
                         std::chrono::milliseconds timeout = kP2pTimeout) {
  auto operation = std::make_shared<Operation>();
  operation->data = std::move(data);
  operation->p2p = &group.p2p();
  operation->id = group.p2p().send(operation->data, request_of(operation, to, tag, timeout));
  return operation;
}

inline OperationPtr receive(CommGroup& group, std::size_t bytes, int from, int tag = 0,
                            std::chrono::milliseconds timeout = kP2pTimeout) {
  auto operation = std::make_shared<Operation>();
  operation->data.resize(bytes);
  operation->p2p = &group.p2p();
  operation->id = group.p2p().receive(operation->data, request_of(operation, from, tag, timeout));
  return operation;
}

// On this thread; the other rank. They throw what the operation ended with.
inline int source_of(const P2p::Outcome& outcome) {
  if (outcome.error) std::rethrow_exception(outcome.error);
  return outcome.peer;
}

inline P2p::Request waited_request(std::size_t bytes, int peer, int tag, std::chrono::milliseconds timeout) {
  return {peer, {tag, 1, "bytes [" + std::to_string(bytes) + "]"}, timeout, {}};
}

inline int send_now(CommGroup& group, const std::vector<std::byte>& data, int to, int tag = 0,
                    std::chrono::milliseconds timeout = kP2pTimeout) {
  return source_of(group.p2p().send_now(data, waited_request(data.size(), to, tag, timeout)));
}

inline int receive_now(CommGroup& group, std::span<std::byte> into, int from, int tag = 0,
                       std::chrono::milliseconds timeout = kP2pTimeout) {
  return source_of(group.p2p().receive_now(into, waited_request(into.size(), from, tag, timeout)));
}

}  // namespace dtrain::test
