#pragma once
// Streams of several ranks, as devices have them: each does what it was given, in order and in any time, and knows of
// the others by events and collectives alone. Throws at what only luck keeps right:
//   - two accesses to the same memory, one of which writes, that nothing orders. A vector clock for each stream, as in
//     Mattern, "Virtual Time and Global States of Distributed Systems", 1989;
//   - a read that finds other values than those that were meant;
//   - ranks that come to different collectives, or wait for each other or for nothing.
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::sim {

class StreamMachine {
 public:
  using Id = std::size_t;
  // Where an operation comes from: for what is said of it.
  struct Label {
    const char* what = "";
    Id group = 0;
    friend bool operator==(const Label& a, const Label& b) {
      return std::string_view(a.what) == b.what && a.group == b.group;
    }
  };

  StreamMachine(std::uint64_t seed, int ranks);
  Id add_stream(int rank, const char* name);
  // A set of streams, each of another rank, that meet in collectives.
  Id add_meeting(std::vector<Id> streams);
  Id add_memory(const char* name) {
    memories_.push_back({.name = name});
    return memories_.size() - 1;
  }
  Id add_event() { return next_event_++; }

  // What the host of the stream's rank does, in its order; all of it before run().
  void record(Id stream, Id event, Label label) { give({Kind::record, stream, event, 0, label}); }
  void wait(Id stream, Id event, Label label) { give({Kind::wait, stream, event, 0, label}); }
  void write(Id stream, Id memory, std::uint64_t value, Label label) {
    give({Kind::write, stream, memory, value, label});
  }
  void read(Id stream, Id memory, std::uint64_t expected, Label label) {
    give({Kind::read, stream, memory, expected, label});
  }
  void meet(Id stream, Id meeting, Label label) { give({Kind::meet, stream, meeting, 0, label}); }
  // The host goes on when the stream has done all that.
  void drain(Id stream) { give({Kind::drain, stream, 0, 0, {"drain"}}); }

  // Throws std::runtime_error.
  void run();
  std::string trace() const;
  std::uint64_t done() const { return done_.size(); }
  std::uint64_t meetings_held() const { return held_; }

 private:
  enum class Kind : std::uint8_t { record, wait, write, read, meet, drain };
  struct Op {
    Kind kind;
    Id stream, what;
    std::uint64_t value;
    Label label;
  };
  using Clock = std::vector<std::uint32_t>;  // by stream: what of it has certainly been done
  struct Stream {
    int rank;
    const char* name;
    unsigned haste;  // of 8: how often it goes on when it can
    std::deque<Op> given{};
    Clock clock{};
  };
  struct Memory {
    const char* name;
    std::uint64_t value = 0;
    bool written = false;
    Id writer = 0;
    Clock reads{};
    std::uint32_t write = 0;
    Label write_label{};
    std::vector<Label> read_labels{};
  };
  struct Event {
    bool recorded = false;
    Clock clock{};
  };
  struct Host {
    std::vector<Op> ops{};
    std::size_t next = 0;
    unsigned haste = 8;
    std::vector<Id> last{};  // by event: the record that it stands for now, from 1 on
  };

  void give(const Op& op);
  bool host_can(const Host& host) const;
  void host_goes_on(Host& host);
  bool stream_can(const Stream& stream) const;
  void stream_goes_on(Id id);
  void access(Id stream, const Op& op);
  void hold_meeting(Id meeting);
  bool go_on();
  [[noreturn]] void stuck() const;
  [[noreturn]] void unordered(const Op& op, Id other, const Label& label) const;
  std::string text(const Op& op) const;

  std::mt19937_64 random_;
  std::vector<Stream> streams_;
  std::vector<Host> hosts_;
  std::vector<std::vector<Id>> meetings_;
  std::vector<Memory> memories_;
  std::vector<Event> records_{1};
  Id next_event_ = 0;
  std::vector<Op> done_;
  std::uint64_t held_ = 0;
};

}  // namespace dtrain::sim
