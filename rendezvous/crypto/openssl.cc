#include "rendezvous/crypto/openssl.h"

#include <dlfcn.h>

#include <string>

namespace dtrain {
namespace {

constexpr const char* kLibrary = "libssl.so.3";

Error unusable(const std::string& why) {
  return {
      ErrorKind::system,
      "jobs across hosts need OpenSSL 3 (Debian, Ubuntu: apt install libssl3; RHEL: dnf install openssl-libs): " + why};
}

Result<OpenSsl> load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return unusable(why != nullptr ? why : kLibrary);
  }
  OpenSsl table;
  // dlsym() finds the functions of libcrypto too: libssl depends on it.
#define DTRAIN_OPENSSL_FIND(name)                                          \
  table.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (table.name == nullptr) return unusable(std::string(kLibrary) + " has no " #name);
  DTRAIN_OPENSSL_FUNCTIONS(DTRAIN_OPENSSL_FIND)
#undef DTRAIN_OPENSSL_FIND
  // What the machine's openssl.cnf says changes nothing here, and nothing runs at exit.
  if (table.OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) != 1)
    return unusable("OPENSSL_init_ssl failed");
  return table;
}

// OpenSSL's callback that gives the passphrase of a key.
int no_passphrase(char*, int, int, void*) { return 0; }

}  // namespace

Result<const OpenSsl*> openssl() {
  static const Result<OpenSsl> table = load();
  if (!table) return table.error();
  return &*table;
}

std::string openssl_reason(const OpenSsl& ssl) {
  const char* text = ssl.ERR_reason_error_string(ssl.ERR_peek_error());
  return text != nullptr ? text : "unusable";
}

void refuse_passphrases(const OpenSsl& ssl, SSL_CTX* context) {
  ssl.SSL_CTX_set_default_passwd_cb(context, no_passphrase);
}

}  // namespace dtrain
