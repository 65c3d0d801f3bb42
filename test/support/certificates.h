#pragma once
// Certificates for tests, made by the openssl program: NAME.pem and NAME.key in a folder.
#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "test/support/temp_folder.h"

namespace dtrain::test {

inline void run_openssl(const TempFolder& folder, const std::string& arguments) {
  const std::string command =
      fmt::format("cd {} && umask 077 && openssl {} 2>/dev/null", folder.path().string(), arguments);
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

inline constexpr const char* kNewKey = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

// One that is its own authority.
inline void make_authority(const TempFolder& folder, const std::string& name) {
  run_openssl(folder,
              fmt::format("req -x509 {} -days 2 -subj /CN={} -keyout {}.key -out {}.pem", kNewKey, name, name, name));
}

// One of the authority `ca`, good for so many days.
inline void certify(const TempFolder& folder, const std::string& name, const std::string& ca = "ca",
                    const std::string& extensions = "extendedKeyUsage=serverAuth,clientAuth", int days = 2) {
  folder.write("extensions", "subjectAltName=IP:127.0.0.1,DNS:localhost\n" + extensions + "\n");
  run_openssl(folder, fmt::format("req {} -subj /CN={} -keyout {}.key -out {}.csr", kNewKey, name, name, name));
  run_openssl(folder, fmt::format("x509 -req -in {}.csr -CA {}.pem -CAkey {}.key -CAcreateserial -days {} "
                                  "-extfile extensions -out {}.pem",
                                  name, ca, ca, days, name));
}

}  // namespace dtrain::test
