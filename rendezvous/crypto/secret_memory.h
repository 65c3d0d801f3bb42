#pragma once
// Memory for keys: a page of its own that no core dump contains, wiped when the last owner goes. Copies share it.
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "rendezvous/base/result.h"

namespace dtrain {

inline constexpr std::size_t kSecretBytes = 32;
using SecretSpan = std::span<const std::uint8_t, kSecretBytes>;

class SecretMemory {
 public:
  // Takes a copy of `bytes`; wiping the original is the caller's.
  static Result<SecretMemory> copy_of(SecretSpan bytes);

  SecretSpan bytes() const { return SecretSpan(page_.get(), kSecretBytes); }

 private:
  explicit SecretMemory(std::shared_ptr<const std::uint8_t> page) : page_(std::move(page)) {}
  std::shared_ptr<const std::uint8_t> page_;
};

// Key material that lives for a moment, on the stack: wiped at the end of its scope.
template <std::size_t Size>
struct Wiped : std::array<std::uint8_t, Size> {
  Wiped() : std::array<std::uint8_t, Size>{} {}
  Wiped(const Wiped&) = default;
  Wiped& operator=(const Wiped&) = default;
  ~Wiped();
};

// Overwrite with zeros; never optimised away.
void wipe(void* memory, std::size_t size);

template <std::size_t Size>
Wiped<Size>::~Wiped() {
  wipe(this->data(), Size);
}

}  // namespace dtrain
