#pragma once
// HKDF-SHA256 (RFC 5869): keys for one purpose each out of one secret.
#include <cstdint>
#include <span>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/crypto/secret_memory.h"

namespace dtrain {

using HkdfKey = Wiped<32>;

Result<HkdfKey> hkdf_extract(std::span<const std::uint8_t> salt, std::span<const std::uint8_t> secret);

// Fill `key` (at most 255 * 32 bytes). Two different `info` give independent keys.
Result<void> hkdf_expand(const HkdfKey& extracted, std::string_view info, std::span<std::uint8_t> key);

}  // namespace dtrain
