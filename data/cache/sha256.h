#pragma once
// SHA-256 of a text or a file.
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace dtrain::data {

class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  // 64 hexadecimal digits. The last call.
  std::string end();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_of(std::string_view text);

}  // namespace dtrain::data
