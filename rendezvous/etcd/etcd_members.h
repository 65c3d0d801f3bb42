#pragma once
// The members of an etcd cluster, and what the calls of one client share: addresses, connections that are kept for the
// next call, which member answered last, and the token of the user.
//
// Members that cannot be reached are looked up again by their names, at most once a second: their addresses may change.
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/beside_loop.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/credentials/tls_certificates.h"
#include "rendezvous/http/http_connection.h"

namespace dtrain {

struct EtcdMember {
  std::string name;                    // as it was typed: what its certificate must say
  std::vector<std::string> addresses;  // numeric; none: not known yet
  std::uint16_t port = 0;
};

struct EtcdSettings {
  std::vector<EtcdMember> members;
  std::optional<TlsCertificates> certificates;  // https
  std::string user, password;                   // no user: none
  Duration one_try = std::chrono::seconds(1);   // for one member's answer, then the next one is asked
};

class EtcdMembers {
 public:
  EtcdMembers(boost::asio::io_context& io, EtcdSettings settings);

  const EtcdSettings& settings() const { return settings_; }
  std::size_t after(std::size_t member) const { return (member + 1) % settings_.members.size(); }
  // As last looked up; empty: not known yet.
  const std::vector<std::string>& addresses(std::size_t member) const { return addresses_[member]; }
  // Starts to look the member up by its name, unless that is too early or the name is a number.
  void look_up(std::size_t member);

  // A kept connection that is still open; null: there is none.
  std::shared_ptr<HttpConnection> take_idle(std::size_t member);
  // Keeps a connection on which nothing is asked, or closes it.
  void give_back(std::size_t member, std::shared_ptr<HttpConnection> connection);
  void close_idle();

  // A connection to a member has come about: remember this host's end of it.
  void connected(int fd);
  // This host's address on the last connection; empty: there was none.
  const std::string& own_address() const { return own_address_; }

  std::size_t good = 0;  // the member that answered last
  std::string token;     // of the user; empty: to be asked for

 private:
  struct Idle {
    std::size_t member;
    std::shared_ptr<HttpConnection> connection;
  };

  const EtcdSettings settings_;
  std::vector<std::vector<std::string>> addresses_;  // of each member
  std::vector<MonoTime> look_up_at_;                 // of each member: not before
  std::vector<Idle> idle_;
  std::string own_address_;
  BesideLoop beside_;
};

}  // namespace dtrain
