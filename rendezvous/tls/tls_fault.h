#pragma once
// How a session of TLS can fail.
namespace dtrain {

// Why a session failed; for decisions. A client has most of these from the server's word alone (an alert in clear),
// which anyone on the way can forge: good for a message and for trying again later, not for more.
enum class TlsFault {
  none,
  token,     // the two ends have different secrets, or certificates that one of them does not believe
  job,       // the server serves another job
  refused,   // the server's `refuse` said no: another epoch, a role it does not serve
  not_tls,   // the peer speaks something else, for example --insecure
  protocol,  // garbage, a changed byte, another version of TLS
  local,     // OpenSSL is missing or failed on this side
};

}  // namespace dtrain
