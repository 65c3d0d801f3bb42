#pragma once
// What two ranks say to each other about point-to-point messages. Pure.
//
//   sender                      receiver
//   whole (with its bytes)  ->                    a small message, while the receiver has room to keep it
//   offer                   ->                    any other one
//                           <-  grant             once a receive was called for it
//   part, part, ...         ->
#include <cstddef>
#include <cstdint>

namespace dtrain {

// In the rings, followed by `payload` bytes. Both sides are one build of one program.
struct Frame {
  enum class Kind : std::uint8_t { whole = 1, offer, grant, part, skip };  // skip: the next frame begins at the start

  Kind kind = Kind::skip;
  std::uint8_t type = 0;  // of the elements, as torch numbers it
  std::uint16_t unused = 0;
  std::int32_t tag = 0;
  std::uint64_t payload = 0;
  std::uint64_t bytes = 0;    // of the message
  std::uint64_t send = 0;     // the sender's number for it
  std::uint64_t receive = 0;  // the receiver's
  char text[88] = {};         // type and shape, for people; ends with a 0
};
static_assert(sizeof(Frame) == 128, "frames begin at multiples of their size");

}  // namespace dtrain
