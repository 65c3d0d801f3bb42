#pragma once
// This node's member of a job's own etcd (--ha): a child of the agent that the kernel kills when the agent dies. It is
// killed, and its data removed, when the agent leaves the job; should it end before, it is started anew as another
// member (etcd_member.h). Where another agent on this host runs the member this one stays out until that is gone. On
// the agent's event loop.
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/tail_buffer.h"
#include "launcher/etcd/etcd_member.h"
#include "launcher/job/job_spec.h"
#include "rendezvous/base/say.h"
#include "rendezvous/credentials/job_certificates.h"
#include "rendezvous/etcd/etcd_client.h"

namespace dtrain::launcher {

class PrivateEtcd {
 public:
  // `spec` and `say` outlive this. `spec.nodes.etcd->own` says where the member runs.
  PrivateEtcd(boost::asio::io_context& io, const JobSpec& spec, const Say& say);
  ~PrivateEtcd();
  PrivateEtcd(const PrivateEtcd&) = delete;
  PrivateEtcd& operator=(const PrivateEtcd&) = delete;

  // `clients`: how this agent talks to the members. Begins; an error ends the job.
  Result<void> open(const EtcdSettings& clients);
  // Should the member here lead the others, let another one do so: this node hosts the job, and the loss of both at
  // once takes longer to get over. Nothing comes of it where that cannot be.
  void leave_leading();
  // The end, also of the data. Nothing happens after this.
  void close();

 private:
  const EtcdPlace& place() const { return *spec_.nodes.etcd; }
  Result<void> write_files();
  void look();
  std::uint16_t taken_port() const;
  void heard(std::size_t other, const Result<EtcdReply>& reply);
  void judge();
  void replace(std::uint64_t member);
  void add();
  void start(const std::string& cluster, bool existing);
  Result<void> spawn_member(const std::string& cluster, bool existing);
  void read();
  void ended();
  void not_taken_in(const Error& error);
  void stay_out();
  void try_again(const std::string& why);
  void look_after(std::chrono::milliseconds pause);
  void kill();

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  const Say& say_;
  std::vector<std::unique_ptr<EtcdClient>> others_;  // one for each, so that it is known which of them answers
  std::unique_ptr<EtcdClient> own_;
  EtcdClient* answers_ = nullptr;  // one of them
  std::size_t awaited_ = 0;
  EtcdSurroundings around_;
  boost::asio::steady_timer timer_;
  int pid_ = -1;
  UniqueFd pidfd_;
  boost::asio::posix::stream_descriptor output_;
  std::array<char, 4096> bytes_{};
  TailBuffer log_;
  EtcdBefore before_ = EtcdBefore::none;
  std::chrono::milliseconds out_pause_{};
  int ends_ = 0;  // how often it has ended
  bool closed_ = false;
  std::string said_;
};

}  // namespace dtrain::launcher
