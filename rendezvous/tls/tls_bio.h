#pragma once
// A BIO through which OpenSSL reads and writes the strings of a session, in place of a socket.
#include <cstddef>
#include <string>
#include <string_view>

#include "rendezvous/crypto/openssl.h"

namespace dtrain {

// The bytes between OpenSSL and the peer.
struct TlsBytes {
  std::string_view input;  // the peer's, not yet read by OpenSSL
  std::size_t allowance;   // how much more of them it may read
  std::string output;      // for the peer
};

// A BIO on `bytes`, which must outlive it; nullptr if there is no memory.
BIO* tls_bio(const OpenSsl& ssl, TlsBytes& bytes);

}  // namespace dtrain
