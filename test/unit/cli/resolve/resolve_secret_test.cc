// The token of a job across hosts: where it is looked for, and what is said when there is none.
#include "cli/commands/token.h"
#include "cli/options/options.h"
#include "cli/resolve/resolve_parts.h"
#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Words = std::vector<std::string>;

namespace {

JobSecret new_secret() {
  auto secret = JobSecret::generate();
  REQUIRE(secret.ok());
  return *secret;
}

// A host whose files have a secret each.
struct TokenHost {
  std::map<std::string, JobSecret> files = {};
  Host host = test_host();

  JobSecret add(const std::string& path) {
    files.emplace(path, new_secret());
    host.probe = [this](const std::string& name) { return files.contains(name) ? plain_file() : FileFacts{}; };
    host.read_token = [this](const std::string& name) {
      auto it = files.find(name);
      return it == files.end() ? Result<JobSecret>(Error{ErrorKind::usage, "no file " + name}) : it->second;
    };
    return files.at(path);
  }

  Result<Plan> resolve(Words flags, bool across_hosts = true, int rank = 0, const std::string& nodes_of = "") {
    flags.emplace_back("true");
    auto raw = parse(flags);
    REQUIRE(raw.ok());
    Options options(*raw, host);
    if (!nodes_of.empty()) options.suggest(FlagId::rdzv_endpoint, "node1:20007", nodes_of);
    Plan plan;
    plan.spec.nodes.node_rank = rank;
    if (rank > 0) plan.spec.nodes.address.clear();  // another node hosts the job
    plan.spec.nodes.across_hosts = across_hosts;
    if (auto done = resolve_secret(Given{*raw, host, options}, plan); !done) return done.error();
    return plan;
  }

  bool uses(const JobSecret& secret, const Words& flags) {
    auto plan = resolve(flags);
    INFO((plan ? "" : plan.error().message));
    REQUIRE(plan.ok());
    return plan->spec.nodes.credential && *plan->spec.nodes.credential->secret() == secret;
  }

  std::string error(const Words& flags) {
    auto plan = resolve(flags);
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().kind == ErrorKind::usage);
    return plan.error().message;
  }
};

}  // namespace

TEST_CASE("the first source of a token wins") {
  TokenHost machine;
  machine.host.env["HOME"] = "/home/me";
  const JobSecret usual = machine.add("/home/me/.config/dtrain/token");
  CHECK(machine.uses(usual, {}));
  const JobSecret configured = machine.add("/config/dtrain/token");
  machine.host.env["XDG_CONFIG_HOME"] = "/config";
  CHECK(machine.uses(configured, {}));
  const JobSecret by_variable = machine.add("variable");
  machine.host.env["DTRAIN_TOKEN_FILE"] = "variable";
  CHECK(machine.uses(by_variable, {}));
  const JobSecret itself = new_secret();
  machine.host.token.emplace(itself);
  CHECK(machine.uses(itself, {}));
  const JobSecret by_flag = machine.add("flag");
  CHECK(machine.uses(by_flag, {"--token-file", "flag"}));
}

TEST_CASE("without a token a job across hosts does not start, and hears how to get one") {
  TokenHost machine;
  CHECK(machine.error({}).find("`dtrain token --new` makes one") != std::string::npos);
  machine.host.env["HOME"] = "/home/me";
  const std::string error = machine.error({});
  CHECK(error.find("`dtrain token --new` makes /home/me/.config/dtrain/token") != std::string::npos);
  CHECK(error.find("--token-file") != std::string::npos);
  machine.add("other");
  CHECK(machine.error({"--token-file=none"}) == "no file none");
  machine.host.token.emplace(JobSecret::parse("nonsense"));
  CHECK(machine.error({}).starts_with("DTRAIN_TOKEN: not a dtrain token: "));
}

TEST_CASE("in a step of SLURM the nodes share a token by MUNGE, unless one is named") {
  TokenHost machine;
  machine.host.env = {{"HOME", "/home/me"}, {"DTRAIN_MUNGE_SOCKET", "/run/here"}};
  machine.add("/home/me/.config/dtrain/token");
  machine.host.munge = [] { return Result<void>(); };
  auto plan_of = [&](int rank, const Words& flags = {}) {
    auto plan = machine.resolve(flags, true, rank, "SLURM_STEP_NODELIST");
    INFO((plan ? "" : plan.error().message));
    REQUIRE(plan.ok());
    return plan->spec.nodes;
  };
  CHECK(plan_of(0).credential);  // made for this job
  CHECK(plan_of(0).munge_socket == "/run/here");
  CHECK(plan_of(-1).credential);  // where nodes have no numbers, the host of the job makes it
  CHECK_FALSE(plan_of(1).credential);
  CHECK(plan_of(1).munge_socket == "/run/here");
  machine.add("named");
  CHECK(plan_of(1, {"--token-file", "named"}).credential);
  CHECK_FALSE(plan_of(1, {"--token-file", "named"}).munge_socket);
  CHECK_FALSE(plan_of(1, {"--insecure"}).munge_socket);
  CHECK_FALSE(machine.resolve({})->spec.nodes.munge_socket);  // no step
  machine.host.munge = [] { return Result<void>(Error{ErrorKind::system, "MUNGE: no munged at S"}); };
  CHECK_FALSE(plan_of(1).munge_socket);
  CHECK(plan_of(1).credential);
  machine.files.clear();
  auto none = machine.resolve({}, true, 1, "SLURM_STEP_NODELIST");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message.find("needs MUNGE or a token") != std::string::npos);
  CHECK(none.error().message.find("no munged at S") != std::string::npos);
}

TEST_CASE("a token typed in place of a file is not repeated") {
  TokenHost machine;
  const std::string token = new_secret().text();
  const std::string error = machine.error({"--token-file", token});
  CHECK(error.find(token) == std::string::npos);
  CHECK(error.find("not the token itself") != std::string::npos);
}

TEST_CASE("without a token only when that is typed, and then it is said") {
  TokenHost machine;
  machine.host.token.emplace(new_secret());
  auto plan = machine.resolve({"--insecure"});
  REQUIRE(plan.ok());
  CHECK(plan->spec.nodes.insecure);
  CHECK_FALSE(plan->spec.nodes.credential);
  REQUIRE(plan->warnings.size() == 1);
  CHECK(plan->warnings[0].starts_with("--insecure: anybody who reaches"));
  machine.host.env["DTRAIN_INSECURE"] = "1";
  CHECK(machine.resolve({}).error().message.starts_with("DTRAIN_INSECURE is not allowed: "));
}

TEST_CASE("a job on one host looks for no token") {
  TokenHost machine;
  machine.host.read_token = [](const std::string&) -> Result<JobSecret> { throw std::logic_error("not asked for"); };
  for (const Words& flags : {Words{}, Words{"--token-file=x"}, Words{"--insecure"}}) {
    auto plan = machine.resolve(flags, false);
    REQUIRE(plan.ok());
    CHECK_FALSE(plan->spec.nodes.credential);
    CHECK_FALSE(plan->spec.nodes.insecure);
    CHECK(plan->warnings.empty());
  }
}

namespace {

// In place of files that make sense: which were asked for.
struct CertificateHost : TokenHost {
  std::optional<SiteCertificates::Files> asked = {};
  CertificateHost() {
    host.read_certificates = [this](const SiteCertificates::Files& named) -> Result<SiteCertificates> {
      asked = named;
      return Error{ErrorKind::usage, "the files are read"};
    };
  }
};

}  // namespace

TEST_CASE("certificates stand in for a token, and the usual token file is not looked at") {
  CertificateHost machine;
  machine.host.env["HOME"] = "/home/me";
  machine.add("/home/me/.config/dtrain/token");
  CHECK(machine.error({"--tls-ca=ca", "--tls-cert=cert", "--tls-key=key"}) == "the files are read");
  REQUIRE(machine.asked);
  CHECK(machine.asked->ca == "ca");
  CHECK(machine.asked->certificate == "cert");
  CHECK(machine.asked->key == "key");
  machine.host.env["DTRAIN_TLS_CA"] = "site-ca";
  machine.host.env["DTRAIN_TLS_CERT"] = "site-cert";
  CHECK(machine.error({"--tls-key=key"}) == "the files are read");
  CHECK(machine.asked->certificate == "site-cert");
  // A job on one host looks at nothing.
  machine.asked.reset();
  CHECK(machine.resolve({"--tls-key=key"}, false).ok());
  CHECK_FALSE(machine.asked);
}

TEST_CASE("certificates want all three files, and no token beside them") {
  CertificateHost machine;
  CHECK(machine.error({"--tls-ca=ca"}) ==
        "--tls-ca without --tls-cert and --tls-key: certificates need all three files");
  CHECK(machine.error({"--tls-ca=ca", "--tls-key=key"}).starts_with("--tls-ca and --tls-key without --tls-cert: "));
  CHECK(machine.error({"--tls-cert=c", "--tls-key=key"}).starts_with("--tls-cert and --tls-key without --tls-ca: "));
  const Words all = {"--tls-ca=ca", "--tls-cert=cert", "--tls-key=key"};
  const auto with = [&](const char* word) {
    Words words = all;
    words.emplace_back(word);
    return machine.error(words);
  };
  CHECK(with("--token-file=t").starts_with("--tls-ca and --token-file: "));
  CHECK(with("--insecure").starts_with("--tls-ca and --insecure: "));
  machine.host.env["DTRAIN_TOKEN_FILE"] = "t";
  CHECK(machine.error(all).starts_with("--tls-ca and DTRAIN_TOKEN_FILE: "));
  machine.host.token.emplace(new_secret());
  CHECK(machine.error(all).find("use only one of the two") != std::string::npos);
  CHECK_FALSE(machine.asked);
}
