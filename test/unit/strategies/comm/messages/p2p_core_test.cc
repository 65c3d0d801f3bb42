// Matching of messages and receives: seeded histories of several ranks on links that delay, against a plain list.
#include "strategies/comm/messages/p2p_core.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

std::vector<std::byte> content(std::uint64_t seed, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 31 + seed * 101 + i / 251) & 0xFF);
  return data;
}

struct Call {
  P2pCore::Id id = 0;
  int peer = 0;
  int tag = 0;
  std::vector<std::byte> data;
  int ended_with = -2;
};

// What must happen, by the words of the header: the first of each that fit, in the order of events at the receiver.
struct Reference {
  struct Message {
    int from, tag;
    P2pCore::Id send;
  };
  std::vector<Message> messages;
  std::vector<std::pair<P2pCore::Id, Message>> matched;
  std::vector<Call> receives;    // without data
  std::optional<Call> expected;  // likewise
  bool came = false;

  static bool fits(const Call& receive, const Message& message) {
    return receive.tag == message.tag && (receive.peer == P2pCore::kAny || receive.peer == message.from);
  }
  // `at_once`: so that one that expects it gets it, if nobody else does.
  void arrived(const Message& message, bool at_once) {
    const auto found = std::find_if(receives.begin(), receives.end(), [&](auto& r) { return fits(r, message); });
    if (found != receives.end()) {
      matched.emplace_back(found->id, message);
      receives.erase(found);
    } else if (at_once && expected && fits(*expected, message) && !is_settled()) {
      matched.emplace_back(expected->id, message);
      came = true;
    } else {
      messages.push_back(message);
    }
  }
  bool is_settled() const {
    const auto is_its = [&](auto& message) { return fits(*expected, message); };
    return expected && (came || std::any_of(messages.begin(), messages.end(), is_its));
  }
  bool awaits(const Message& message) const {
    return std::any_of(receives.begin(), receives.end(), [&](auto& r) { return fits(r, message); });
  }
  void called(const Call& receive) {
    const auto found = std::find_if(messages.begin(), messages.end(), [&](auto& m) { return fits(receive, m); });
    if (found == messages.end()) return receives.push_back(receive);
    matched.emplace_back(receive.id, *found);
    messages.erase(found);
  }
};

struct Sent {
  Frame frame;
  std::vector<std::byte> payload;
};

// A frame that has begun to come, as over a connection.
struct Coming {
  bool begun = false;
  bool told = false;  // to the reference
  std::span<std::byte> into;
};

struct Rank {
  explicit Rank(int ranks, const P2pCore::Limits& limits)
      : core(ranks, limits),
        kept(static_cast<std::size_t>(ranks)),
        freed(static_cast<std::size_t>(ranks)),
        to(static_cast<std::size_t>(ranks)),
        going(static_cast<std::size_t>(ranks)),
        coming(static_cast<std::size_t>(ranks)) {}
  P2pCore core;
  Reference reference;
  std::map<P2pCore::Id, Call> sends, receives;
  std::vector<std::uint64_t> kept;                      // bytes of each sender's window that were ever in use here
  std::vector<std::uint64_t> freed;                     // and that it was told of as free again
  std::vector<std::deque<Sent>> to;                     // on the way to each rank
  std::vector<std::optional<P2pCore::Outgoing>> going;  // to each rank
  std::vector<Coming> coming;                           // of each rank
  P2pCore::Label label;                                 // of what it expects
  P2pCore::Id last = 0;
};

class World {
 public:
  World(int ranks, std::uint32_t seed) : random_(seed) {
    for (int r = 0; r < ranks; ++r) ranks_.emplace_back(ranks, limits_);
  }

  // Tags 0 and 1 are received by any and have one size each; those of tag 2 have any size, and are received by name;
  // for tag 3, of one size, both happen. So no receive meets a message of another size.
  std::size_t size_of(int tag, int from, int to, int number) {
    static constexpr std::size_t kSizes[] = {0, 1, 63, 200, 256, 257, 1000, 5000, 3};
    return tag == 2 ? kSizes[(from * 5 + to * 3 + number * 7) % 9] : kSizes[tag * 2 + 1];
  }

  void send(int from, int to, int tag) {
    Call call{++rank(from).last, to, tag, {}, -2};
    call.data =
        content(call.id * 7 + static_cast<std::uint64_t>(from), size_of(tag, from, to, sent_[{from, to, tag}]++));
    auto& kept = rank(from).sends.emplace(call.id, std::move(call)).first->second;
    const P2pCore::Label label{tag, 1, "x"};
    const bool may_go = draw(2) == 0 && !going(from, to) && link(from, to).size() < 4;
    if (const auto whole = may_go ? rank(from).core.whole(kept.id, to, label, kept.data, draw(600)) : std::nullopt) {
      note(from, to, whole->frame);
      put(from, to, *whole);
      end_send(kept, to);
    } else {
      rank(from).core.send(kept.id, to, label, kept.data);
    }
  }

  // A small message of this rank, as long as nothing ends the expectation.
  void expect(int at, int from, int tag) {
    Call call{++rank(at).last, from, tag, std::vector<std::byte>(size_of(tag, from, at, 0)), -2};
    rank(at).reference.expected = Call{call.id, from, tag, {}, -2};
    rank(at).reference.came = false;
    auto& kept = rank(at).receives.emplace(call.id, std::move(call)).first->second;
    rank(at).label = {tag, 1, "x"};
    rank(at).core.expect(from, rank(at).label, kept.data);
    REQUIRE(rank(at).core.is_settled() == rank(at).reference.is_settled());
  }

  // What has not come is received as any other.
  void stop_expecting(int at) {
    Reference& reference = rank(at).reference;
    REQUIRE(rank(at).core.is_settled() == reference.is_settled());
    const Call expected = *std::exchange(reference.expected, std::nullopt);
    Call& call = rank(at).receives.at(expected.id);
    REQUIRE(rank(at).core.stop_expecting() == reference.came);
    if (reference.came) return end_receive(at, call, call.peer);
    rank(at).receives.erase(expected.id);
    receive(at, expected.peer, expected.tag);
  }

  void receive(int at, int from, int tag) {
    const std::size_t size = size_of(tag, from, at, tag == 2 ? received_[{from, at, tag}]++ : 0);
    Call call{++rank(at).last, from, tag, std::vector<std::byte>(size), -2};
    rank(at).reference.called({call.id, from, tag, {}, -2});
    auto& kept = rank(at).receives.emplace(call.id, std::move(call)).first->second;
    rank(at).core.receive(kept.id, from, {tag, 1, "x"}, kept.data);
    collect(at);
  }

  // One frame from one rank to another is written or read, if there is one. False: nothing at all is left to do.
  bool advance() {
    std::vector<std::pair<int, int>> writes, reads;
    for (int from = 0; from < size(); ++from) {
      for (int to = 0; to < size(); ++to) {
        if (rank(from).core.has_next(to) || going(from, to)) writes.emplace_back(from, to);
        if (!link(from, to).empty()) reads.emplace_back(from, to);
      }
    }
    if (writes.empty() && reads.empty()) return false;
    if (!writes.empty() && (reads.empty() || draw(2) == 0)) {
      const auto [from, to] = writes[draw(writes.size())];
      write(from, to);
    } else {
      const auto [from, to] = reads[draw(reads.size())];
      read(from, to);
    }
    return true;
  }

  void random_call() {
    const int a = static_cast<int>(draw(ranks_.size()));
    const int b = (a + 1 + static_cast<int>(draw(ranks_.size() - 1))) % size();
    const int tag = static_cast<int>(draw(4));
    if (draw(2) == 0) return send(a, b, tag);
    const bool expects = rank(a).reference.expected.has_value();
    if (draw(4) == 0) return expects ? stop_expecting(a) : expect(a, b, tag % 2);
    receive(a, tag < 2 || (tag == 3 && draw(2) == 0) ? P2pCore::kAny : b, tag);
  }

  // Call what is missing, until every message is received and every receive has one.
  void settle() {
    for (int r = 0; r < size(); ++r)
      if (rank(r).reference.expected) stop_expecting(r);
    while (true) {
      while (advance()) {
      }
      bool called = false;
      for (int r = 0; r < size() && !called; ++r) {
        const Reference& reference = rank(r).reference;
        if (!reference.messages.empty()) {
          const auto message = reference.messages.front();
          receive(r, message.tag < 2 ? P2pCore::kAny : message.from, message.tag);
          called = true;
        } else if (!reference.receives.empty()) {
          const Call receive = reference.receives.front();
          send(receive.peer == P2pCore::kAny ? (r + 1) % size() : receive.peer, r, receive.tag);
          called = true;
        }
      }
      if (!called) return;
    }
  }

  std::size_t draw(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  int messages() const { return messages_; }

 private:
  std::deque<Sent>& link(int from, int to) { return rank(from).to[static_cast<std::size_t>(to)]; }

  std::optional<P2pCore::Outgoing>& going(int from, int to) { return rank(from).going[static_cast<std::size_t>(to)]; }

  void write(int from, int to) {
    if (link(from, to).size() >= 4) return read(from, to);
    auto& next = going(from, to);
    if (!next) {
      const std::size_t room = draw(3) == 0 ? 0 : draw(600);
      next = rank(from).core.next(to, room);
      if (!next) return;
      REQUIRE(next->payload.size() <= room);
      REQUIRE(next->frame.payload == next->payload.size());
      note(from, to, next->frame);
      if (draw(3) == 0) return;  // a connection has room for a part of it
    }
    put(from, to, *next);
    rank(from).core.gone(*next);
    next.reset();
    collect(from);
  }

  void note(int from, int to, const Frame& frame) {
    auto& freed = rank(from).freed[static_cast<std::size_t>(to)];
    REQUIRE(frame.returned >= freed);
    REQUIRE(frame.returned <= rank(from).kept[static_cast<std::size_t>(to)]);
    freed = frame.returned;
  }

  void put(int from, int to, const P2pCore::Outgoing& next) {
    link(from, to).push_back({next.frame, {next.payload.begin(), next.payload.end()}});
  }

  // At once, or in two steps with anything between them: a message that a receive waits for is that one's from the
  // first step on, any other is there after the second.
  void read(int from, int to) {
    Coming& coming = rank(to).coming[static_cast<std::size_t>(from)];
    const Sent& sent = link(from, to).front();
    const Reference::Message message{from, sent.frame.tag, sent.frame.send};
    const bool says = sent.frame.kind == Frame::Kind::whole || sent.frame.kind == Frame::Kind::offer;
    if (!coming.begun) {
      if (says) {
        auto& kept = rank(to).kept[static_cast<std::size_t>(from)];
        if (sent.frame.kind == Frame::Kind::whole) kept += sizeof(Frame) + sent.payload.size();
        REQUIRE(kept - rank(to).freed[static_cast<std::size_t>(from)] <= limits_.window);
      }
      if (draw(3) == 0) {
        if (says) rank(to).reference.arrived(message, sent.frame.kind == Frame::Kind::whole);
        REQUIRE(rank(to).core.take(from, sent.frame, sent.payload));
        link(from, to).pop_front();
        return collect(to);
      }
      coming.told = rank(to).reference.awaits(message);
      if (says && coming.told) rank(to).reference.arrived(message, false);
      const auto into = rank(to).core.begin(from, sent.frame);
      REQUIRE(into);
      REQUIRE(into->size() == sent.payload.size());
      coming.into = *into;
      coming.begun = true;
      if (!sent.payload.empty() && draw(2) == 0) return;
    }
    std::copy(sent.payload.begin(), sent.payload.end(), coming.into.begin());
    if (says && !coming.told) rank(to).reference.arrived(message, false);
    coming.begun = false;
    rank(to).core.took(from);
    link(from, to).pop_front();
    collect(to);
  }

  void collect(int at) {
    for (const auto& finished : rank(at).core.finished()) {
      REQUIRE(finished.misfit.empty());
      const auto sent = rank(at).sends.find(finished.id);
      Call& call = sent != rank(at).sends.end() ? sent->second : rank(at).receives.at(finished.id);
      sent != rank(at).sends.end() ? end_send(call, finished.peer) : end_receive(at, call, finished.peer);
    }
  }

  static void end_send(Call& call, int peer) {
    REQUIRE(call.ended_with == -2);
    call.ended_with = peer;
    std::fill(call.data.begin(), call.data.end(), std::byte{0xEE});  // it is the caller's again
  }

  void end_receive(int at, Call& call, int peer) {
    REQUIRE(call.ended_with == -2);
    call.ended_with = peer;
    ++messages_;
    const auto& matched = rank(at).reference.matched;
    const auto found = std::find_if(matched.begin(), matched.end(), [&](auto& m) { return m.first == call.id; });
    REQUIRE(found != matched.end());
    REQUIRE(found->second.from == peer);
    REQUIRE(call.data == content(found->second.send * 7 + static_cast<std::uint64_t>(peer), call.data.size()));
  }

  const P2pCore::Limits limits_{256, 512, 2000};
  std::mt19937 random_;
  std::deque<Rank> ranks_;
  std::map<std::tuple<int, int, int>, int> sent_, received_;
  int messages_ = 0;
};

}  // namespace

TEST_CASE("each message goes where a plain list says, in any order of events") {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    World world(2 + static_cast<int>(seed % 3), seed);
    const auto calls = 20 + world.draw(300);
    for (std::size_t i = 0; i < calls; ++i) {
      world.random_call();
      for (auto steps = world.draw(6); steps > 0 && world.advance(); --steps) {
      }
    }
    world.settle();
    CHECK(world.messages() > 0);
    for (int r = 0; r < world.size(); ++r) {
      for (const auto& [id, call] : world.rank(r).sends) REQUIRE(call.ended_with == call.peer);
      for (const auto& [id, call] : world.rank(r).receives) REQUIRE(call.ended_with >= 0);
      for (int peer = P2pCore::kAny; peer < world.size(); ++peer) REQUIRE_FALSE(world.rank(r).core.waits_for(peer));
    }
  }
}

TEST_CASE("what is expected comes into place, and is taken for nothing else") {
  P2pCore sender(2, {}), receiver(2, {});
  const P2pCore::Label label{7, 1, "Float [2]"};
  const auto data = content(1, 8);
  std::vector<std::byte> into(8);
  P2pCore::Id id = 0;
  const auto send = [&](int tag, std::size_t bytes) {
    const auto whole = sender.whole(++id, 1, {tag, 1, "x"}, content(1, bytes), 4096);
    REQUIRE(whole);
    const auto sent = content(1, bytes);
    REQUIRE(receiver.take(0, whole->frame, sent));
  };
  receiver.expect(0, label, into);
  send(6, 8);
  CHECK_FALSE(receiver.is_settled());
  send(7, 8);
  CHECK(receiver.is_settled());
  CHECK(into == data);
  send(7, 8);  // the next one is kept
  CHECK(receiver.stop_expecting());
  CHECK(receiver.finished().empty());
  receiver.expect(0, label, into);
  CHECK(receiver.is_settled());
  CHECK_FALSE(receiver.stop_expecting());
  receiver.receive(++id, 0, label, into);
  REQUIRE(receiver.finished().size() == 1);
  // Of another size it is not its: a receive says so.
  receiver.expect(0, label, into);
  send(7, 4);
  CHECK(receiver.is_settled());
  send(7, 8);
  CHECK_FALSE(receiver.stop_expecting());
  receiver.receive(++id, 0, label, into);
  CHECK(receiver.finished().front().misfit == "x");
  // A receive goes before it, also one that was called later.
  receiver.receive(++id, 0, label, into);
  receiver.finished();
  std::vector<std::byte> other(8);
  receiver.expect(0, label, into);
  receiver.receive(++id, P2pCore::kAny, label, other);
  send(7, 8);
  CHECK_FALSE(receiver.stop_expecting());
  CHECK(receiver.finished().size() == 1);
}

TEST_CASE("a message goes at once only where nothing is before it and there is room") {
  const P2pCore::Limits limits{256, 512, 700};
  P2pCore sender(2, limits);
  const auto data = content(1, 200), large = content(1, 257);
  const P2pCore::Label label{0, 1, ""};
  CHECK_FALSE(sender.whole(1, 1, label, data, 199));
  CHECK_FALSE(sender.whole(1, 1, label, large, 4096));
  CHECK(sender.whole(1, 1, label, data, 200));
  sender.send(2, 1, label, data);
  CHECK_FALSE(sender.whole(3, 1, label, data, 4096));
  REQUIRE(sender.next(1, 512)->frame.kind == Frame::Kind::whole);
  CHECK_FALSE(sender.whole(3, 1, label, data, 4096));  // the window is used up
  CHECK_FALSE(sender.has_next(1));
}

TEST_CASE("what nobody receives stays at its sender beyond the window") {
  const P2pCore::Limits limits{256, 512, 2000};
  P2pCore sender(2, limits), receiver(2, limits);
  const auto data = content(1, 200);
  int whole = 0;
  for (P2pCore::Id id = 1; id <= 1000; ++id) {
    sender.send(id, 1, {0, 1, ""}, data);
    const auto next = sender.next(1, 256);
    REQUIRE(next);
    whole += next->frame.kind == Frame::Kind::whole ? 1 : 0;
    sender.gone(*next);
    REQUIRE(receiver.take(0, next->frame, next->payload));
  }
  CHECK(whole == 6);  // of 328 bytes each
  CHECK(sender.finished().size() == 6);
  CHECK(sender.waits_for(1) == P2pCore::Id{7});
}

TEST_CASE("what is received may be kept again, also where nothing else goes back") {
  const P2pCore::Limits limits{256, 512, 2000};
  P2pCore sender(2, limits), receiver(2, limits);
  const auto data = content(1, 200);
  std::vector<std::byte> into(200);
  int credits = 0;
  for (P2pCore::Id id = 1; id <= 1000; ++id) {
    sender.send(id, 1, {0, 1, ""}, data);
    const auto next = sender.next(1, 256);
    REQUIRE(next);
    REQUIRE(next->frame.kind == Frame::Kind::whole);
    REQUIRE(receiver.take(0, next->frame, next->payload));
    receiver.receive(id, 0, {0, 1, ""}, into);
    while (receiver.has_next(0)) {
      const auto back = receiver.next(0, 0);
      REQUIRE(back);
      REQUIRE(sender.take(1, back->frame, back->payload));
      ++credits;
    }
  }
  CHECK(credits == 500);  // a quarter of the window is more than one message and not more than two
}

TEST_CASE("a message of another size or type is told to its receiver alone, and copied nowhere") {
  P2pCore core(2, {});
  std::vector<std::byte> into(8, std::byte{1});
  const auto data = content(1, 16);
  const auto [bytes, type] = GENERATE(table<std::uint64_t, int>({{16, 7}, {4, 7}, {8, 6}}));
  core.receive(1, 0, {0, 7, "Float [2]"}, into);
  Frame frame;
  frame.kind = Frame::Kind::whole;
  frame.type = static_cast<std::uint8_t>(type);
  frame.bytes = frame.payload = bytes;
  std::memcpy(frame.text, "Float [4]", 10);
  REQUIRE(core.take(0, frame, std::span(data).first(bytes)));
  const auto finished = core.finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].misfit == "Float [4]");
  CHECK(into == std::vector<std::byte>(8, std::byte{1}));
  CHECK_FALSE(core.has_next(0));
}

TEST_CASE("more than fits into the window is refused, and so is what was never sent as free again") {
  const P2pCore::Limits limits{256, 512, 2000};
  P2pCore core(2, limits);
  const auto data = content(1, 200);
  Frame frame;
  frame.kind = Frame::Kind::whole;
  frame.bytes = frame.payload = data.size();
  for (int i = 0; i < 6; ++i) REQUIRE(core.take(0, frame, data));  // 328 bytes each
  CHECK_FALSE(core.take(0, frame, data));
  Frame credit;
  credit.kind = Frame::Kind::credit;
  CHECK(core.take(1, credit, {}));
  credit.returned = 1;
  CHECK_FALSE(core.take(1, credit, {}));
  core.send(1, 1, {0, 1, ""}, data);
  REQUIRE(core.next(1, 512));
  credit.returned = 328;
  CHECK(core.take(1, credit, {}));
  credit.returned = 100;
  CHECK_FALSE(core.take(1, credit, {}));
}

TEST_CASE("what an operation waits for") {
  P2pCore core(3, {});
  std::vector<std::byte> into(8);
  core.receive(1, P2pCore::kAny, {0, 1, ""}, into);
  core.receive(2, 2, {5, 1, ""}, into);
  core.send(3, 1, {0, 1, ""}, into);
  CHECK(core.waits_for(P2pCore::kAny) == P2pCore::Id{1});
  CHECK(core.waits_for(2) == P2pCore::Id{2});
  CHECK(core.waits_for(1) == P2pCore::Id{3});
  Frame offer;
  offer.kind = Frame::Kind::offer;
  offer.type = 1;
  offer.bytes = 8;
  REQUIRE(core.take(2, offer, {}));
  CHECK_FALSE(core.waits_for(P2pCore::kAny));
  CHECK(core.waits_for(2) == P2pCore::Id{1});
}

TEST_CASE("what grants a message that was not offered, or twice, is refused and changes nothing") {
  const P2pCore::Limits limits{256, 512, 2000};
  P2pCore core(3, limits);
  const auto data = content(1, 800), small = content(2, 8);
  core.send(1, 1, {0, 1, ""}, data);
  Frame grant;
  grant.kind = Frame::Kind::grant;
  grant.send = 1;
  grant.receive = 5;
  CHECK_FALSE(core.take(1, grant, {}));  // the offer is not on its way yet
  REQUIRE(core.next(1, 512)->frame.kind == Frame::Kind::offer);
  CHECK_FALSE(core.take(2, grant, {}));  // it went to another rank
  grant.send = 2;
  CHECK_FALSE(core.take(1, grant, {}));  // there is none
  core.send(2, 1, {0, 1, ""}, small);
  const auto first = core.next(1, 512);
  REQUIRE(first->frame.kind == Frame::Kind::whole);
  CHECK_FALSE(core.take(1, grant, {}));  // it went without being asked for
  CHECK_FALSE(core.has_next(1));
  grant.send = 1;
  CHECK(core.take(1, grant, {}));
  CHECK_FALSE(core.take(1, grant, {}));  // while it is sent
  CHECK(core.next(1, 512)->payload.size() == 512);
  const auto last = core.next(1, 512);
  CHECK(last->payload.size() == 288);
  CHECK_FALSE(core.take(1, grant, {}));  // and after
  CHECK_FALSE(core.has_next(1));
  CHECK(core.finished().empty());  // as long as their memory is read
  core.gone(*first);
  core.gone(*last);
  CHECK(core.finished().size() == 2);
}

TEST_CASE("a part that was not granted, or is more than was, is refused and changes nothing") {
  P2pCore core(3, {256, 512, 2000});
  std::vector<std::byte> into(800, std::byte{1});
  const auto data = content(1, 512);
  core.receive(4, 1, {0, 1, ""}, into);
  Frame part;
  part.kind = Frame::Kind::part;
  part.receive = 4;
  part.payload = 512;
  CHECK_FALSE(core.take(1, part, data));  // nothing was offered
  Frame offer;
  offer.kind = Frame::Kind::offer;
  offer.type = 1;
  offer.bytes = 800;
  REQUIRE(core.take(1, offer, {}));
  CHECK_FALSE(core.take(2, part, data));  // another rank's was granted
  part.receive = 5;
  CHECK_FALSE(core.take(1, part, data));  // there is none
  CHECK(into == std::vector<std::byte>(800, std::byte{1}));
  part.receive = 4;
  REQUIRE(core.take(1, part, data));
  CHECK_FALSE(core.take(1, part, data));  // 224 bytes too many
  CHECK(core.finished().empty());
  part.payload = 288;
  REQUIRE(core.take(1, part, std::span(data).first(288)));
  CHECK(core.finished().size() == 1);
  CHECK_FALSE(core.take(1, part, std::span(data).first(288)));  // it is complete
}
