// Words about failures; see tcp_links.h.
#include "strategies/comm/tcp/tcp_links.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dtrain {
namespace {

// A host of another byte order, or a build from before words asked, sends another number.
constexpr std::uint32_t kWordMagic = 0x64747278;

}  // namespace

// A word is small enough that the kernel takes it whole, whatever the other end does.
struct TcpLinks::Word {
  enum Kind : std::uint32_t { leaves, fails, asks, answers };  // the last two: see blame.h
  std::uint32_t magic = kWordMagic;
  Kind kind = leaves;
  std::uint32_t failure = 0;
  char detail[244] = {};  // ends with a 0
};

TcpLinks::TcpLinks(GroupStore& store, int rank, const std::vector<int>& others, ShmWait& wait, Deadline deadline)
    : rank_(rank), wait_(wait) {
  for (auto& [peer, lanes] : connect_ranks(store, rank, others, deadline)) links_[peer].lanes = std::move(lanes);
}

void TcpLinks::heed(const std::string& during) {
  const std::lock_guard lock(heeding_);
  for (auto& [peer, link] : links_) heed(peer, link, during);
}

void TcpLinks::heed(int peer, Link& link, const std::string& during) {
  while (link.state == State::here) {
    const std::size_t before = link.heard.size();
    link.heard.resize(sizeof(Word));
    const auto n = ::recv(link.lanes.control.fd(), link.heard.data() + before, sizeof(Word) - before, MSG_DONTWAIT);
    link.heard.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) link.state = n == 0 || errno == ECONNRESET ? State::gone : State::unreachable;
    if (link.heard.size() == sizeof(Word)) understand(peer, link, during);
  }
}

void TcpLinks::understand(int peer, Link& link, const std::string& during) {
  Word word;
  std::memcpy(&word, link.heard.data(), sizeof word);
  link.heard.clear();
  word.detail[sizeof word.detail - 1] = '\0';
  if (word.magic != kWordMagic || word.kind > Word::answers) {
    link.state = State::gone;
  } else if (word.kind == Word::leaves) {
    link.state = State::left;
  } else if (word.kind == Word::asks) {
    link.asks = true;
    wait_.be_missed();
  } else if (word.kind == Word::answers) {
    link.answered = true;
  } else {
    const Failure failure = decode_failure(word.failure);
    const bool sound =
        failure.kind <= FailureKind::aborted && failure.kind >= FailureKind::peer_died && wait_.knows(failure.rank);
    wait_.fail(sound ? failure : Failure{FailureKind::aborted, peer}, during, word.detail);
  }
}

void TcpLinks::watch_words(std::vector<pollfd>& polls) const {
  for (const auto& [peer, link] : links_)
    polls.push_back({link.state == State::here ? link.lanes.control.fd() : -1, POLLIN, 0});
}

// If only this process was told to stop, there is no failure to tell: this rank will leave.
void TcpLinks::tell() noexcept {
  const auto known = wait_.told();
  if (!known || told_.exchange(true)) return;
  Word word{.kind = Word::fails};
  word.failure = encode(known->failure);
  known->detail.copy(word.detail, sizeof word.detail - 1);
  for (const auto& [peer, link] : links_) say(link, word);
}

void TcpLinks::leave() noexcept {
  for (const auto& [peer, link] : links_) say(link, {});
}

void TcpLinks::ask(const std::vector<int>& peers) noexcept {
  for (const int peer : peers) {
    Link& link = links_.at(peer);
    link.answered = false;
    say(link, {.kind = Word::asks});
  }
}

void TcpLinks::answer() noexcept {
  for (auto& [peer, link] : links_) {
    if (link.asks.exchange(false)) say(link, {.kind = Word::answers});
  }
}

void TcpLinks::say(const Link& link, const Word& word) noexcept {
  ::send(link.lanes.control.fd(), &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace dtrain
