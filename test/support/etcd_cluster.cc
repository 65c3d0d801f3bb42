#include "test/support/etcd_cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "rendezvous/net/listen.h"
#include "test/support/certificates.h"

namespace dtrain::test {

EtcdCluster::EtcdCluster(std::size_t members, bool tls) : tls_(tls), members_(members) {
  // All ports at once, so that no two are the same.
  std::vector<UniqueFd> taken;
  for (Member& member : members_)
    for (std::uint16_t* port : {&member.client_port, &member.peer_port}) {
      auto listener = try_listen_at("127.0.0.1", 0);
      *port = listener.ok() ? *port_of_socket(listener->get()) : std::uint16_t{0};
      taken.push_back(std::move(*listener));
    }
  taken.clear();
  if (tls) {
    make_authority("ca");
    certify("member");
    certify("client");
  }
  for (std::size_t i = 0; i < members; ++i) start(i);
}

EtcdCluster::~EtcdCluster() {
  for (std::size_t i = 0; i < members_.size(); ++i) kill(i);
}

std::string EtcdCluster::address(std::uint16_t port) const {
  return fmt::format("{}://127.0.0.1:{}", tls_ ? "https" : "http", port);
}

void EtcdCluster::make_authority(const std::string& name) const { test::make_authority(folder_, name); }

void EtcdCluster::certify(const std::string& name, const std::string& ca) const { test::certify(folder_, name, ca); }

void EtcdCluster::start(std::size_t index) {
  Member& member = members_[index];
  std::string cluster;
  for (std::size_t i = 0; i < members_.size(); ++i)
    cluster += fmt::format("{}m{}={}", i == 0 ? "" : ",", i, address(members_[i].peer_port));
  std::vector<std::string> argv = {"etcd",
                                   "--name",
                                   fmt::format("m{}", index),
                                   "--data-dir",
                                   file(fmt::format("data{}", index)),
                                   "--listen-client-urls",
                                   address(member.client_port),
                                   "--advertise-client-urls",
                                   address(member.client_port),
                                   "--listen-peer-urls",
                                   address(member.peer_port),
                                   "--initial-advertise-peer-urls",
                                   address(member.peer_port),
                                   "--initial-cluster",
                                   cluster,
                                   "--heartbeat-interval",
                                   "50",
                                   "--election-timeout",
                                   "500"};
  if (tls_)
    for (const char* side : {"", "peer-"})
      argv.insert(argv.end(),
                  {fmt::format("--{}cert-file", side), file("member.pem"), fmt::format("--{}key-file", side),
                   file("member.key"), fmt::format("--{}trusted-ca-file", side), file("ca.pem"),
                   fmt::format("--{}client-cert-auth", side)});
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  const std::string log = file(fmt::format("log{}", index));
  member.pid = ::fork();
  if (member.pid != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ::dup2(fd, 1);
  ::dup2(fd, 2);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

void EtcdCluster::kill(std::size_t member) {
  int& pid = members_[member].pid;
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  pid = -1;
}

void EtcdCluster::pause(std::size_t member) { ::kill(members_[member].pid, SIGSTOP); }

EtcdSettings EtcdCluster::settings() const {
  EtcdSettings settings;
  for (const Member& member : members_) settings.members.push_back({"127.0.0.1", {"127.0.0.1"}, member.client_port});
  if (tls_) settings.certificates = *TlsCertificates::load({file("ca.pem"), file("client.pem"), file("client.key")});
  return settings;
}

}  // namespace dtrain::test
