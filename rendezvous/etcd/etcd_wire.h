#pragma once
// etcd v3 through its JSON gateway (etcd 3.4 and later): requests as paths and bodies, and what their answers say.
// Pure. Keys and values are any bytes; on the wire they are base64.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain {

inline constexpr std::size_t kEtcdReplyBytes = std::size_t{1} << 20;

struct EtcdRequest {
  std::string path;
  std::string body;
};

struct EtcdKey {
  std::string key, value;
  std::int64_t create_revision = 0;  // the same as long as the key exists; higher when it is made again
  std::int64_t mod_revision = 0;
  std::int64_t lease = 0;  // 0: none
};

struct EtcdMemberFacts {
  std::uint64_t id = 0;
  std::string name;      // empty: it has been added, and has not begun yet
  std::string peer_url;  // the first
};

// What an answer says; what the call does not give stays as it is here.
struct EtcdReply {
  std::int64_t revision = 0;
  bool succeeded = false;     // txn: the comparison held
  std::int64_t lease = 0;     // grant, keepalive
  std::int64_t ttl = 0;       // seconds; 0: there is no such lease
  std::vector<EtcdKey> keys;  // range, and those a txn read
  std::string token;          // authenticate
  std::vector<EtcdMemberFacts> members;
};

// All or nothing, if the comparison holds.
struct EtcdTxn {
  std::string compare_key;
  std::int64_t create_revision = 0;  // 0: the key does not exist
  struct Put {
    std::string key, value;
    std::int64_t lease = 0;
  };
  std::vector<std::string> first_reads;  // before the puts
  std::vector<Put> puts;
  std::vector<std::string> deletes;
  std::vector<std::string> reads;     // after the puts
  std::vector<std::string> or_reads;  // where the comparison does not hold
};

EtcdRequest etcd_range(std::string_view key);
EtcdRequest etcd_txn(const EtcdTxn& txn);
EtcdRequest etcd_grant(std::int64_t ttl_seconds);
EtcdRequest etcd_keepalive(std::int64_t lease);
EtcdRequest etcd_revoke(std::int64_t lease);
// A stream of answers: for EtcdWatchStream. Changes from this revision on; 0: from now.
EtcdRequest etcd_watch(std::string_view key, std::int64_t from_revision);
EtcdRequest etcd_member_list();
EtcdRequest etcd_member_add(std::string_view peer_url);
EtcdRequest etcd_member_remove(std::uint64_t id);
// Only its leader can do it.
EtcdRequest etcd_transfer_leadership(std::uint64_t to_member);
EtcdRequest etcd_authenticate(std::string_view user, std::string_view password);

struct EtcdFault {
  enum class Kind {
    elsewhere,  // this member cannot do it now; another one may
    login,      // the token is missing or has expired
    final,      // it would be the same everywhere
  };
  Kind kind = Kind::final;
  std::string message;  // one line
};

// The answer to one request.
std::variant<EtcdReply, EtcdFault> parse_etcd_reply(int http_code, std::string_view body);

// The answers to etcd_watch(), as they come.
class EtcdWatchStream {
 public:
  struct News {
    bool began = false;    // the watch is there
    bool changed = false;  // the key has been written or deleted
    std::optional<EtcdFault> over;
  };
  // After `over` there is nothing more.
  News put(std::string_view bytes);

 private:
  std::string line_;
};

}  // namespace dtrain
