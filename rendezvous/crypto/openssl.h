#pragma once
// The functions of OpenSSL 3 that dtrain calls. The libraries are loaded when first asked for: a job on one host never
// loads them, and dtrain starts on a machine that has none.
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <string>

#include "rendezvous/base/result.h"

namespace dtrain {

// clang-format off
#define DTRAIN_OPENSSL_FUNCTIONS(F) \
  F(BIO_clear_flags) F(BIO_get_data) F(BIO_meth_new) F(BIO_meth_set_ctrl) F(BIO_meth_set_read_ex) \
  F(BIO_meth_set_write_ex) F(BIO_new) F(BIO_set_data) F(BIO_set_flags) F(BIO_set_init) \
  F(ERR_clear_error) F(ERR_peek_error) F(ERR_reason_error_string) \
  F(EVP_sha256) F(HMAC) F(OPENSSL_init_ssl) F(PKCS5_PBKDF2_HMAC) \
  F(SSL_CIPHER_find) F(SSL_CTX_ctrl) F(SSL_CTX_new) F(SSL_CTX_set_ciphersuites) F(SSL_CTX_set_num_tickets) \
  F(SSL_CTX_set_options) F(SSL_CTX_set_psk_find_session_callback) F(SSL_CTX_set_psk_use_session_callback) \
  F(SSL_SESSION_new) F(SSL_SESSION_set1_master_key) F(SSL_SESSION_set_cipher) \
  F(SSL_SESSION_set_protocol_version) F(SSL_SESSION_free) \
  F(SSL_do_handshake) F(SSL_free) F(SSL_get_error) F(SSL_get_ex_data) F(SSL_key_update) F(SSL_new) F(SSL_read_ex) \
  F(SSL_session_reused) F(SSL_set_accept_state) F(SSL_set_bio) F(SSL_set_connect_state) F(SSL_set_ex_data) \
  F(SSL_set_verify) F(SSL_shutdown) F(SSL_write_ex) F(TLS_method) \
  F(SSL_CTX_check_private_key) F(SSL_CTX_free) F(SSL_CTX_load_verify_locations) F(SSL_CTX_set_default_passwd_cb) \
  F(SSL_CTX_set_default_verify_paths) F(SSL_CTX_set_verify) F(SSL_CTX_use_PrivateKey_file) \
  F(SSL_CTX_use_certificate_chain_file) F(SSL_ctrl) F(SSL_get0_param) F(SSL_get_verify_result) F(SSL_set1_host) \
  F(X509_VERIFY_PARAM_set1_ip_asc) F(X509_verify_cert_error_string) \
  F(SSL_CTX_get0_certificate) F(SSL_CTX_set_alpn_select_cb) F(SSL_CTX_set_client_hello_cb) \
  F(SSL_client_hello_get0_ext) F(SSL_get0_alpn_selected) F(SSL_get0_peer_certificate) F(SSL_set_alpn_protos) \
  F(X509_STORE_CTX_free) F(X509_STORE_CTX_get_error) F(X509_STORE_CTX_init) F(X509_STORE_CTX_new) \
  F(X509_STORE_CTX_set_default) F(X509_STORE_set_flags) F(X509_verify_cert) \
  F(ASN1_INTEGER_set_uint64) F(BIO_ctrl) F(BIO_free) F(BIO_new_mem_buf) F(BIO_s_mem) F(EVP_PKEY_Q_keygen) \
  F(EVP_PKEY_free) F(PEM_read_bio_PrivateKey) F(PEM_read_bio_X509) F(PEM_write_bio_PrivateKey) \
  F(PEM_write_bio_X509) F(SSL_CTX_get_cert_store) F(SSL_CTX_use_PrivateKey) F(SSL_CTX_use_certificate) \
  F(X509V3_EXT_conf_nid) F(X509V3_set_ctx) F(X509_EXTENSION_free) F(X509_NAME_add_entry_by_txt) F(X509_NAME_free) \
  F(X509_NAME_new) F(X509_STORE_add_cert) F(X509_add_ext) F(X509_free) F(X509_get_serialNumber) \
  F(X509_get_subject_name) F(X509_getm_notAfter) F(X509_getm_notBefore) F(X509_gmtime_adj) F(X509_new) \
  F(X509_set_issuer_name) F(X509_set_pubkey) F(X509_set_version) F(X509_sign) F(d2i_AutoPrivateKey) \
  F(EVP_CIPHER_CTX_ctrl) F(EVP_CIPHER_CTX_free) F(EVP_CIPHER_CTX_new) F(EVP_DecryptFinal_ex) F(EVP_DecryptInit_ex) \
  F(EVP_DecryptUpdate) F(EVP_EncryptFinal_ex) F(EVP_EncryptInit_ex) F(EVP_EncryptUpdate) F(EVP_PKEY_CTX_free) \
  F(EVP_PKEY_CTX_new) F(EVP_PKEY_derive) F(EVP_PKEY_derive_init) F(EVP_PKEY_derive_set_peer) \
  F(EVP_PKEY_get_raw_public_key) F(EVP_PKEY_new_raw_public_key) F(EVP_aes_256_gcm) \
  F(EVP_DigestFinal_ex) F(EVP_DigestInit_ex) F(EVP_DigestUpdate) F(EVP_MD_CTX_free) F(EVP_MD_CTX_new)
// clang-format on

struct OpenSsl {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name that is declared cannot stand in them
#define DTRAIN_OPENSSL_MEMBER(name) decltype(&::name) name = nullptr;
  DTRAIN_OPENSSL_FUNCTIONS(DTRAIN_OPENSSL_MEMBER)
#undef DTRAIN_OPENSSL_MEMBER
};

// Any thread. The table is there for the rest of the process, or the reason why there is none.
Result<const OpenSsl*> openssl();

// The reason that OpenSSL gives for its last error.
std::string openssl_reason(const OpenSsl& ssl);
// A key that wants a passphrase is an error then; nobody is asked on the terminal.
void refuse_passphrases(const OpenSsl& ssl, SSL_CTX* context);

}  // namespace dtrain
