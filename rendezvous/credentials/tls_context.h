#pragma once
// OpenSSL's contexts for links between agents: the settings of the protocol, and the callbacks of the handshake. The
// sessions of a process share them.
#include <memory>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/crypto/openssl.h"
#include "rendezvous/crypto/secret_memory.h"

namespace dtrain {

// What the callbacks of the handshake ask. Set as ex data 0 of each SSL.
class TlsKeys {
 public:
  virtual ~TlsKeys() = default;
  // The client's identity, and its key in `key`; false if there is none.
  virtual bool own_identity(std::string_view& identity, SecretSpan& key) = 0;
  // The key of the identity that a client sent, in `key`; false refuses it.
  virtual bool key_of(std::string_view identity, SecretSpan& key) = 0;
  // A client has come without a key, but names a link as those with certificates do; false refuses it.
  virtual bool without_key() = 0;
  // A client with a certificate sent this name of its link; false refuses it. The name is not checked before.
  virtual bool take_name(std::string_view name) = 0;
};

// For links with a token. Any thread.
Result<SSL_CTX*> tls_context(const OpenSsl& ssl);
// For links with certificates of a site, none of which it has yet.
Result<std::shared_ptr<SSL_CTX>> make_site_context(const OpenSsl& ssl);

}  // namespace dtrain
