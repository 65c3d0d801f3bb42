#include "rendezvous/tls/tls_bio.h"

#include <algorithm>

namespace dtrain {
namespace {

// A callback of OpenSSL's runs, so OpenSSL is loaded.
const OpenSsl& loaded() { return **openssl(); }

int read_input(BIO* bio, char* into, std::size_t size, std::size_t* done) {
  auto& bytes = *static_cast<TlsBytes*>(loaded().BIO_get_data(bio));
  *done = std::min({size, bytes.input.size(), bytes.allowance});
  std::copy_n(bytes.input.data(), *done, into);
  bytes.input.remove_prefix(*done);
  bytes.allowance -= *done;
  loaded().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  if (*done == 0) loaded().BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
  return *done > 0 ? 1 : 0;
}

int write_output(BIO* bio, const char* from, std::size_t size, std::size_t* done) {
  auto& bytes = *static_cast<TlsBytes*>(loaded().BIO_get_data(bio));
  bytes.output.append(from, size);
  *done = size;
  return 1;
}

long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* make_method(const OpenSsl& ssl) {
  BIO_METHOD* method = ssl.BIO_meth_new(BIO_TYPE_SOURCE_SINK, "dtrain");
  if (method == nullptr) return nullptr;
  ssl.BIO_meth_set_read_ex(method, read_input);
  ssl.BIO_meth_set_write_ex(method, write_output);
  ssl.BIO_meth_set_ctrl(method, control);
  return method;
}

}  // namespace

BIO* tls_bio(const OpenSsl& ssl, TlsBytes& bytes) {
  static BIO_METHOD* const method = make_method(ssl);
  BIO* bio = method != nullptr ? ssl.BIO_new(method) : nullptr;
  if (bio == nullptr) return nullptr;
  ssl.BIO_set_data(bio, &bytes);
  ssl.BIO_set_init(bio, 1);
  return bio;
}

}  // namespace dtrain
