#include "rendezvous/store_relay/store_link_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace dtrain {
namespace {

static_assert(std::endian::native == std::endian::little, "the store link's format is little-endian");

bool has_text(StoreLinkType type) { return type == StoreLinkType::refused || type == StoreLinkType::closed; }

void put_one(std::string& out, StoreLinkType type, std::uint64_t number, std::string_view payload) {
  std::array<char, kStoreLinkHeaderBytes> header;
  const auto size = static_cast<std::uint32_t>(payload.size());
  std::memcpy(header.data(), &size, sizeof size);
  header[sizeof size] = static_cast<char>(type);
  std::memcpy(header.data() + sizeof size + 1, &number, sizeof number);
  out.append(header.data(), header.size()).append(payload);
}

}  // namespace

void put_store_link_frame(std::string& out, StoreLinkType type, std::uint64_t number, std::string_view payload) {
  if (type != StoreLinkType::data) {
    return put_one(out, type, number, has_text(type) ? payload.substr(0, kStoreLinkTextBytes) : std::string_view());
  }
  // Growing step by step would copy a large reply several times.
  out.reserve(out.size() + payload.size() + (payload.size() / kStoreLinkDataBytes + 1) * kStoreLinkHeaderBytes);
  while (!payload.empty()) {
    put_one(out, type, number, payload.substr(0, kStoreLinkDataBytes));
    payload.remove_prefix(std::min(payload.size(), kStoreLinkDataBytes));
  }
}

StoreLinkDecoder::Status StoreLinkDecoder::next(std::string_view& input) {
  if (!error_.empty()) return Status::bad;
  if (greeted_ < kStoreLinkGreeting.size() && !greeting(input)) return error_.empty() ? Status::need_more : Status::bad;
  if (header_have_ < kStoreLinkHeaderBytes && !header(input)) return error_.empty() ? Status::need_more : Status::bad;

  if (frame_.type == StoreLinkType::again) return repeat();
  const std::string_view piece = input.substr(0, left_);
  input.remove_prefix(piece.size());
  left_ -= piece.size();
  if (frame_.type == StoreLinkType::data) {
    if (piece.empty()) return Status::need_more;
    frame_.payload = piece;
    if (edge_ && last_.size() + piece.size() + left_ <= kStoreLinkAgainMost) last_.append(piece);
  } else {
    text_.append(piece);
    if (left_ > 0) return Status::need_more;
    frame_.payload = text_;
  }
  if (left_ == 0) header_have_ = 0;
  return Status::frame;
}

bool StoreLinkDecoder::greeting(std::string_view& input) {
  while (greeted_ < kStoreLinkGreeting.size() && !input.empty()) {
    const char got = input.front();
    if (got != kStoreLinkGreeting[greeted_]) {
      if (greeted_ + 1 == kStoreLinkGreeting.size()) {
        fail(fmt::format("it speaks version {} of the store link, not {}: use the same dtrain on all nodes",
                         static_cast<unsigned char>(got), static_cast<unsigned char>(kStoreLinkGreeting.back())));
      } else {
        fail("it does not speak dtrain's store link");
      }
      return false;
    }
    ++greeted_;
    input.remove_prefix(1);
  }
  return greeted_ == kStoreLinkGreeting.size();
}

// True: a header is complete and makes sense.
bool StoreLinkDecoder::header(std::string_view& input) {
  const std::size_t count = std::min(kStoreLinkHeaderBytes - header_have_, input.size());
  input.copy(header_.data() + header_have_, count);  // of an empty one too
  header_have_ += count;
  input.remove_prefix(count);
  if (header_have_ < kStoreLinkHeaderBytes) return false;

  std::uint32_t size = 0;
  std::memcpy(&size, header_.data(), sizeof size);
  const auto type = static_cast<unsigned char>(header_[sizeof size]);
  std::memcpy(&frame_.number, header_.data() + sizeof size + 1, sizeof frame_.number);
  const auto last = edge_ ? StoreLinkType::again : StoreLinkType::closed;
  if (type < static_cast<unsigned char>(StoreLinkType::hello) || type > static_cast<unsigned char>(last)) {
    fail(fmt::format("unknown frame {} on the store link", type));
    return false;
  }
  frame_.type = static_cast<StoreLinkType>(type);
  const bool data = frame_.type == StoreLinkType::data;
  const std::size_t most = data ? kStoreLinkDataBytes : has_text(frame_.type) ? kStoreLinkTextBytes : 0;
  if (size > most || (data && size == 0)) {
    fail(fmt::format("frame {} of {} bytes on the store link, at most {} are allowed", type, size, most));
    return false;
  }
  left_ = size;
  text_.clear();
  if (data) last_.clear();
  return true;
}

StoreLinkDecoder::Status StoreLinkDecoder::repeat() {
  if (last_.empty()) return fail("`again` on the store link, with nothing before it");
  header_have_ = 0;
  frame_.type = StoreLinkType::data;
  frame_.payload = last_;
  return Status::frame;
}

StoreLinkDecoder::Status StoreLinkDecoder::fail(std::string why) {
  error_ = std::move(why);
  return Status::bad;
}

}  // namespace dtrain
