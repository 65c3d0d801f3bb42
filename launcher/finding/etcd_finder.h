#pragma once
// The host of a job is the agent that has made the job's key in etcd (rendezvous/election/etcd_election_core.h). Any
// agent may become the host: it listens at its own address that leads to etcd, and says so in the key. Only the host
// talks to etcd while a job runs.
//
//   /dtrain/<run id>/host    the host's addresses, port and agent; the key goes with a lease
//   /dtrain/<run id>/record  the last round's term, number, restarts and nodes; it goes a minute after the last host
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/etcd/private_etcd.h"
#include "launcher/finding/host_finder.h"
#include "rendezvous/election/etcd_election_core.h"
#include "rendezvous/etcd/etcd_client.h"

namespace dtrain::launcher {

class EtcdFinder : public HostFinder, public HostFollower {
 public:
  // `spec` and `say` outlive this.
  EtcdFinder(boost::asio::io_context& io, const JobSpec& spec, std::string agent_id, Answers answers,
             Callbacks callbacks, const Say& say);
  ~EtcdFinder() override { timer_.cancel(); }

  Result<void> open() override;
  void find() override { feed(election_event::Find{}); }
  std::string endpoint() const override;
  HostFollower* follower() override { return this; }

  void hear(const HostNews& news) override;
  void complete(const std::string&, NodeInfo&) override {}  // its listener is said in the key
  bool survives_host() const override { return true; }
  std::string missing() const override { return ""; }
  std::optional<MonoTime> fenced_at() const override { return core_.fenced_at(); }
  void close(bool as_killed) override;

 private:
  void feed(const ElectionEvent& event);
  void perform(const ElectionAction& action);
  void look();
  void grant();
  void campaign(const election_action::Campaign& action);
  void keep(const election_action::Keep& action);
  void watch();
  void here(const election_action::Here& here);
  void there(const ElectedHost& host);
  void before_round(int round, int restarts, int nodes, std::function<void()> go);
  Result<EtcdSettings> client_settings() const;
  Result<void> listen();
  std::string own_value() const;
  std::string record(std::uint64_t term, int round, int restarts, int nodes) const;
  void failed(const Error& error);
  void arm();

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  const std::string agent_id_;
  const Answers answers_;
  const Callbacks callbacks_;
  const Say& say_;
  const std::string host_key_, record_key_;
  ElectionCore core_;
  std::unique_ptr<EtcdClient> client_;
  std::unique_ptr<PrivateEtcd> member_;  // of the job's own etcd, where this node has one
  boost::asio::steady_timer timer_;
  UniqueFd listener_;  // until it is handed over
  std::string address_;
  std::uint16_t port_ = 0;
  bool closed_ = false;
};

}  // namespace dtrain::launcher
