#include "rendezvous/tls/tls_alerts.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain {
namespace {

// By which any peer refuses a certificate, or the lack of one.
bool is_of_certificate(int alert) {
  constexpr int kAlerts[] = {40, 41, 42, 43, 44, 45, 46, 48, kCertificateRequired};
  return std::find(std::begin(kAlerts), std::end(kAlerts), alert) != std::end(kAlerts);
}

std::string reason_of(int alert) {
  switch (alert) {
    case 44:
      return "it is revoked";
    case 45:
      return "it has expired";
    case 48:
      return "it is from another authority";
    default:
      return fmt::format("TLS alert {}", alert);
  }
}

}  // namespace

std::pair<TlsFault, std::string> meaning_of_alert(int alert, const TlsHeard& heard) {
  const bool by_token = heard.proof == TlsProof::token;
  const bool in_clear = heard.proof != TlsProof::program && !heard.established;
  if (in_clear && alert == kUnrecognizedName)
    return {TlsFault::job, "the peer serves another job: its --rdzv-id differs"};
  if (in_clear && alert == kAccessDenied)
    return {TlsFault::refused,
            fmt::format("the peer refuses the {} link of round {}", word_of(heard.link.role), heard.link.epoch)};
  if (in_clear && by_token && alert == kCertificateRequired)
    return {TlsFault::token,
            "the peer expects a certificate (--tls-ca), and this node has a token: use one of the two"};
  if (in_clear && by_token && (alert == kUnknownPskIdentity || alert == kDecryptError))
    return {TlsFault::token, fmt::format("the token differs: the peer does not have the one with the fingerprint {}; "
                                         "give every node the same",
                                         heard.fingerprint)};
  if (in_clear && !by_token && alert == kUnknownPskIdentity)
    return {TlsFault::token,
            "the peer expects a token, and this node has a certificate (--tls-ca): use one of the two"};
  // Of TLS 1.3 a client is established before the server has seen its certificate.
  if (heard.proof == TlsProof::site && is_of_certificate(alert))
    return {TlsFault::token, fmt::format("the peer does not take this node's certificate: {}", reason_of(alert))};
  if (heard.proof == TlsProof::program && is_of_certificate(alert))
    return {TlsFault::refused, fmt::format("the peer expects a certificate that it trusts (TLS alert {})", alert)};
  return {TlsFault::protocol, fmt::format("the peer ended the encrypted connection (TLS alert {})", alert)};
}

}  // namespace dtrain
