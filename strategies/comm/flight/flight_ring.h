#pragma once
// What this process's groups did last, for the flight recorder (flight.h): a bounded ring of operations, and for each
// group how many there were. Pure: no clock, no lock; times are what the caller's clock says.
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "strategies/comm/base/call_origin.h"

namespace dtrain {

// What the program called. Texts live for ever: names of operations, types and reductions.
struct FlightCall {
  static constexpr std::size_t kShapes = 3;  // of so many tensors, with so many sizes together
  static constexpr std::size_t kSizes = 8;

  const char* op = "";
  const char* type = nullptr;       // of its tensors; null: it has none
  const char* reduction = nullptr;  // null: it does not reduce
  CallOrigin origin{};
  int root = -1;         // -1: it has none
  bool message = false;  // send or recv: no collective
  int peer = -1;         // of a message; -1: any rank
  int tag = 0;
  std::uint32_t tensors = 0;
  std::uint64_t elements = 0;  // of all tensors
  // The first shapes, one after another.
  std::uint32_t shapes = 0;
  std::array<std::uint32_t, kShapes> dims{};
  std::array<std::int64_t, kSizes> sizes{};

  // One more tensor. Its shape is kept if it fits and those before it did.
  void add(std::span<const std::int64_t> shape);
};

enum class FlightState : std::uint8_t { queued, running, done, failed };

// Of this process's part in one group.
struct FlightGroup {
  std::uint32_t id = 0;  // in this process
  std::string key;       // the same on all its ranks, and no other group's
  std::string name;      // for people; may be empty
  int rank = 0;
  int size = 1;
  // So many collectives were called and have ended well. They are numbered from 1 and end in their order.
  std::uint64_t queued = 0;
  std::uint64_t finished = 0;
  // The same of messages, which end in any order.
  std::uint64_t messages = 0;
  std::uint64_t messages_finished = 0;
};

struct FlightRecord {
  FlightCall call;
  std::uint64_t serial = 0;  // of all operations of the process, from 1; 0: none
  std::uint64_t number = 0;  // of its group's collectives, or of its messages
  std::uint32_t group = 0;
  FlightState state = FlightState::queued;
  std::int64_t queued_at = 0, started_at = 0, ended_at = 0;  // 0: not yet
};

class FlightRing {
 public:
  // At least one record.
  explicit FlightRing(std::size_t capacity) : records_(capacity) {}

  // Its address stays the same until it is removed.
  FlightGroup& add_group(std::string key, int rank, int size);
  void remove_group(const FlightGroup& group);

  struct Ticket {
    std::uint64_t serial = 0;
    std::uint32_t slot = 0;
    bool message = false;
  };
  // `starts`: it is running at once. What is not over is kept as long as other records can be given up.
  Ticket queued(FlightGroup& group, const FlightCall& call, bool starts, std::int64_t now);
  void started(const Ticket& ticket, std::int64_t now);
  void ended(FlightGroup& group, const Ticket& ticket, bool well, std::int64_t now);

  struct Snapshot {
    std::vector<FlightGroup> groups;    // in the order of their forming
    std::vector<FlightRecord> records;  // in the order of the calls; of these groups
    std::uint64_t called = 0;           // of all groups that ever were
  };
  Snapshot snapshot() const;

 private:
  FlightRecord* of(const Ticket& ticket);

  std::vector<FlightRecord> records_;
  std::size_t next_ = 0;
  std::uint64_t last_serial_ = 0;
  std::uint32_t last_group_ = 0;
  std::list<FlightGroup> groups_;
};

}  // namespace dtrain
