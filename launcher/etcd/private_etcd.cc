#include "launcher/etcd/private_etcd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <utility>

#include "launcher/base/inherited.h"
#include "launcher/process/spawn.h"
#include "rendezvous/net/listen.h"

namespace dtrain::launcher {

namespace fs = std::filesystem;

namespace {

constexpr auto kLook = std::chrono::milliseconds(1500);
constexpr auto kChange = std::chrono::seconds(5);
constexpr auto kAgain = std::chrono::milliseconds(1000);
constexpr auto kLongestOut = std::chrono::milliseconds(8000);  // between two looks whether the other one is gone
constexpr int kMostEnds = 5;
constexpr int kDies = 2000;  // ms, of SIGKILL

Result<void> write_private(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != ssize_t(text.size())) return system_error(path, errno);
  return {};
}

// Its settings come by the command line alone.
std::vector<std::string> environment() {
  auto env = own_environment();
  std::erase_if(env, [](const std::string& variable) { return variable.starts_with("ETCD"); });
  return env;
}

}  // namespace

PrivateEtcd::PrivateEtcd(boost::asio::io_context& io, const JobSpec& spec, const Say& say)
    : io_(io), spec_(spec), say_(say), timer_(io), output_(io) {}

PrivateEtcd::~PrivateEtcd() { close(); }

void PrivateEtcd::close() {
  if (std::exchange(closed_, true)) return;
  for (const auto& client : others_) client->cancel();
  if (own_) own_->cancel();
  kill();
  std::error_code ignored;
  fs::remove_all(place().own->folder, ignored);
}

Result<void> PrivateEtcd::open(const EtcdSettings& clients) {
  if (auto written = write_files(); !written) return written.error().in("--ha");
  for (std::size_t i = 0; i < clients.members.size(); ++i) {
    EtcdSettings settings = clients;
    settings.members = {clients.members[i]};
    settings.one_try = kLook;
    auto client = std::make_unique<EtcdClient>(io_, std::move(settings));
    if (int(i) == place().own->self)
      own_ = std::move(client);
    else
      others_.push_back(std::move(client));
  }
  look();
  return {};
}

Result<void> PrivateEtcd::write_files() {
  if (!place().https) return {};
  auto issued = issue_certificate(*spec_.nodes.credential->secret(), spec_.run_id, place().own->names);
  if (!issued) return issued.error();
  const std::string folder = place().own->folder + "/";
  if (auto done = write_private(folder + kEtcdAuthority, issued->authority); !done) return done;
  if (auto done = write_private(folder + kEtcdCertificate, issued->certificate); !done) return done;
  return write_private(folder + kEtcdKeyFile, issued->key);
}

void PrivateEtcd::leave_leading() {
  own_->call(etcd_member_list(), kLook, [this](const Result<EtcdReply>& reply) {
    const EtcdMemberFacts* other = reply ? other_etcd_member(place(), reply->members) : nullptr;
    if (other != nullptr) own_->call(etcd_transfer_leadership(other->id), kLook, [](const Result<EtcdReply>&) {});
  });
}

// ---- whether there is a cluster already -----------------------------------------------------------------------------

void PrivateEtcd::look() {
  around_ = {};
  answers_ = nullptr;
  around_.taken_port = taken_port();
  if (around_.taken_port != 0) return judge();
  awaited_ = others_.size();
  for (std::size_t i = 0; i < others_.size(); ++i)
    others_[i]->call(etcd_member_list(), kLook, [this, i](const Result<EtcdReply>& reply) { heard(i, reply); });
}

std::uint16_t PrivateEtcd::taken_port() const {
  for (const std::uint16_t port : own_etcd_ports(place())) {
    const auto listener = try_listen_at(place().own->address, port);
    if (!listener && listener.error().errno_value == EADDRINUSE) return port;
  }
  return 0;
}

void PrivateEtcd::heard(std::size_t other, const Result<EtcdReply>& reply) {
  // A member that is still alone accepts the connection and says nothing.
  if (reply || reply.error().errno_value == ECONNREFUSED || reply.error().errno_value == 0) ++around_.reached;
  if (reply) ++around_.answered;
  if (reply && !around_.members) {
    around_.members = reply->members;
    answers_ = others_[other].get();
  }
  if (--awaited_ == 0) judge();
}

void PrivateEtcd::judge() {
  switch (judge_etcd_start(place(), around_, before_)) {
    case EtcdStart::as_typed:
      return start(etcd_cluster(place()), false);
    case EtcdStart::add:
      return add();
    case EtcdStart::replace:
      return replace(own_etcd_member(place(), *around_.members)->id);
    case EtcdStart::wait:
      return try_again("too few of the other members answer");
    case EtcdStart::stay_out:
      return stay_out();
  }
}

void PrivateEtcd::replace(std::uint64_t member) {
  answers_->call(etcd_member_remove(member), kChange, [this](const Result<EtcdReply>& reply) {
    if (!reply) return not_taken_in(reply.error());
    add();
  });
}

void PrivateEtcd::add() {
  const std::string own = etcd_peer_url(place(), std::size_t(place().own->self));
  answers_->call(etcd_member_add(own), kChange, [this](const Result<EtcdReply>& reply) {
    before_ = EtcdBefore::own;  // from now on the name of a member says nothing about whether it has begun
    if (!reply) return not_taken_in(reply.error());
    start(etcd_cluster(place(), reply->members), true);
  });
}

void PrivateEtcd::not_taken_in(const Error& error) { try_again(why_not_taken_in(around_, error.message)); }

void PrivateEtcd::stay_out() {
  if (before_ == EtcdBefore::none) before_ = EtcdBefore::anothers;
  out_pause_ = std::clamp(2 * out_pause_, kAgain, kLongestOut);
  const std::string why = fmt::format("port {} is taken", around_.taken_port);
  if (std::exchange(said_, why) != why) {
    const std::string holder = port_holder(around_.taken_port);
    say_(fmt::format("this node runs no member of etcd as long as {}{}: one agent on each host runs one", why,
                     holder.empty() ? "" : " by " + holder));
  }
  look_after(out_pause_);
}

void PrivateEtcd::try_again(const std::string& why) {
  out_pause_ = {};
  if (std::exchange(said_, why) != why) say_("etcd does not run on this node yet: " + why);
  look_after(kAgain);
}

void PrivateEtcd::look_after(std::chrono::milliseconds pause) {
  timer_.expires_after(pause);
  timer_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec && !closed_) look();
  });
}

// ---- the process ----------------------------------------------------------------------------------------------------

void PrivateEtcd::start(const std::string& cluster, bool existing) {
  std::error_code ignored;
  fs::remove_all(place().own->folder + "/" + kEtcdData, ignored);
  if (auto spawned = spawn_member(cluster, existing); !spawned) return try_again(spawned.error().message);
  read();
}

Result<void> PrivateEtcd::spawn_member(const std::string& cluster, bool existing) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe for etcd's output", errno);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]), nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  auto words = etcd_member_command(place(), spec_.run_id, cluster, existing);
  auto variables = environment();
  auto argv = c_strings(words), envp = c_strings(variables);
  SpawnRequest request;
  request.argv = argv.data();
  request.envp = envp.data();
  request.stdin_fd = nothing.get();
  request.stdout_fd = nothing.get();
  request.stderr_fd = theirs.get();
  ::getrlimit(RLIMIT_NOFILE, &request.nofile);
  auto spawned = spawn(request);
  if (spawned.pid < 0) return system_error("cannot start " + words.front(), spawned.error);
  pid_ = spawned.pid;
  pidfd_ = std::move(spawned.pidfd);
  output_.assign(ours.release());
  log_.clear();
  return {};
}

// Its end is the end of its output: it has no children.
void PrivateEtcd::read() {
  output_.async_read_some(boost::asio::buffer(bytes_), [this](const boost::system::error_code& ec, std::size_t size) {
    if (closed_ || ec == boost::asio::error::operation_aborted) return;
    log_.add({bytes_.data(), size});
    if (ec) return ended();
    read();
  });
}

void PrivateEtcd::ended() {
  const std::string why = why_etcd_ended(log_.lines());
  kill();
  before_ = EtcdBefore::own;
  if (++ends_ > kMostEnds) return say_("etcd does not run on this node: " + why);
  try_again("it has ended: " + why);
}

// The agent may have reaped it already.
void PrivateEtcd::kill() {
  boost::system::error_code ignored;
  output_.close(ignored);
  timer_.cancel();
  if (pid_ < 0) return;
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  pollfd dead{pidfd_.get(), POLLIN, 0};
  ::poll(&dead, 1, kDies);
  ::waitpid(std::exchange(pid_, -1), nullptr, WNOHANG);
  pidfd_.reset();
}

}  // namespace dtrain::launcher
