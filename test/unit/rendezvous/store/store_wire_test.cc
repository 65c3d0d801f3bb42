// The store's wire format: bytes pinned as torch's client sends them, any cut of the stream, every refusal.
#include "rendezvous/store/store_wire.h"

#include <cctype>
#include <string>
#include <vector>

#include "test/support/catch.h"
#include "test/unit/rendezvous/store_bytes.h"

namespace {

using dtrain::StoreDecoder;
using dtrain::StoreOp;
using dtrain::StoreRequest;
using dtrain::StoreWireLimits;
namespace bytes = dtrain::store_bytes;

std::string from_hex(std::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits.push_back(c);
  }
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return out;
}

std::string describe(const StoreRequest& request) {
  std::string out = std::to_string(static_cast<int>(request.op)) + " " + std::to_string(request.word) + " " +
                    std::to_string(request.number);
  for (std::size_t i = 0; i < request.field_count(); ++i) out += " [" + std::string(request.field(i)) + "]";
  return out;
}

struct Decoded {
  std::vector<std::string> requests;
  std::string error;
};

// Feed the pieces one after the other; stop at the first error.
Decoded decode(const std::vector<std::string>& pieces, const StoreWireLimits& limits = {}) {
  StoreDecoder decoder(limits);
  Decoded decoded;
  for (const auto& piece : pieces) {
    std::string_view input = piece;
    auto status = decoder.next(input);
    for (; status == StoreDecoder::Status::request; status = decoder.next(input)) {
      decoded.requests.push_back(describe(decoder.request()));
    }
    decoded.error = decoder.error();
    if (status == StoreDecoder::Status::bad) break;
    REQUIRE(input.empty());
  }
  return decoded;
}

struct Sample {
  const char* name;
  const char* hex;
  const char* decoded;
};

const Sample kSamples[] = {
    {"PING", "0d db710000", "13 29147 0"},
    {"SET", "01 0200000000000000 2f6b 0100000000000000 76", "1 0 0 [/k] [v]"},
    {"COMPARE_SET", "02 0200000000000000 2f6b 0000000000000000 0100000000000000 77", "2 0 0 [/k] [] [w]"},
    {"GET", "03 0200000000000000 2f6b", "3 0 0 [/k]"},
    {"ADD", "04 0200000000000000 2f6e 0500000000000000", "4 0 5 [/n]"},
    {"ADD of -1", "04 0200000000000000 2f6e ffffffffffffffff", "4 0 -1 [/n]"},
    {"CHECK", "05 0100000000000000 0200000000000000 2f6b", "5 0 0 [/k]"},
    {"CHECK of nothing", "05 0000000000000000", "5 0 0"},
    {"WAIT", "06 0100000000000000 0200000000000000 2f6b", "6 0 0 [/k]"},
    {"WAIT for two", "06 0200000000000000 0100000000000000 61 0100000000000000 62", "6 0 0 [a] [b]"},
    {"GETNUMKEYS", "07", "7 0 0"},
    {"DELETE_KEY", "08 0200000000000000 2f6b", "8 0 0 [/k]"},
    {"APPEND", "09 0200000000000000 2f6b 0100000000000000 76", "9 0 0 [/k] [v]"},
    {"MULTI_GET", "0a 0200000000000000 0100000000000000 61 0100000000000000 62", "10 0 0 [a] [b]"},
    {"MULTI_SET",
     "0b 0200000000000000 0100000000000000 61 0100000000000000 31 0100000000000000 62 0200000000000000 3232",
     "11 0 0 [a] [1] [b] [22]"},
    {"MULTI_SET of nothing", "0b 0000000000000000", "11 0 0"},
    {"CANCEL_WAIT", "0c", "12 0 0"},
    {"QUEUE_PUSH", "0e 0200000000000000 2f71 0100000000000000 76", "14 0 0 [/q] [v]"},
    {"QUEUE_POP", "0f 0200000000000000 2f71", "15 0 0 [/q]"},
    {"QUEUE_LEN", "10 0200000000000000 2f71", "16 0 0 [/q]"},
    {"LIST_KEYS", "11", "17 0 0"},
    {"BARRIER", "12 0200000000000000 2f62 0400000000000000", "18 0 4 [/b]"},
};

std::string greeting() { return from_hex("00 cef7853c"); }
const char* const kGreetingDecoded = "0 1015412686 0";

}  // namespace

TEST_CASE("store wire: every operation decodes from torch's bytes") {
  for (const auto& sample : kSamples) {
    CAPTURE(sample.name);
    const Decoded decoded = decode({greeting() + from_hex(sample.hex)});
    CHECK(decoded.error.empty());
    CHECK(decoded.requests == std::vector<std::string>{kGreetingDecoded, sample.decoded});
  }
}

TEST_CASE("store wire: a stream of all operations decodes alike however it is cut in two") {
  std::string stream = greeting();
  std::vector<std::string> expected = {kGreetingDecoded};
  for (const auto& sample : kSamples) {
    stream += from_hex(sample.hex);
    expected.emplace_back(sample.decoded);
  }
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    CAPTURE(cut);
    const Decoded decoded = decode({stream.substr(0, cut), stream.substr(cut)});
    REQUIRE(decoded.error.empty());
    REQUIRE(decoded.requests == expected);
  }
  std::vector<std::string> single;
  for (const char c : stream) single.emplace_back(1, c);
  CHECK(decode(single).requests == expected);
}

TEST_CASE("store wire: the tests' own encoder makes torch's bytes") {
  CHECK(bytes::greeting() == greeting());
  CHECK(bytes::set("/k", "v") == from_hex(kSamples[1].hex));
  CHECK(bytes::add("/n", -1) == from_hex(kSamples[5].hex));
  CHECK(bytes::wait({"a", "b"}) == from_hex(kSamples[9].hex));
  CHECK(bytes::multi_set({{"a", "1"}, {"b", "22"}}) == from_hex(kSamples[14].hex));
  CHECK(bytes::barrier("/b", 4) == from_hex("12 0200000000000000 2f62 0400000000000000"));
}

TEST_CASE("store wire: only a store client's greeting gets in") {
  CHECK(decode({"GET / HTTP/1.1\r\n"}).error == "first byte is 0x47, not a store client's greeting");
  CHECK(decode({bytes::ping(1)}).error == "first byte is 0x0d, not a store client's greeting");
  CHECK(decode({from_hex("00 00000000")}).error == "greeting has the wrong magic word");
  CHECK(decode({from_hex("00 cef785")}).error.empty());
  CHECK(decode({greeting() + greeting()}).error == "greeting sent twice");
  CHECK(decode({greeting() + from_hex("13")}).error == "unknown operation 19");
  CHECK(decode({greeting() + from_hex("ff")}).error == "unknown operation 255");
}

TEST_CASE("store wire: requests before the fault are still delivered, nothing after it") {
  StoreDecoder decoder;
  const std::string stream = greeting() + bytes::set("a", "b") + "\xff" + bytes::set("c", "d");
  std::string_view input = stream;
  CHECK(decoder.next(input) == StoreDecoder::Status::request);
  CHECK(decoder.next(input) == StoreDecoder::Status::request);
  CHECK(decoder.next(input) == StoreDecoder::Status::bad);
  CHECK(decoder.next(input) == StoreDecoder::Status::bad);
  CHECK(decoder.validated());
}

TEST_CASE("store wire: lengths are refused before anything is allocated") {
  const std::string key_too_long = greeting() + bytes::op(StoreOp::get) + bytes::i64(8193);
  CHECK(decode({key_too_long}).error == "key of 8193 bytes, at most 8192 are allowed");
  CHECK(decode({greeting() + bytes::get(std::string(8192, 'k'))}).requests.size() == 2);

  const std::string value_too_long =
      greeting() + bytes::op(StoreOp::set) + bytes::text("k") + bytes::i64((8 << 20) + 1);
  CHECK(decode({value_too_long}).error == "value of 8388609 bytes, at most 8388608 are allowed");
  CHECK(decode({greeting() + bytes::set("k", std::string(8 << 20, 'v'))}).requests.size() == 2);

  const std::string negative = greeting() + bytes::op(StoreOp::get) + bytes::i64(-1);
  CHECK(decode({negative}).error == "key of 18446744073709551615 bytes, at most 8192 are allowed");

  const std::string too_many = greeting() + bytes::op(StoreOp::multi_get) + bytes::i64(131073);
  CHECK(decode({too_many}).error == "131073 keys in one request, at most 131072 are allowed");

  StoreWireLimits small;
  small.request_bytes = 10;
  const std::string pair = greeting() + bytes::multi_set({{"key1", "val1"}, {"key2", "val2"}});
  CHECK(decode({pair}, small).error == "request of more than 10 bytes");
}

TEST_CASE("store wire: an announced length takes no memory before its bytes come") {
  StoreDecoder decoder;
  const std::string stream = greeting() + bytes::op(StoreOp::set) + bytes::text("k") + bytes::i64(8 << 20) + "v";
  std::string_view input = stream;
  while (decoder.next(input) == StoreDecoder::Status::request) {
  }
  CHECK(decoder.held_bytes() < 4096);
}

TEST_CASE("store wire: 60,000 keys in one request, in pieces of 4 KiB, are linear work") {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (int i = 0; i < 60000; ++i) pairs.emplace_back("/key/" + std::to_string(i), "value of " + std::to_string(i));
  const std::string stream = greeting() + bytes::multi_set(pairs);
  StoreDecoder decoder;
  std::size_t requests = 0;
  std::size_t calls = 0;
  for (std::size_t at = 0; at < stream.size(); at += 4096) {
    std::string_view input = std::string_view(stream).substr(at, 4096);
    for (++calls; decoder.next(input) == StoreDecoder::Status::request; ++calls) ++requests;
    // A decoder that started over would hold on to its input instead.
    REQUIRE(input.empty());
  }
  CHECK(requests == 2);
  CHECK(calls == (stream.size() + 4095) / 4096 + 2);
  REQUIRE(decoder.request().op == StoreOp::multi_set);
  // A further call with nothing to do gives the memory back.
  std::string_view nothing;
  CHECK(decoder.next(nothing) == StoreDecoder::Status::need_more);
  CHECK(decoder.held_bytes() < 65536);
}

TEST_CASE("store wire: replies") {
  std::string out;
  dtrain::put_store_i64(out, 5);
  dtrain::put_store_u32(out, 29147);
  dtrain::put_store_bytes(out, "v");
  CHECK(out == from_hex("0500000000000000 db710000 0100000000000000 76"));
}
