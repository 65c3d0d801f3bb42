#pragma once
// What two ranks say to each other about point-to-point messages. Pure.
//
//   sender                      receiver
//   whole (with its bytes)  ->                    a small message, while the receiver has room to keep it
//   offer                   ->                    any other one
//                           <-  grant             once a receive was called for it
//   part, part, ...         ->
//                           <-  credit            where nothing else goes that way: see Frame::returned
#include <cstddef>
#include <cstdint>

namespace dtrain {

// In rings and on connections, followed by `payload` bytes. Both sides are one build of one program.
struct Frame {
  enum class Kind : std::uint8_t { whole = 1, offer, grant, part, credit, skip };  // skip: of rings alone
  static constexpr std::uint16_t kMagic = 0x6470;  // another one from a host of other byte order

  Kind kind = Kind::skip;
  std::uint8_t type = 0;  // of the elements, as torch numbers it
  std::uint16_t magic = kMagic;
  std::int32_t tag = 0;
  std::uint64_t payload = 0;
  std::uint64_t bytes = 0;    // of the message
  std::uint64_t send = 0;     // the sender's number for it
  std::uint64_t receive = 0;  // the receiver's
  // How much of its window the rank that reads this has used and may use again, in all.
  std::uint64_t returned = 0;
  char text[80] = {};  // type and shape, for people; ends with a 0
};
static_assert(sizeof(Frame) == 128, "frames begin at multiples of their size");

}  // namespace dtrain
