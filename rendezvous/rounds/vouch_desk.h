#pragma once
// A worker of another host has come to the store by itself, in clear (--master-addr real). Who it is only the agent of
// its own host can say: the desk asks those whose links come from the same address, and any one that says yes will do.
// Pure: what is to be sent goes through `ask`.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/base/tcp_ends.h"
#include "rendezvous/rounds/round_core.h"
#include "rendezvous/rounds/round_messages.h"

namespace dtrain {

class VouchDesk {
 public:
  // Questions at a time; the oldest is forgotten.
  static constexpr std::size_t kMost = 2048;
  using Ask = std::function<void(MemberId, const msg::Whose&)>;
  using Answer = std::function<void(bool)>;

  explicit VouchDesk(Ask ask) : ask_(std::move(ask)) {}

  // The link of an agent comes from this address, or is gone.
  void came(MemberId member, const std::string& address);
  void left(MemberId member);
  // `answer` is called once, perhaps from within; or never, so whoever asks has a deadline.
  void question(const TcpEnds& ends, Answer answer);
  void answered(MemberId member, const msg::Owned& said);
  std::size_t open() const { return questions_.size(); }

 private:
  struct Question {
    std::set<MemberId> asked;  // that have not answered
    Answer answer;
  };

  Ask ask_;
  std::map<MemberId, std::string> addresses_;
  std::multimap<std::string, MemberId> members_;  // the same, by address
  std::map<std::uint64_t, Question> questions_;
  std::uint64_t last_ = 0;
};

}  // namespace dtrain
