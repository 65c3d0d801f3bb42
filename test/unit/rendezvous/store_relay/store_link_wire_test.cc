// The frames of the store link: what is put is what is taken, however it is cut, and nonsense is refused.
#include "rendezvous/store_relay/store_link_wire.h"

#include <string>
#include <vector>

#include "test/support/catch.h"

namespace {

using dtrain::kStoreLinkDataBytes;
using dtrain::kStoreLinkGreeting;
using dtrain::put_store_link_frame;
using dtrain::StoreLinkDecoder;
using dtrain::StoreLinkType;

struct Frame {
  StoreLinkType type;
  std::uint64_t number;
  std::string payload;
  bool operator==(const Frame&) const = default;
};

// All frames of a stream that comes in pieces of `cut` bytes; the pieces of a data frame are put together again.
std::vector<Frame> decode(const std::string& stream, std::size_t cut, std::string& error, bool edge = false) {
  StoreLinkDecoder decoder(edge);
  std::vector<Frame> frames;
  for (std::size_t at = 0; at < stream.size(); at += cut) {
    std::string_view input = std::string_view(stream).substr(at, cut);
    auto status = decoder.next(input);
    for (; status == StoreLinkDecoder::Status::frame; status = decoder.next(input)) {
      const auto& frame = decoder.frame();
      const bool more = frame.type == StoreLinkType::data && !frames.empty() &&
                        frames.back().type == StoreLinkType::data && frames.back().number == frame.number;
      if (more) {
        frames.back().payload += frame.payload;
      } else {
        frames.push_back({frame.type, frame.number, std::string(frame.payload)});
      }
    }
    error = decoder.error();
    if (status == StoreLinkDecoder::Status::bad) break;
    REQUIRE(input.empty());
  }
  return frames;
}

std::string refusal(const std::string& stream) {
  std::string error;
  decode(stream, stream.size(), error);
  return error;
}

std::string header(std::uint32_t size, int type) {
  std::string out(kStoreLinkGreeting);
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  return out.append(1, static_cast<char>(type)).append(8, '\0');
}

}  // namespace

TEST_CASE("store link wire: frames come back as they were put, however they are cut") {
  const std::string large(kStoreLinkDataBytes + 5, 'x');
  std::string stream(kStoreLinkGreeting);
  put_store_link_frame(stream, StoreLinkType::hello, 7);
  put_store_link_frame(stream, StoreLinkType::welcome, 7);
  put_store_link_frame(stream, StoreLinkType::open, ~std::uint64_t{0});
  put_store_link_frame(stream, StoreLinkType::data, 1, "abc");
  put_store_link_frame(stream, StoreLinkType::data, 2, large);
  put_store_link_frame(stream, StoreLinkType::data, 3, "");  // nothing
  put_store_link_frame(stream, StoreLinkType::closed, 1, "why");
  put_store_link_frame(stream, StoreLinkType::closed, 2);
  put_store_link_frame(stream, StoreLinkType::refused, 0, std::string(5000, 'r'));
  const std::vector<Frame> expected = {{StoreLinkType::hello, 7, ""},
                                       {StoreLinkType::welcome, 7, ""},
                                       {StoreLinkType::open, ~std::uint64_t{0}, ""},
                                       {StoreLinkType::data, 1, "abc"},
                                       {StoreLinkType::data, 2, large},
                                       {StoreLinkType::closed, 1, "why"},
                                       {StoreLinkType::closed, 2, ""},
                                       {StoreLinkType::refused, 0, std::string(1024, 'r')}};
  for (const std::size_t cut : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, stream.size()}) {
    std::string error;
    CHECK(decode(stream, cut, error) == expected);
    CHECK(error.empty());
  }
}

TEST_CASE("store link wire: a payload that comes again is given out again, at an edge") {
  for (const std::size_t size : {std::size_t{64}, dtrain::kStoreLinkAgainMost}) {
    const std::string value(size, 'v');
    std::string stream(kStoreLinkGreeting);
    put_store_link_frame(stream, StoreLinkType::data, 1, value);
    put_store_link_frame(stream, StoreLinkType::again, 2);
    put_store_link_frame(stream, StoreLinkType::closed, 2, "why");
    put_store_link_frame(stream, StoreLinkType::again, 3, "no payload");
    const std::vector<Frame> expected = {{StoreLinkType::data, 1, value},
                                         {StoreLinkType::data, 2, value},
                                         {StoreLinkType::closed, 2, "why"},
                                         {StoreLinkType::data, 3, value}};
    for (const std::size_t cut : {std::size_t{1}, std::size_t{1000}, stream.size()}) {
      std::string error;
      CHECK(decode(stream, cut, error, true) == expected);
      CHECK(error.empty());
      CHECK(decode(stream, cut, error).size() == 1);
      CHECK(error == "unknown frame 7 on the store link");
    }
    // Of a larger one nothing was kept.
    put_store_link_frame(stream, StoreLinkType::data, 4, std::string(dtrain::kStoreLinkAgainMost + 1, 'v'));
    put_store_link_frame(stream, StoreLinkType::again, 5);
    std::string error;
    CHECK(decode(stream, stream.size(), error, true).size() == 5);
    CHECK(error == "`again` on the store link, with nothing before it");
  }
}

TEST_CASE("store link wire: the first byte is neither TCPStore's nor the agent link's") {
  CHECK(kStoreLinkGreeting.front() != '\0');
  CHECK(kStoreLinkGreeting.front() != '\xD7');
}

TEST_CASE("store link wire: nonsense is refused before it is kept") {
  CHECK(refusal("GET / HTTP/1.1\r\n") == "it does not speak dtrain's store link");
  CHECK(refusal("\xD8"
                "dstore\x01") == "it speaks version 1 of the store link, not 2: use the same dtrain on all nodes");
  CHECK(refusal(header(0, 0)) == "unknown frame 0 on the store link");
  CHECK(refusal(header(0, 7)) == "unknown frame 7 on the store link");
  CHECK(refusal(header(1, 1)) == "frame 1 of 1 bytes on the store link, at most 0 are allowed");
  CHECK(refusal(header(1025, 6)) == "frame 6 of 1025 bytes on the store link, at most 1024 are allowed");
  CHECK(refusal(header(0, 5)) == "frame 5 of 0 bytes on the store link, at most 1048576 are allowed");
  CHECK(refusal(header(0xFFFFFFFF, 5)) == "frame 5 of 4294967295 bytes on the store link, at most 1048576 are allowed");
}
