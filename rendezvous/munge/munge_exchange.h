#pragma once
// What goes over the network when a node asks for the job's secret by MUNGE (munge_secret.h): the request, the answer,
// and how often the host answers. Pure; whoever asks has proved nothing, so every length and number is bounded.
#include <string>
#include <string_view>

#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/munge/munge_secret.h"

namespace dtrain {

std::string_view munge_request();

// The host: is this a request? `begun` is all that a connection has sent: look with MSG_PEEK, as else it is TLS's.
enum class MungeAsked { no, more, yes };  // more: it may become one; never for 8 bytes or more
MungeAsked asked_for_munge(std::string_view begun);

// The host: how many credentials it makes for strangers, each of which costs munged's time and its own. Who gets none
// is disconnected, and asks again.
class MungeBudget {
 public:
  static constexpr int kMost = 256;  // at once
  static constexpr std::chrono::milliseconds kOneMore{1};
  // Whether to answer now.
  bool take(MonoTime now);

 private:
  int left_ = kMost;
  MonoTime counted_to_{};
};

// Who asks: the answer, as it arrives.
class MungeAnswer {
 public:
  // Error: this is no credential, whatever follows. Further bytes give the same error.
  Result<void> add(std::string_view bytes);
  // After end-of-file: the credential, for Munge::open. Error: it is not whole.
  Result<std::string> credential() const;

 private:
  std::string text_;
  bool bad_ = false;
};

}  // namespace dtrain
