// Certificates made of the job's secret, as openssl and another agent of the job see them.
#include "rendezvous/credentials/job_certificates.h"

#include <cstdlib>

#include "rendezvous/credentials/tls_certificates.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;

namespace {

JobCertificate issued(const JobSecret& secret, const std::string& job, const std::vector<std::string>& names) {
  auto made = issue_certificate(secret, job, names);
  INFO((made ? "" : made.error().message));
  REQUIRE(made.ok());
  return *made;
}

// Whether openssl believes the certificate by this authority, for a server of this name.
bool verifies(const std::string& authority, const std::string& certificate, const std::string& name) {
  const test::TempFolder folder;
  folder.write("ca.pem", authority);
  folder.write("own.pem", certificate);
  return std::system(("cd " + folder.path().string() + " && openssl verify -purpose sslserver -CAfile ca.pem " + name +
                      " own.pem >/dev/null 2>&1")
                         .c_str()) == 0;
}

}  // namespace

TEST_CASE("job certificates: each agent's is good by the authority that every other one makes for itself") {
  const auto secret = *JobSecret::generate();
  const auto server = issued(secret, "job", {"n1", "10.0.0.1", "fd00::1", "fe80::1%eth0"});
  const auto other = issued(secret, "job", {});
  CHECK(server.authority != other.authority);  // signed anew, with the same key
  CHECK(verifies(other.authority, server.certificate, "-verify_hostname n1"));
  CHECK(verifies(other.authority, server.certificate, "-verify_ip 10.0.0.1"));
  CHECK(verifies(other.authority, server.certificate, "-verify_ip fd00::1"));
  CHECK_FALSE(verifies(other.authority, server.certificate, "-verify_hostname n2"));
  CHECK_FALSE(verifies(other.authority, server.certificate, "-verify_ip 10.0.0.2"));
  CHECK(verifies(server.authority, other.certificate, ""));
  CHECK(TlsCertificates::of(server).ok());

  // Of another secret, or another job: a stranger's.
  CHECK_FALSE(verifies(issued(*JobSecret::generate(), "job", {}).authority, server.certificate, ""));
  CHECK_FALSE(verifies(issued(secret, "job2", {}).authority, server.certificate, ""));
  auto mixed = server;
  mixed.key = other.key;
  CHECK_FALSE(TlsCertificates::of(mixed).ok());
}

TEST_CASE("job certificates: a name cannot say more than a name") {
  const auto secret = *JobSecret::generate();
  for (const char* name : {"n1,DNS:n2", "@section", "", "email:copy"})
    CHECK_FALSE(issue_certificate(secret, "job", {name}).ok());
}
