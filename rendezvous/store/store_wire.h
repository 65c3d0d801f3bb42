#pragma once
// The wire format of the worker store, the one torch's TCPStore client speaks: an incremental decoder from bytes to
// requests, and encoders for replies. Pure: no sockets, no clock.
//
// A message is one opcode byte and its fields, host byte order (little-endian), no padding, no message length. Keys
// and values are a u64 length and that many bytes. The first message of a connection must be VALIDATE with the magic
// word, so a browser, a port scanner or another protocol is refused at its first byte.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

enum class StoreOp : std::uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  num_keys = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_len = 16,
  list_keys = 17,
  barrier = 18,
};
inline constexpr std::uint8_t kStoreOpCount = 19;

inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;
// What a client begins with: VALIDATE, and the magic.
inline constexpr std::string_view kStoreGreeting{"\x00\xCE\xF7\x85\x3C", 5};

// One-byte replies.
inline constexpr char kStoreReady = 0;         // CHECK: all keys are there
inline constexpr char kStoreNotReady = 1;      // CHECK: at least one is missing
inline constexpr char kStoreStopWaiting = 0;   // WAIT and BARRIER: go on
inline constexpr char kStoreWaitCanceled = 1;  // CANCEL_WAIT

struct StoreWireLimits {
  std::size_t key_bytes = 8192;
  std::size_t value_bytes = std::size_t{8} << 20;
  // Keys in one CHECK, WAIT, MULTI_GET or MULTI_SET.
  std::uint64_t keys_per_request = 131072;
  // All keys and values of one request together. Must stay below 4 GiB.
  std::size_t request_bytes = std::size_t{128} << 20;
};

// One decoded message. Views stay valid until the next call of the decoder that made it.
class StoreRequest {
 public:
  StoreOp op = StoreOp::validate;
  std::uint32_t word = 0;   // VALIDATE: magic. PING: nonce.
  std::int64_t number = 0;  // ADD: delta. BARRIER: world size.

  // Keys and values in wire order: COMPARE_SET has key, expected, desired; MULTI_SET has key, value, key, value ...
  std::size_t field_count() const { return fields_.size(); }
  std::string_view field(std::size_t index) const {
    const Field& f = fields_[index];
    return std::string_view(bytes_).substr(f.begin, f.size);
  }
  std::string_view key() const { return field(0); }

 private:
  friend class StoreDecoder;
  struct Field {
    std::uint32_t begin;
    std::uint32_t size;
  };
  std::string bytes_;
  std::vector<Field> fields_;
};

// Decodes one connection's byte stream. Work is linear in the bytes fed, however they are cut, and memory grows only
// with bytes that have arrived, never with a length that was merely announced.
class StoreDecoder {
 public:
  enum class Status {
    need_more,  // all input is used; feed the next bytes
    request,    // request() is complete; call next() again with the rest of the input
    bad,        // error() says why; the connection must be closed
  };

  explicit StoreDecoder(const StoreWireLimits& limits = {}) : limits_(limits) {}
  // For a connection whose greeting another decoder has read.
  static StoreDecoder after_greeting(const StoreWireLimits& limits) {
    StoreDecoder decoder(limits);
    decoder.validated_ = true;
    return decoder;
  }

  // Consume bytes from the front of `input`, up to the end of the next request.
  Status next(std::string_view& input);

  const StoreRequest& request() const { return request_; }
  const std::string& error() const { return error_; }
  // The peer has sent VALIDATE with the right magic.
  bool validated() const { return validated_; }
  // Memory held for a request that is not complete, bytes.
  std::size_t held_bytes() const {
    return request_.bytes_.capacity() + request_.fields_.capacity() * sizeof(StoreRequest::Field);
  }

 private:
  bool begin_request(unsigned char opcode);
  bool take_step(std::string_view& input);
  bool take_number(std::string_view& input);
  bool number_complete();
  bool begin_field(std::uint64_t size, std::size_t limit, const char* what);
  void take_field(std::string_view& input);
  void advance();
  bool fail(std::string reason);
  std::uint64_t number() const;

  StoreWireLimits limits_;
  StoreRequest request_;
  std::string error_;
  bool validated_ = false;
  bool in_request_ = false;
  bool in_field_ = false;
  // The step of the message's shape that is being read, and where its repeated part starts (see kShapes).
  const char* step_ = "";
  const char* repeated_ = "";
  std::uint64_t repeats_left_ = 0;
  std::array<char, 8> number_bytes_{};
  std::size_t number_have_ = 0;
  std::size_t field_left_ = 0;
};

// What a client sends that sets one key. It gets no reply.
std::string store_set_request(std::string_view key, std::string_view value);

// Append a reply's parts to `out`.
void put_store_i64(std::string& out, std::int64_t value);
void put_store_u32(std::string& out, std::uint32_t value);
void put_store_bytes(std::string& out, std::string_view bytes);

}  // namespace dtrain
