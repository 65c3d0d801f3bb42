#pragma once
// SHA-256 of a file that comes in pieces.
#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace dtrain {

class ContentDigest {
 public:
  // Error: there is no OpenSSL.
  static Result<ContentDigest> begin();

  void add(std::string_view bytes);
  // Of all bytes, as 64 hexadecimal digits. Once.
  Result<std::string> end();

 private:
  using Context = std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)>;
  explicit ContentDigest(Context context) : context_(std::move(context)) {}

  Context context_;
  bool works_ = true;
};

}  // namespace dtrain
