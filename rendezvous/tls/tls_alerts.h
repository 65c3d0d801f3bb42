#pragma once
// The alerts (RFC 8446, 6.2) by which one end of a link says why it does not talk to the other, and how they read.
// Pure.
#include <string>
#include <utility>

#include "rendezvous/credentials/link_name.h"
#include "rendezvous/tls/tls_fault.h"

namespace dtrain {

inline constexpr unsigned char kDecryptError = 51;         // the key of that identity is another one here
inline constexpr unsigned char kUnknownPskIdentity = 115;  // another secret, or none where one is wanted
inline constexpr unsigned char kUnrecognizedName = 112;    // another job
inline constexpr unsigned char kAccessDenied = 49;         // another epoch, a role that is not served
inline constexpr unsigned char kCertificateRequired = 116;

// What an end of a connection shows.
enum class TlsProof {
  token,    // a key made of the job's secret
  site,     // a certificate of the site's, as the other end does
  program,  // perhaps a certificate, to another program that has one for its name
};

// What one end knew when the other's alert came.
struct TlsHeard {
  TlsProof proof = TlsProof::token;
  bool established = false;
  std::string fingerprint;  // of its token
  LinkName link;
};

std::pair<TlsFault, std::string> meaning_of_alert(int alert, const TlsHeard& heard);

}  // namespace dtrain
