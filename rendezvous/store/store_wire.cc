// The decoder walks each message's shape, a short string with one letter a field, and keeps its place between calls.
#include "rendezvous/store/store_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "rendezvous/base/check.h"

namespace dtrain {
namespace {

static_assert(std::endian::native == std::endian::little, "the store's wire format is little-endian");

// What follows each opcode: k key, v value, i 64-bit integer, w 32-bit word, * a count and then the rest that often.
constexpr std::array<const char*, kStoreOpCount> kShapes = {
    "w",    // VALIDATE
    "kv",   // SET
    "kvv",  // COMPARE_SET
    "k",    // GET
    "ki",   // ADD
    "*k",   // CHECK
    "*k",   // WAIT
    "",     // GETNUMKEYS
    "k",    // DELETE_KEY
    "kv",   // APPEND
    "*k",   // MULTI_GET
    "*kv",  // MULTI_SET
    "",     // CANCEL_WAIT
    "w",    // PING
    "kv",   // QUEUE_PUSH
    "k",    // QUEUE_POP
    "k",    // QUEUE_LEN
    "",     // LIST_KEYS
    "ki",   // BARRIER
};

// A connection that once sent a large request does not keep its memory.
constexpr std::size_t kKeptBytes = 16384;
constexpr std::size_t kKeptFields = 1024;

}  // namespace

StoreDecoder::Status StoreDecoder::next(std::string_view& input) {
  if (!error_.empty()) return Status::bad;
  if (!in_request_) {
    if (input.empty()) {
      // Nothing is under way: give back what a large request needed.
      if (request_.bytes_.capacity() > kKeptBytes) std::string().swap(request_.bytes_);
      if (request_.fields_.capacity() > kKeptFields) decltype(request_.fields_)().swap(request_.fields_);
      return Status::need_more;
    }
    if (!begin_request(static_cast<unsigned char>(input.front()))) return Status::bad;
    input.remove_prefix(1);
  }
  while (*step_ != '\0') {
    if (!take_step(input)) return error_.empty() ? Status::need_more : Status::bad;
  }
  in_request_ = false;
  return Status::request;
}

bool StoreDecoder::begin_request(unsigned char opcode) {
  if (!validated_ && opcode != static_cast<unsigned char>(StoreOp::validate)) {
    return fail(fmt::format("first byte is 0x{:02x}, not a store client's greeting", opcode));
  }
  if (opcode >= kStoreOpCount) return fail(fmt::format("unknown operation {}", opcode));
  request_.op = static_cast<StoreOp>(opcode);
  if (validated_ && request_.op == StoreOp::validate) return fail("greeting sent twice");
  request_.bytes_.clear();
  request_.fields_.clear();
  request_.word = 0;
  request_.number = 0;
  step_ = kShapes[opcode];
  repeats_left_ = 0;
  number_have_ = 0;
  in_field_ = false;
  in_request_ = true;
  return true;
}

// Read one field, or as much of it as has come. False: more input is needed, or error_ is set.
bool StoreDecoder::take_step(std::string_view& input) {
  if (!in_field_) return take_number(input) && number_complete();
  take_field(input);
  if (field_left_ > 0) return false;
  in_field_ = false;
  advance();
  return true;
}

bool StoreDecoder::take_number(std::string_view& input) {
  if (input.empty()) return false;
  const std::size_t width = *step_ == 'w' ? sizeof(std::uint32_t) : sizeof(std::uint64_t);
  const std::size_t count = std::min(width - number_have_, input.size());
  std::memcpy(number_bytes_.data() + number_have_, input.data(), count);
  number_have_ += count;
  input.remove_prefix(count);
  return number_have_ == width;
}

bool StoreDecoder::number_complete() {
  number_have_ = 0;
  switch (*step_) {
    case 'k':
      return begin_field(number(), limits_.key_bytes, "key");
    case 'v':
      return begin_field(number(), limits_.value_bytes, "value");
    case 'i':
      request_.number = static_cast<std::int64_t>(number());
      break;
    case 'w':
      std::memcpy(&request_.word, number_bytes_.data(), sizeof(request_.word));
      if (request_.op == StoreOp::validate) {
        if (request_.word != kStoreMagic) return fail("greeting has the wrong magic word");
        validated_ = true;
      }
      break;
    case '*':
      if (number() > limits_.keys_per_request) {
        return fail(fmt::format("{} keys in one request, at most {} are allowed", number(), limits_.keys_per_request));
      }
      repeats_left_ = number();
      ++step_;
      repeated_ = step_;
      if (repeats_left_ == 0) step_ = "";
      return true;
    default:
      DT_CHECK(false, "every letter of kShapes is handled above");
  }
  advance();
  return true;
}

bool StoreDecoder::begin_field(std::uint64_t size, std::size_t limit, const char* what) {
  if (size > limit) return fail(fmt::format("{} of {} bytes, at most {} are allowed", what, size, limit));
  const std::size_t begin = request_.bytes_.size();
  if (begin + size > limits_.request_bytes) {
    return fail(fmt::format("request of more than {} bytes", limits_.request_bytes));
  }
  request_.fields_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size)});
  field_left_ = size;
  in_field_ = true;
  return true;
}

void StoreDecoder::take_field(std::string_view& input) {
  const std::size_t count = std::min(field_left_, input.size());
  request_.bytes_.append(input.data(), count);
  input.remove_prefix(count);
  field_left_ -= count;
}

void StoreDecoder::advance() {
  ++step_;
  if (*step_ == '\0' && repeats_left_ > 1) {
    --repeats_left_;
    step_ = repeated_;
  }
}

bool StoreDecoder::fail(std::string reason) {
  error_ = std::move(reason);
  return false;
}

std::uint64_t StoreDecoder::number() const {
  std::uint64_t value = 0;
  std::memcpy(&value, number_bytes_.data(), sizeof(value));
  return value;
}

std::string store_set_request(std::string_view key, std::string_view value) {
  std::string request(1, static_cast<char>(StoreOp::set));
  put_store_bytes(request, key);
  put_store_bytes(request, value);
  return request;
}

void put_store_i64(std::string& out, std::int64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_store_u32(std::string& out, std::uint32_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_store_bytes(std::string& out, std::string_view bytes) {
  put_store_i64(out, static_cast<std::int64_t>(bytes.size()));
  out.append(bytes);
}

}  // namespace dtrain
