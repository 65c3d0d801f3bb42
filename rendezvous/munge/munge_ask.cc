#include "rendezvous/munge/munge_ask.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace dtrain {

namespace {
constexpr auto kLongestAnswer = std::chrono::seconds(10);  // munged hands its answers out slowly where it is overloaded
}

void MungeAsk::start(const std::vector<std::string>& addresses, std::uint16_t port, const std::string& job, Done done) {
  cancel();
  job_ = job;
  done_ = std::move(done);
  answer_ = MungeAnswer();
  dial_.start(addresses, port, [this](Result<Dial::Connection> made) {
    made ? connected(std::move(made->socket)) : finish(made.error());
  });
}

void MungeAsk::cancel() {
  ++attempt_;
  dial_.cancel();
  deadline_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  done_ = nullptr;
}

void MungeAsk::connected(UniqueFd socket) {
  deadline_.expires_after(kLongestAnswer);
  deadline_.async_wait([this, attempt = attempt_](const boost::system::error_code& ec) {
    if (!ec && attempt == attempt_) finish(Error{ErrorKind::system, "MUNGE: no answer in time"});
  });
  socket_.assign(socket.release());
  const auto request = munge_request();  // a new connection takes 8 bytes
  if (::send(socket_.native_handle(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      ssize_t(request.size()))
    return finish(Error{ErrorKind::system, "MUNGE: the connection was closed"});
  wait_readable();
}

void MungeAsk::wait_readable() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this, attempt = attempt_](const boost::system::error_code& ec) {
                       if (!ec && attempt == attempt_) readable();
                     });
}

void MungeAsk::readable() {
  std::array<char, kLongestCredential> buffer;
  const ssize_t got = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return wait_readable();
  if (got <= 0) return open();  // its end; a broken connection has no whole answer
  if (auto added = answer_.add({buffer.data(), std::size_t(got)}); !added) return finish(added.error());
  wait_readable();
}

void MungeAsk::open() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  auto credential = answer_.credential();
  if (!credential) return finish(credential.error());
  munge_.open(*credential, job_, [this, attempt = attempt_](const Result<JobSecret>& secret) {
    if (attempt == attempt_) finish(secret);
  });
}

void MungeAsk::finish(const Result<JobSecret>& result) {
  const Done done = std::exchange(done_, nullptr);
  cancel();
  if (done) done(result);
}

}  // namespace dtrain
