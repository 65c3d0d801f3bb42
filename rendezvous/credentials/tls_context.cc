#include "rendezvous/credentials/tls_context.h"

#include "rendezvous/credentials/link_name.h"

namespace dtrain {
namespace {

const OpenSsl& table() { return **openssl(); }  // there is one: callbacks come from it

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

Error no_tls13() { return {ErrorKind::system, "this machine's OpenSSL lacks TLS 1.3 with X25519 and AES-128-GCM"}; }

SSL_CTX* make_context(const OpenSsl& ssl) {
  SSL_CTX* context = ssl.SSL_CTX_new(ssl.TLS_method());
  if (context == nullptr || !set_up(ssl, context)) return nullptr;
  ssl.SSL_CTX_set_psk_use_session_callback(context, use_psk);
  ssl.SSL_CTX_set_client_hello_cb(context, look_at_hello, nullptr);
  return context;
}

}  // namespace

Result<SSL_CTX*> tls_context(const OpenSsl& ssl) {
  static SSL_CTX* const context = make_context(ssl);
  if (context == nullptr) return no_tls13();
  return context;
}

Result<std::shared_ptr<SSL_CTX>> make_site_context(const OpenSsl& ssl) {
  std::shared_ptr<SSL_CTX> context(ssl.SSL_CTX_new(ssl.TLS_method()), ssl.SSL_CTX_free);
  if (!context || !set_up(ssl, context.get())) return no_tls13();
  ssl.SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  refuse_passphrases(ssl, context.get());
  ssl.SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

}  // namespace dtrain
