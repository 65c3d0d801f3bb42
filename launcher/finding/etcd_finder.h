#pragma once
// The host of a job is the agent that has made the job's key in etcd (rendezvous/etcd_election_core.h). Any agent may
// be it: it listens at the address of its own that leads to etcd, and says so in the key. Only the host talks to etcd
// while a job runs.
//
//   /dtrain/<run id>/host    who hosts the job: its addresses, port and agent; goes with a lease
//   /dtrain/<run id>/record  the last round: its term, number, restarts and nodes; goes a minute after the last host
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/host_finder.h"
#include "launcher/private_etcd.h"
#include "rendezvous/etcd_client.h"
#include "rendezvous/etcd_election_core.h"

namespace dtrain::launcher {

class EtcdFinder : public HostFinder {
 public:
  EtcdFinder(boost::asio::io_context& io, const JobSpec& spec, std::string agent_id, Callbacks callbacks);
  ~EtcdFinder() override { timer_.cancel(); }

  Result<void> open() override;
  void find() override { feed(election_event::Find{}); }
  void lost(std::uint64_t term, MonoTime) override { feed(election_event::Lost{term}); }
  void opened(const msg::Open& open) override;
  bool survives_host() const override { return true; }
  std::optional<MonoTime> fenced_at() const override { return core_.fenced_at(); }
  std::string endpoint() const override;
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
  // Of a call that fails in a way that the next one would too: the end.
  void failed(const Error& error);
  void arm();

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  const std::string agent_id_;
  const Callbacks callbacks_;
  const std::string host_key_, record_key_;
  SteadyClock clock_;
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
