// The keys of --rdzv-conf, for each way to meet.
#include "cli/nodes/rdzv_conf.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;

TEST_CASE("rdzv-conf: each way to meet checks the keys that it has") {
  auto wrong = [](const char* text, Meeting meeting) {
    const auto conf = read_rdzv_conf(text, meeting, true);
    return conf ? std::string() : conf.error().message;
  };
  for (const char* bad : {"join_timeout=x", "last_call_timeout=-1", "close_timeout=0", "heartbeat_timeout=1.5",
                          "read_timeout=", "keep_alive_interval=x", "keep_alive_max_attempt=1.0", "is_host=maybe",
                          "cas_backoff_max_seconds=x", "store_type=redis", "=", ","})
    CHECK(wrong(bad, Meeting::c10d) != "");
  CHECK(wrong("timeout=x, is_host = No,keep_alive_interval=-1,cas_backoff_max_seconds=1e-3", Meeting::c10d) == "");
  CHECK(wrong("join_timeout=x,close_timeout=x,is_host=x,store_type=x,rank=x", Meeting::fixed) == "");
  CHECK(wrong("timeout=x", Meeting::fixed) == "timeout must be seconds above 0");
  CHECK(read_rdzv_conf("timeout=1.5", Meeting::fixed, true)->timeout == std::chrono::milliseconds(1500));
  CHECK(read_rdzv_conf(" last_call_timeout = 2 ", Meeting::c10d, true)->last_call_timeout == std::chrono::seconds(2));
}

TEST_CASE("rdzv-conf: what is typed in place of a value, and what has no effect") {
  const auto all =
      read_rdzv_conf("rejoin=no,succession=T,keep_alive_interval=2,keep_alive_max_attempt=4", Meeting::c10d, true);
  REQUIRE(all.ok());
  CHECK(all->rejoin == false);
  CHECK(all->succession == true);
  CHECK(all->keep_alive_interval == "2");
  CHECK(all->keep_alive_max_attempt == "4");
  CHECK(all->notes.empty());
  // A key of the other way is worth a note where nodes may meet.
  CHECK(read_rdzv_conf("timeout=5", Meeting::c10d, true)->notes.size() == 1);
  CHECK(read_rdzv_conf("timeout=5", Meeting::c10d, false)->notes.empty());
  CHECK_FALSE(read_rdzv_conf("timeout=5", Meeting::c10d, true)->timeout);
}

TEST_CASE("rdzv-conf: etcd's own keys have one name each, whichever of torchrun's two is typed") {
  const auto conf = read_rdzv_conf("ssl_cert=c,ssl_cert_key=k,ca_cert=a,protocol=https", Meeting::etcd, true);
  REQUIRE(conf.ok());
  CHECK(conf->etcd ==
        std::map<std::string, std::string>{{"cert", "c"}, {"key", "k"}, {"cacert", "a"}, {"protocol", "https"}});
  CHECK(read_rdzv_conf("ssl_cert=c", Meeting::c10d, true)->etcd.empty());
}
