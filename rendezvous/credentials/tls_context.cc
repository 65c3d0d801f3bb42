#include "rendezvous/tls_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/base/printable.h"
#include "rendezvous/link_name.h"

namespace dtrain {
namespace {

const OpenSsl& table() { return **openssl(); }  // there is one: callbacks come from it

int read_input(BIO* bio, char* into, std::size_t size, std::size_t* done) {
  auto& bytes = *static_cast<TlsBytes*>(table().BIO_get_data(bio));
  *done = std::min({size, bytes.input.size(), bytes.allowance});
  std::copy_n(bytes.input.data(), *done, into);
  bytes.input.remove_prefix(*done);
  bytes.allowance -= *done;
  table().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  if (*done == 0) table().BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
  return *done > 0 ? 1 : 0;
}

int write_output(BIO* bio, const char* from, std::size_t size, std::size_t* done) {
  auto& bytes = *static_cast<TlsBytes*>(table().BIO_get_data(bio));
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

// A session that stands for an external key; nullptr if there is no memory.
SSL_SESSION* session_of(SSL* connection, SecretSpan key) {
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  const OpenSsl& ssl = table();
  SSL_SESSION* session = ssl.SSL_SESSION_new();
  const SSL_CIPHER* cipher = ssl.SSL_CIPHER_find(connection, kAes128GcmSha256);
  if (session == nullptr || cipher == nullptr ||
      ssl.SSL_SESSION_set1_master_key(session, key.data(), key.size()) != 1 ||
      ssl.SSL_SESSION_set_cipher(session, cipher) != 1 ||
      ssl.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    ssl.SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

TlsKeys& keys_of(SSL* connection) { return *static_cast<TlsKeys*>(table().SSL_get_ex_data(connection, 0)); }

int use_psk(SSL* connection, const EVP_MD*, const unsigned char** identity, std::size_t* size, SSL_SESSION** session) {
  std::string_view text;
  SecretSpan key(static_cast<const std::uint8_t*>(nullptr), kSecretBytes);
  if (!keys_of(connection).own_identity(text, key)) return 0;
  *session = session_of(connection, key);
  *identity = reinterpret_cast<const unsigned char*>(text.data());
  *size = text.size();
  return *session != nullptr ? 1 : 0;
}

int find_psk(SSL* connection, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  SecretSpan key(static_cast<const std::uint8_t*>(nullptr), kSecretBytes);
  *session = nullptr;
  if (!keys_of(connection).key_of({reinterpret_cast<const char*>(identity), size}, key)) return 0;
  *session = session_of(connection, key);
  return *session != nullptr ? 1 : 0;
}

bool is_link_name(std::string_view name) { return name.starts_with(kLinkPrefix); }

// The one protocol of a list as ALPN has it; empty: there are several.
std::string_view only_protocol(std::string_view list) {
  const bool one = !list.empty() && static_cast<unsigned char>(list[0]) == list.size() - 1;
  return one ? list.substr(1) : std::string_view();
}

int look_at_hello(SSL* connection, int* alert, void*) {
  const unsigned char* data = nullptr;
  std::size_t size = 0;
  if (table().SSL_client_hello_get0_ext(connection, TLSEXT_TYPE_psk, &data, &size) == 1)
    return SSL_CLIENT_HELLO_SUCCESS;
  if (table().SSL_client_hello_get0_ext(connection, TLSEXT_TYPE_application_layer_protocol_negotiation, &data, &size) !=
          1 ||
      size < 2)
    return SSL_CLIENT_HELLO_SUCCESS;
  const std::string_view list(reinterpret_cast<const char*>(data) + 2, size - 2);
  *alert = SSL_AD_HANDSHAKE_FAILURE;
  return !is_link_name(only_protocol(list)) || keys_of(connection).without_key() ? SSL_CLIENT_HELLO_SUCCESS
                                                                                 : SSL_CLIENT_HELLO_ERROR;
}

int choose_protocol(SSL* connection, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                    unsigned int size, void*) {
  const std::string_view name = only_protocol({reinterpret_cast<const char*>(in), size});
  if (!keys_of(connection).take_name(name)) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = reinterpret_cast<const unsigned char*>(name.data());
  *out_size = static_cast<unsigned char>(name.size());
  return SSL_TLSEXT_ERR_OK;
}

// What links with a token and with certificates have in common.
bool set_up(const OpenSsl& ssl, SSL_CTX* context) {
  char group[] = "X25519";
  ssl.SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  ssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, nullptr);
  ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  ssl.SSL_CTX_set_psk_find_session_callback(context, find_psk);
  return ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
         ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
         ssl.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
         ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, group) == 1 &&
         ssl.SSL_CTX_set_num_tickets(context, 0) == 1;
}

// A key that wants a passphrase is refused; nobody is asked on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

Error unreadable(const OpenSsl& ssl, const char* what, const std::string& file) {
  return Error{ErrorKind::usage, fmt::format("{} {}: {}", what, printable(file), openssl_reason(ssl))};
}

Error no_tls13() { return {ErrorKind::system, "this machine's OpenSSL lacks TLS 1.3 with X25519 and AES-128-GCM"}; }

// For a client that believes certificates, with none yet.
Result<std::shared_ptr<SSL_CTX>> make_client_context() {
  auto loaded = openssl();
  if (!loaded) return loaded.error();
  const OpenSsl& ssl = **loaded;
  std::shared_ptr<SSL_CTX> context(ssl.SSL_CTX_new(ssl.TLS_method()), ssl.SSL_CTX_free);
  ssl.ERR_clear_error();
  if (!context || ssl.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr) != 1)
    return Error{ErrorKind::system, "this machine's OpenSSL lacks TLS 1.2"};
  ssl.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  ssl.SSL_CTX_set_default_passwd_cb(context.get(), no_passphrase);
  ssl.SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

SSL_CTX* make_context(const OpenSsl& ssl) {
  SSL_CTX* context = ssl.SSL_CTX_new(ssl.TLS_method());
  if (context == nullptr || !set_up(ssl, context)) return nullptr;
  ssl.SSL_CTX_set_psk_use_session_callback(context, use_psk);
  ssl.SSL_CTX_set_client_hello_cb(context, look_at_hello, nullptr);
  return context;
}

}  // namespace

std::string openssl_reason(const OpenSsl& ssl) {
  const char* text = ssl.ERR_reason_error_string(ssl.ERR_peek_error());
  return text != nullptr ? text : "unusable";
}

Result<SSL_CTX*> tls_context(const OpenSsl& ssl) {
  static SSL_CTX* const context = make_context(ssl);
  if (context == nullptr) return no_tls13();
  return context;
}

Result<std::shared_ptr<SSL_CTX>> make_site_context(const OpenSsl& ssl) {
  std::shared_ptr<SSL_CTX> context(ssl.SSL_CTX_new(ssl.TLS_method()), ssl.SSL_CTX_free);
  if (!context || !set_up(ssl, context.get())) return no_tls13();
  ssl.SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  ssl.SSL_CTX_set_default_passwd_cb(context.get(), no_passphrase);
  ssl.SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

Result<TlsCertificates> TlsCertificates::load(const Files& files) {
  auto made = make_client_context();
  if (!made) return made.error();
  const OpenSsl& ssl = table();
  const std::shared_ptr<SSL_CTX> context = *made;
  if (files.ca.empty() ? ssl.SSL_CTX_set_default_verify_paths(context.get()) != 1
                       : ssl.SSL_CTX_load_verify_locations(context.get(), files.ca.c_str(), nullptr) != 1)
    return unreadable(ssl, "the CA file", files.ca);
  if (files.certificate.empty()) return TlsCertificates(context);
  if (ssl.SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return unreadable(ssl, "the certificate", files.certificate);
  const std::string& key = files.key.empty() ? files.certificate : files.key;
  if (ssl.SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ssl.SSL_CTX_check_private_key(context.get()) != 1)
    return unreadable(ssl, "the private key", key);
  return TlsCertificates(context);
}

Result<TlsCertificates> TlsCertificates::of(const JobCertificate& texts) {
  auto context = make_client_context();
  if (!context) return context.error();
  const OpenSsl& ssl = table();
  const auto reader = [&](const std::string& text) {
    return std::shared_ptr<BIO>(ssl.BIO_new_mem_buf(text.data(), int(text.size())), ssl.BIO_free);
  };
  const auto certificate_in = [&](const std::string& text) {
    return std::shared_ptr<X509>(ssl.PEM_read_bio_X509(reader(text).get(), nullptr, nullptr, nullptr), ssl.X509_free);
  };
  const auto authority = certificate_in(texts.authority), own = certificate_in(texts.certificate);
  const std::shared_ptr<EVP_PKEY> key(ssl.PEM_read_bio_PrivateKey(reader(texts.key).get(), nullptr, nullptr, nullptr),
                                      ssl.EVP_PKEY_free);
  if (!authority || !own || !key ||
      ssl.X509_STORE_add_cert(ssl.SSL_CTX_get_cert_store(context->get()), authority.get()) != 1 ||
      ssl.SSL_CTX_use_certificate(context->get(), own.get()) != 1 ||
      ssl.SSL_CTX_use_PrivateKey(context->get(), key.get()) != 1)
    return Error{ErrorKind::system, "OpenSSL does not take the job's own certificate"};
  return TlsCertificates(*context);
}

BIO* tls_bio(const OpenSsl& ssl, TlsBytes& bytes) {
  static BIO_METHOD* const method = make_method(ssl);
  BIO* bio = method != nullptr ? ssl.BIO_new(method) : nullptr;
  if (bio == nullptr) return nullptr;
  ssl.BIO_set_data(bio, &bytes);
  ssl.BIO_set_init(bio, 1);
  return bio;
}

}  // namespace dtrain
