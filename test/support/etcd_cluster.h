#pragma once
// Real etcd on free ports of loopback, for one test: killed and removed at its end.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_client.h"
#include "test/support/temp_folder.h"

namespace dtrain::test {

class EtcdCluster {
 public:
  // `tls`: certificates of an authority of its own, ca() and the like; clients must show one.
  explicit EtcdCluster(std::size_t members = 1, bool tls = false);
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  void kill(std::size_t member);   // SIGKILL
  void pause(std::size_t member);  // SIGSTOP
  void start(std::size_t member);  // again, with its data
  // All members; with TLS the certificates of a client.
  EtcdSettings settings() const;
  std::string file(const std::string& name) const { return folder_ / name; }
  // A certificate by the authority `ca`, in NAME.pem and NAME.key.
  void certify(const std::string& name, const std::string& ca = "ca") const;
  void make_authority(const std::string& name) const;
  std::size_t size() const { return members_.size(); }

 private:
  struct Member {
    std::uint16_t client_port = 0, peer_port = 0;
    int pid = -1;
  };
  std::string address(std::uint16_t port) const;

  TempFolder folder_;
  const bool tls_;
  std::vector<Member> members_;
};

}  // namespace dtrain::test
