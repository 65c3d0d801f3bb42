#include "cli/machine/user_token.h"

#include "cli/base/usage_error.h"
#include "cli/machine/file_facts.h"

namespace dtrain::cli {

std::string usual_token_file(const Host& host) {
  // As the rule of those folders is: a relative path does not count.
  if (std::string config = host.variable("XDG_CONFIG_HOME"); config.starts_with('/')) return config + "/dtrain/token";
  if (std::string home = host.variable("HOME"); home.starts_with('/')) return home + "/.config/dtrain/token";
  return "";
}

Result<JobSecret> find_token(const Host& host, std::string file, std::string* where) {
  const bool in_variable = file.empty() && host.token;
  if (file.empty() && !in_variable) file = host.variable("DTRAIN_TOKEN_FILE");
  if (file.empty() && !in_variable && host.probe(usual_token_file(host)).kind != FileFacts::Kind::missing)
    file = usual_token_file(host);
  if (where != nullptr) *where = in_variable ? "DTRAIN_TOKEN" : file;
  if (in_variable) return host.token->ok() ? *host.token : Result<JobSecret>(host.token->error().in("DTRAIN_TOKEN"));
  if (file.empty()) return usage_error("no token: `dtrain token --new` makes one");
  if (JobSecret::parse(file)) return token_as_file();
  return JobSecret::read(file);
}

Error token_as_file() {
  return usage_error(
      "--token-file takes the name of a file, not the token itself; others can see this token now, so make a new one");
}

}  // namespace dtrain::cli
