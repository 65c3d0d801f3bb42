// What the store does with requests: values, counters, queues, waits, barriers, limits. Each case talks to a core
// through the real decoder, as connections do.
#include "rendezvous/store/store_core.h"

#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "test/support/catch.h"
#include "test/unit/rendezvous/store_bytes.h"

namespace {

using dtrain::ConnectionId;
using dtrain::StoreActions;
using dtrain::StoreCore;
using dtrain::StoreCoreLimits;
using dtrain::StoreDecoder;
using dtrain::StoreOp;
namespace bytes = dtrain::store_bytes;

const std::string kGo(1, '\0');
const std::string kCanceled(1, '\1');

struct Store {
  explicit Store(const StoreCoreLimits& limits = {}) : core(limits) {}

  // Send one message from `connection`; collect what everybody receives. Returns what the sender receives.
  std::string send(ConnectionId connection, const std::string& message) {
    received.clear();
    closed.clear();
    StoreDecoder decoder;
    const std::string stream = bytes::greeting() + message;
    std::string_view input = stream;
    StoreActions actions;
    while (decoder.next(input) == StoreDecoder::Status::request) core.apply(connection, decoder.request(), actions);
    REQUIRE(decoder.error().empty());
    sends = actions.send_count();
    for (std::size_t i = 0; i < sends; ++i) received[actions.send_to(i)] += actions.send_bytes(i);
    for (const auto& close : actions.closes()) closed[close.connection] = close.reason;
    REQUIRE(core.consistent());
    return received[connection];
  }

  StoreCore core;
  std::size_t sends = 0;
  std::map<ConnectionId, std::string> received;
  std::map<ConnectionId, std::string> closed;
};

std::string check(const std::vector<std::string>& names) { return bytes::keys(StoreOp::check, names); }
std::string push(const char* key, const char* value) { return bytes::fields(StoreOp::queue_push, {key, value}); }
std::string pop(const char* key) { return bytes::fields(StoreOp::queue_pop, {key}); }

}  // namespace

TEST_CASE("store core: set and get, missing keys read as empty") {
  Store store;
  CHECK(store.send(1, bytes::set("k", "v")).empty());
  CHECK(store.send(2, bytes::get("k")) == bytes::text("v"));
  CHECK(store.send(2, bytes::get("missing")) == bytes::text(""));
  CHECK(store.send(1, bytes::set("k", std::string(100000, 'x'))).empty());
  CHECK(store.send(1, bytes::set("k", "")).empty());
  CHECK(store.send(1, bytes::get("k")) == bytes::text(""));
  CHECK(store.send(1, check({"k"})) == kGo);
  CHECK(store.send(1, bytes::ping(77)) == bytes::u32(77));
}

TEST_CASE("store core: add keeps decimal text") {
  Store store;
  CHECK(store.send(1, bytes::add("n", 5)) == bytes::i64(5));
  CHECK(store.send(1, bytes::add("n", -7)) == bytes::i64(-2));
  CHECK(store.send(1, bytes::get("n")) == bytes::text("-2"));
  store.send(1, bytes::set("n", "40"));
  CHECK(store.send(1, bytes::add("n", 2)) == bytes::i64(42));
}

TEST_CASE("store core: add to what is no number, or past 64 bits, closes the connection and changes nothing") {
  Store store;
  for (const char* bad : {"abc", "", "12x", " 1", "99999999999999999999"}) {
    CAPTURE(bad);
    store.send(1, bytes::set("n", bad));
    CHECK(store.send(1, bytes::add("n", 1)).empty());
    CHECK(store.closed[1] == "ADD to a value that is not a number");
    CHECK(store.send(2, bytes::get("n")) == bytes::text(bad));
  }
  store.send(1, bytes::set("n", "9223372036854775807"));
  store.send(1, bytes::add("n", 1));
  CHECK(store.closed[1] == "ADD overflows a 64-bit number");
}

TEST_CASE("store core: compare_set") {
  Store store;
  const auto compare_set = [](const char* expected, const char* desired) {
    return bytes::fields(StoreOp::compare_set, {"k", expected, desired});
  };
  CHECK(store.send(1, compare_set("other", "new")) == bytes::text("other"));
  CHECK(store.send(1, check({"k"})) == kCanceled);  // 1: not there
  CHECK(store.send(1, compare_set("", "first")) == bytes::text("first"));
  CHECK(store.send(1, compare_set("other", "new")) == bytes::text("first"));
  CHECK(store.send(1, compare_set("", "new")) == bytes::text("first"));
  CHECK(store.send(1, compare_set("first", "second")) == bytes::text("second"));
  CHECK(store.send(1, bytes::get("k")) == bytes::text("second"));
}

TEST_CASE("store core: append, delete, number and list of keys") {
  Store store;
  store.send(1, bytes::fields(StoreOp::append, {"k", "ab"}));
  store.send(1, bytes::fields(StoreOp::append, {"k", "cd"}));
  CHECK(store.send(1, bytes::get("k")) == bytes::text("abcd"));
  CHECK(store.send(1, bytes::op(StoreOp::num_keys)) == bytes::i64(1));
  CHECK(store.send(1, bytes::op(StoreOp::list_keys)) == bytes::i64(1) + bytes::text("k"));
  CHECK(store.send(1, bytes::fields(StoreOp::delete_key, {"k"})) == bytes::i64(1));
  CHECK(store.send(1, bytes::fields(StoreOp::delete_key, {"k"})) == bytes::i64(0));
  CHECK(store.send(1, bytes::op(StoreOp::list_keys)) == bytes::i64(0));
  CHECK(store.core.bytes() == 0);
}

TEST_CASE("store core: multi_set and multi_get keep order, a missing key reads as empty") {
  Store store;
  CHECK(store.send(1, bytes::multi_set({{"a", "1"}, {"b", "22"}, {"a", "3"}})).empty());
  CHECK(store.send(1, bytes::keys(StoreOp::multi_get, {"b", "x", "a"})) ==
        bytes::text("22") + bytes::text("") + bytes::text("3"));
  CHECK(store.send(1, bytes::keys(StoreOp::multi_get, {})).empty());
  CHECK(store.sends == 0);
}

TEST_CASE("store core: check") {
  Store store;
  store.send(1, bytes::set("a", ""));
  CHECK(store.send(1, check({"a"})) == kGo);
  CHECK(store.send(1, check({})) == kGo);
  CHECK(store.send(1, check({"a", "b"})) == kCanceled);
  store.send(1, push("b", "item"));
  CHECK(store.send(1, check({"a", "b"})) == kGo);
}

TEST_CASE("store core: wait returns at once when all keys are there") {
  Store store;
  store.send(1, bytes::set("a", "1"));
  store.send(1, push("q", "item"));
  CHECK(store.send(1, bytes::wait({})) == kGo);
  CHECK(store.send(1, bytes::wait({"a", "q"})) == kGo);
  CHECK(store.core.waiting_connections() == 0);
}

TEST_CASE("store core: wait ends with the last missing key, whatever writes it") {
  const std::vector<std::string> writes = {bytes::set("b", "1"),
                                           bytes::add("b", 1),
                                           bytes::fields(StoreOp::append, {"b", "1"}),
                                           bytes::multi_set({{"x", "1"}, {"b", "1"}}),
                                           bytes::fields(StoreOp::compare_set, {"b", "", "1"}),
                                           push("b", "1")};
  for (const auto& write : writes) {
    Store store;
    CHECK(store.send(1, bytes::wait({"a", "b", "b"})).empty());
    CHECK(store.send(2, bytes::wait({"b"})).empty());
    store.send(3, bytes::set("a", "1"));
    CHECK(store.received[1].empty());
    store.send(3, write);
    if (write == writes.back()) {
      CHECK(store.received[2].empty());  // a queue wakes the longest waiter only, once for each item
      store.send(3, write);
    }
    CHECK(store.received[1] == kGo);
    if (write == writes.back()) store.send(3, write);
    CHECK(store.received[2] == kGo);
    CHECK(store.core.waiting_connections() == 0);
  }
}

TEST_CASE("store core: a key deleted after it woke a wait is not asked for again") {
  Store store;
  store.send(1, bytes::wait({"a", "b"}));
  store.send(2, bytes::set("a", "1"));
  store.send(2, bytes::fields(StoreOp::delete_key, {"a"}));
  store.send(2, bytes::set("b", "1"));
  CHECK(store.received[1] == kGo);
}

TEST_CASE("store core: cancel_wait answers always, after a wake-up that came first") {
  Store store;
  CHECK(store.send(1, bytes::op(StoreOp::cancel_wait)) == kCanceled);
  store.send(1, bytes::wait({"a"}));
  CHECK(store.send(1, bytes::op(StoreOp::cancel_wait)) == kCanceled);
  CHECK(store.core.waiting_connections() == 0);
  store.send(2, bytes::set("a", "1"));
  CHECK(store.received[1].empty());

  store.send(1, bytes::wait({"b"}));
  store.send(2, bytes::set("b", "1"));
  CHECK(store.received[1] == kGo);
  CHECK(store.send(1, bytes::op(StoreOp::cancel_wait)) == kCanceled);
}

TEST_CASE("store core: a second wait during a wait closes the connection") {
  Store store;
  store.send(1, bytes::wait({"a"}));
  store.send(1, bytes::wait({"b"}));
  CHECK(store.closed[1] == "WAIT or BARRIER while another one is under way");
  CHECK(store.core.waiting_connections() == 0);
  CHECK(store.core.bytes() == 0);
}

TEST_CASE("store core: a lost connection leaves no wait behind") {
  Store store;
  for (ConnectionId id = 1; id <= 100; ++id) store.send(id, bytes::wait({"a", "a", "b" + std::to_string(id)}));
  store.send(200, bytes::barrier("gate", 3));
  for (ConnectionId id = 1; id <= 100; ++id) store.core.disconnect(id);
  store.core.disconnect(200);
  store.core.disconnect(12345);
  CHECK(store.core.waiting_connections() == 0);
  CHECK(store.core.consistent());
  CHECK(store.send(1, bytes::fields(StoreOp::delete_key, {"gate"})) == bytes::i64(1));
  CHECK(store.core.bytes() == 0);
}

TEST_CASE("store core: queues are first in, first out, and apart from the keys") {
  Store store;
  CHECK(store.send(1, pop("q")) == bytes::i64(0));
  store.send(1, push("q", "one"));
  store.send(1, push("q", "two"));
  CHECK(store.send(1, bytes::fields(StoreOp::queue_len, {"q"})) == bytes::i64(2));
  CHECK(store.send(1, bytes::op(StoreOp::num_keys)) == bytes::i64(0));
  CHECK(store.send(1, bytes::fields(StoreOp::delete_key, {"q"})) == bytes::i64(0));
  CHECK(store.send(1, pop("q")) == bytes::i64(2) + bytes::text("one"));
  CHECK(store.send(1, pop("q")) == bytes::i64(1) + bytes::text("two"));
  CHECK(store.send(1, bytes::fields(StoreOp::queue_len, {"q"})) == bytes::i64(0));
  CHECK(store.core.bytes() == 0);
}

TEST_CASE("store core: one item wakes one waiter, longest first, and forgets it") {
  Store store;
  store.send(1, bytes::wait({"q"}));
  store.send(2, bytes::wait({"q"}));
  store.send(3, push("q", "item"));
  CHECK(store.received[1] == kGo);
  CHECK(store.received[2].empty());
  CHECK(store.core.waiting_connections() == 1);
  store.send(3, push("q", "item"));
  CHECK(store.received[1].empty());
  CHECK(store.received[2] == kGo);
}

TEST_CASE("store core: barrier lets all go when the last arrives, and late callers at once") {
  Store store;
  CHECK(store.send(1, bytes::barrier("gate", 3)).empty());
  CHECK(store.send(2, bytes::barrier("gate", 3)).empty());
  CHECK(store.send(3, bytes::barrier("gate", 3)) == kGo);
  CHECK(store.received[1] == kGo);
  CHECK(store.received[2] == kGo);
  CHECK(store.send(4, bytes::barrier("gate", 3)) == kGo);
  CHECK(store.send(4, bytes::get("gate")) == bytes::text("4"));
}

TEST_CASE("store core: a cancelled barrier still counts its caller") {
  Store store;
  store.send(1, bytes::barrier("gate", 2));
  CHECK(store.send(1, bytes::op(StoreOp::cancel_wait)) == kCanceled);
  CHECK(store.send(2, bytes::barrier("gate", 2)) == kGo);
  CHECK(store.received[1].empty());
  store.send(1, bytes::set("text", "x"));
  store.send(1, bytes::barrier("text", 2));
  CHECK(store.closed[1] == "BARRIER at a key that is not a counter");
}

TEST_CASE("store core: a full store refuses, keeps its word and works on") {
  StoreCoreLimits limits;
  limits.bytes = 4096;
  limits.keys = 4;
  Store store(limits);
  store.send(1, bytes::set("a", std::string(3000, 'x')));
  store.send(1, bytes::set("b", std::string(3000, 'x')));
  CHECK(store.closed[1] == "store is full (bytes)");
  store.send(1, bytes::multi_set({{"b", "1"}, {"c", std::string(2000, 'x')}}));
  CHECK(store.closed[1] == "store is full (bytes)");
  CHECK(store.send(1, check({"b"})) == kCanceled);
  for (const auto& refused : {bytes::fields(StoreOp::append, {"a", std::string(2000, 'y')}),
                              bytes::set("a", std::string(5000, 'z')), bytes::wait({std::string(2000, 'w')}),
                              bytes::barrier(std::string(2000, 'g'), 2), push("q", std::string(2000, 'i').c_str())}) {
    store.send(1, refused);
    CHECK(store.closed[1] == "store is full (bytes)");
  }
  CHECK(store.send(1, bytes::get("a")) == bytes::text(std::string(3000, 'x')));
  store.send(1, bytes::set("a", "small again"));
  CHECK(store.core.bytes() < 500);
  for (const char* key : {"b", "c", "d"}) store.send(1, bytes::set(key, ""));
  CHECK(store.closed.empty());
  store.send(1, bytes::set("e", ""));
  CHECK(store.closed[1] == "store is full (number of keys)");
  store.send(1, push("q", "item"));
  CHECK(store.closed[1] == "store is full (number of keys)");
}

TEST_CASE("store core: a reply beyond the limit is refused before it is built") {
  StoreCoreLimits limits;
  limits.reply_bytes = 1000;
  Store store(limits);
  store.send(1, bytes::set("a", std::string(400, 'x')));
  CHECK(store.send(1, bytes::keys(StoreOp::multi_get, {"a", "a"})).size() == 816);
  store.send(1, bytes::keys(StoreOp::multi_get, {"a", "a", "a"}));
  CHECK(store.closed[1] == "reply would be too large");
  store.send(1, bytes::set(std::string(1200, 'k'), ""));
  store.send(1, bytes::op(StoreOp::list_keys));
  CHECK(store.closed[1] == "reply would be too large");
}

TEST_CASE("store core: replies count as values do, and a small one is never refused for what others do not read") {
  StoreCoreLimits limits;
  limits.bytes = std::size_t{1} << 20;
  limits.reserve = std::size_t{1} << 20;
  StoreCore core(limits);
  const auto send = [&](const std::string& message, std::size_t held, std::size_t room) {
    StoreDecoder decoder;
    const std::string stream = bytes::greeting() + message;
    std::string_view input = stream;
    StoreActions actions;
    actions.allow(held, room);
    while (decoder.next(input) == StoreDecoder::Status::request) core.apply(1, decoder.request(), actions);
    return actions.closes().empty() ? std::to_string(actions.size()) : actions.closes().front().reason;
  };
  const std::size_t kib = 1024, large = 400 * kib, all = std::numeric_limits<std::size_t>::max();
  CHECK(send(bytes::set("large", std::string(large, 'x')), 0, all) == "0");
  CHECK(send(bytes::set("small", "y"), 0, all) == "0");
  const std::string no_room = "no room for its reply: too many replies are not read";
  // 400 KiB are stored, 2 MiB may be there, and a reply is there twice while it is made.
  CHECK(send(bytes::get("large"), 0, all) == std::to_string(large + 8));
  CHECK(send(bytes::get("large"), 800 * kib, all) == std::to_string(large + 8));
  CHECK(send(bytes::get("large"), 900 * kib, all) == no_room);
  CHECK(send(bytes::get("large"), 0, large) == no_room);
  CHECK(send(bytes::get("large") + bytes::get("large"), 0, all) == std::to_string(2 * (large + 8)));
  CHECK(send(bytes::get("large") + bytes::get("large") + bytes::get("large"), 0, all) == no_room);
  CHECK(send(bytes::fields(StoreOp::compare_set, {"large", "", "z"}), 900 * kib, all) == no_room);
  CHECK(send(bytes::get("large"), 0, all) == std::to_string(large + 8));  // nothing was written
  CHECK(send(bytes::get("small"), 5000 * kib, 0) == "9");
}
