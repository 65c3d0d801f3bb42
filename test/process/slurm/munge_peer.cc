// Both ends of the way a job's secret takes through MUNGE, for munge_test.py.
// usage: munge_peer SOCKET new JOB                  makes a secret; prints its fingerprint and a credential
//        munge_peer SOCKET open JOB < credential    prints the fingerprint
// An error goes to stderr, with exit code 1.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "rendezvous/munge/munge_secret.h"

using namespace dtrain;

namespace {

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

int make(const Munge& munge, const std::string& job) {
  auto secret = JobSecret::generate();
  if (!secret) return fail(secret.error());
  auto credential = munge.seal(*secret, job);
  if (!credential) return fail(credential.error());
  std::printf("%s\n%s", secret->fingerprint().value().c_str(), credential->c_str());
  return 0;
}

int open(const Munge& munge, const std::string& job) {
  const std::string credential{std::istreambuf_iterator<char>(std::cin), {}};
  auto secret = munge.open(credential, job);
  if (!secret) return fail(secret.error());
  std::printf("%s\n", secret->fingerprint().value().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  auto munge = Munge::load(argv[1]);
  if (!munge) return fail(munge.error());
  return std::string(argv[2]) == "new" ? make(*munge, argv[3]) : open(*munge, argv[3]);
}
