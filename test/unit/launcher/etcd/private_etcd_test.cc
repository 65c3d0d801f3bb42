// A real member of a job's own etcd, started and ended by the code of the agent.
#include "launcher/etcd/private_etcd.h"

#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "rendezvous/net/listen.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

// Whether a child of this process lives; one that has ended must have been waited for.
bool has_child() { return ::waitpid(-1, nullptr, WNOHANG) != -1; }

// Two ports that were free a moment ago.
void take_ports(EtcdPlace& place) {
  const auto client = try_listen_at("127.0.0.1", 0), peer = try_listen_at("127.0.0.1", 0);
  REQUIRE((client.ok() && peer.ok()));
  for (int host = 1; host <= 3; ++host)
    place.members.push_back({"127.0.0." + std::to_string(host), {}, *port_of_socket(client->get())});
  place.own->peer_port = *port_of_socket(peer->get());
}

}  // namespace

TEST_CASE("private etcd: when it is closed its member is dead, not only dying, and nothing of it is left") {
  const test::TempFolder base;
  JobSpec spec;
  spec.run_id = "test";
  auto& place = spec.nodes.etcd.emplace();
  place.own = EtcdPlace::Own{};
  take_ports(place);
  place.own->self = 0;
  base.write("etcd.sh", "#!/bin/sh\necho $$ >" + (base / "pid") + "\nexec etcd \"$@\"\n");
  std::filesystem::permissions(base / "etcd.sh", std::filesystem::perms::owner_all);
  place.own->program = base / "etcd.sh";
  place.own->address = "127.0.0.1";
  place.own->folder = base / "folder";
  std::filesystem::create_directory(place.own->folder);
  EtcdSettings clients;
  for (const auto& member : place.members) clients.members.push_back({member.name, {member.name}, member.port});

  boost::asio::io_context io;
  std::string said;
  const Say say = [&](const std::string& line) { said += line + "\n"; };
  PrivateEtcd member(io, spec, say);
  REQUIRE(member.open(clients).ok());
  CHECK_FALSE(has_child());
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  // Its data: it is past exec, and writes.
  const auto data = std::filesystem::path(place.own->folder) / kEtcdData;
  while (!std::filesystem::exists(data) && std::chrono::steady_clock::now() < end)
    io.run_one_for(std::chrono::milliseconds(20));
  INFO(said);
  REQUIRE(std::filesystem::exists(data));
  REQUIRE(has_child());

  // Only SIGKILL ends it now: not that its output is closed, or its data gone.
  REQUIRE(::kill(std::stoi(base.read("pid")), SIGSTOP) == 0);
  member.close();
  CHECK_FALSE(has_child());
  CHECK_FALSE(std::filesystem::exists(place.own->folder));
}
