#pragma once
// What object stores are told: credentials, and where they are.
#include <functional>
#include <map>
#include <string>

namespace dtrain::data {

// Values by the names of the variables that the stores' own tools read:
//
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, AWS_CA_BUNDLE
//   GOOGLE_APPLICATION_CREDENTIALS (a path), STORAGE_EMULATOR_HOST (a URL)
//   AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_SERVICE_ENDPOINT (a URL)
//   DTRAIN_STORE_TIMEOUT_S
struct StoreOptions {
  std::map<std::string, std::string> values = {};

  // The value, else "". No name has an empty value.
  const std::string& of(const std::string& name) const;
  int timeout_s() const;  // Throws DataError
};

// Those of this process: of the environment, and before it of the file that DTRAIN_STORE_CREDENTIALS names. The file
// is one JSON object {"AWS_ACCESS_KEY_ID": "..."}, belongs to this user, and others cannot read it. Throws DataError,
// with no value in it.
StoreOptions store_options();

// `file`: the text of that file, and `where` its name. `environment`: what getenv() says. Credentials of the file stand
// alone: none of the environment's for the same store is beside them. Throws DataError.
StoreOptions merged_options(const std::string& where, const std::string& file,
                            const std::function<const char*(const char* name)>& environment);

}  // namespace dtrain::data
