// Tested by test/process/data/stores_test.py.
#include "data/files/store.h"

#include <arrow/filesystem/azurefs.h>
#include <arrow/filesystem/gcsfs.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/util/config.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#include "data/arrow/arrow_calls.h"
#include "data/files/aws_profile.h"
#include "data/files/store_errors.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;
using FileSystem = std::shared_ptr<arrow::fs::FileSystem>;

constexpr int kAttempts = 4;
// What the firmware of all machines of Azure's says.
constexpr const char* kAzureTag = "7783-7084-3265-9085-8269-3286-77";

// The first one after 100 ms, and each later one after three times as long: 1.3 s in all, beside the requests.
class Retries : public arrow::fs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail& error, std::int64_t attempted) override {
    return error.should_retry && attempted + 1 < kAttempts;
  }
  std::int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, std::int64_t attempted) override {
    std::int64_t milliseconds = 100;
    for (; attempted > 0; --attempted) milliseconds *= 3;
    return milliseconds;
  }
};

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

fs::path home() {
  const char* path = std::getenv("HOME");
  return path == nullptr ? "/" : path;
}

bool is_machine_of(const char* maker) {
  for (const char* fact : {"sys_vendor", "product_name", "chassis_asset_tag"}) {
    std::ifstream file(fmt::format("/sys/class/dmi/id/{}", fact));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find(maker) != std::string::npos) return true;
  }
  return false;
}

// The wheel's own default is the place where another distribution has it.
std::string authorities(const StoreOptions& options) {
  if (!options.of("AWS_CA_BUNDLE").empty()) return options.of("AWS_CA_BUNDLE");
  if (is_set("SSL_CERT_FILE")) return std::getenv("SSL_CERT_FILE");
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (is_there(path)) return path;
  return "";
}

struct Endpoint {
  std::string scheme, host;
};

Endpoint endpoint_of(const std::string& name, const std::string& url) {
  const auto uri = store_uri(url);
  if (!uri || !uri->key.empty() || (uri->scheme != "http" && uri->scheme != "https") ||
      uri->place.find_first_of("@?#") != std::string::npos)
    fail_at(name, "it must be http://HOST:PORT or https://HOST:PORT, and nothing more");
  return {uri->scheme, uri->place};
}

// At the process's exit. It must be registered after Arrow has made what it needs for this.
void end_s3_at_exit() {
  static const bool once = std::atexit([] { static_cast<void>(arrow::fs::EnsureS3Finalized()); }) == 0;
  static_cast<void>(once);
}

void begin_s3(const std::string& where) {
  static std::mutex one;
  const std::lock_guard lock(one);
  if (arrow::fs::IsS3Finalized()) fail_at(where, "this process is ending, or S3 was ended in it");
  if (arrow::fs::IsS3Initialized()) return;
  auto options = arrow::fs::S3GlobalOptions::Defaults();
  // A connection that breaks must not end a program. Where the program has a handler, it stays.
  struct sigaction now = {};
  options.install_sigpipe_handler = ::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
  must(where, arrow::fs::InitializeS3(options));
}

// Whether somebody has told the machine who it is. Otherwise Amazon's library would ask a server for that which only
// Amazon's machines have, and wait for it.
bool may_have_s3_credentials() {
  for (const char* name : {"AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                           "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"})
    if (is_set(name)) return true;
  return is_there(home() / ".aws/credentials") || is_there(home() / ".aws/config") || is_machine_of("Amazon");
}

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string variable_or(const char* name, const std::string& otherwise) {
  return is_set(name) ? std::getenv(name) : otherwise;
}

std::map<std::string, std::string> own_profile() {
  const std::string name = variable_or("AWS_PROFILE", "default");
  auto profile = aws_profile(
      text_of_file(variable_or("AWS_SHARED_CREDENTIALS_FILE", (home() / ".aws/credentials").string())), name);
  profile.merge(aws_profile(text_of_file(variable_or("AWS_CONFIG_FILE", (home() / ".aws/config").string())), name));
  return profile;
}

FileSystem s3(const std::string& where, const StoreUri& uri, const StoreOptions& given) {
  // Judged before S3 is begun: what is begun must be ended.
  const int timeout_s = given.timeout_s();
  const std::string& url = given.of("AWS_ENDPOINT_URL");
  const Endpoint endpoint = url.empty() ? Endpoint{} : endpoint_of("AWS_ENDPOINT_URL", url);
  begin_s3(where);
  arrow::fs::S3Options options;
  auto profile = own_profile();
  if (!given.of("AWS_ACCESS_KEY_ID").empty())
    options.ConfigureAccessKey(given.of("AWS_ACCESS_KEY_ID"), given.of("AWS_SECRET_ACCESS_KEY"),
                               given.of("AWS_SESSION_TOKEN"));
  else if (!profile["aws_access_key_id"].empty() && !profile["aws_secret_access_key"].empty())
    options.ConfigureAccessKey(profile["aws_access_key_id"], profile["aws_secret_access_key"],
                               profile["aws_session_token"]);
  else if (may_have_s3_credentials())
    options.ConfigureDefaultCredentials();
  else
    options.ConfigureAnonymousCredentials();
  options.connect_timeout = options.request_timeout = timeout_s;
  options.retry_strategy = std::make_shared<Retries>();
  // Else all of a file is taken into memory at once, and its writer waits for the end of it alone.
  options.background_writes = false;
  options.tls_ca_file_path = authorities(given);
  options.region = given.of("AWS_REGION").empty() ? profile["region"] : given.of("AWS_REGION");
  if (!url.empty()) {
    options.scheme = endpoint.scheme;
    options.endpoint_override = endpoint.host;
    if (options.region.empty()) options.region = "us-east-1";
  }
  if (options.region.empty()) {
    const auto region = arrow::fs::ResolveS3BucketRegion(uri.bucket());
    end_s3_at_exit();
    if (!region.ok()) fail_at(where, store_error_text(uri.scheme, region.status().message()));
    options.region = *region;
  }
  auto made = arrow::fs::S3FileSystem::Make(options);
  end_s3_at_exit();
  return must(where, std::move(made));
}

FileSystem gcs(const std::string& where, const StoreOptions& given) {
  const std::string& key = given.of("GOOGLE_APPLICATION_CREDENTIALS");
  const std::string& emulator = given.of("STORAGE_EMULATOR_HOST");
  must(where, arrow::fs::Initialize({.tls_ca_file_path = authorities(given), .tls_ca_dir_path = ""}));
  auto options = arrow::fs::GcsOptions::Anonymous();
  if (!key.empty()) {
    const std::string text = text_of_file(key);
    if (text.empty()) fail_at("GOOGLE_APPLICATION_CREDENTIALS", fmt::format("{} cannot be read, or is empty", key));
    options = arrow::fs::GcsOptions::FromServiceAccountCredentials(text);
  } else if (emulator.empty() &&
             (is_there(home() / ".config/gcloud/application_default_credentials.json") || is_machine_of("Google"))) {
    options = arrow::fs::GcsOptions::Defaults();
  }
  if (!emulator.empty()) {
    const Endpoint endpoint = endpoint_of("STORAGE_EMULATOR_HOST", emulator);
    options.scheme = endpoint.scheme;
    options.endpoint_override = endpoint.host;
  }
  options.retry_limit_seconds = given.timeout_s() * kAttempts;
  return must(where, arrow::fs::GcsFileSystem::Make(options));
}

// Otherwise Azure's library would ask a server that only Azure's machines have.
bool may_have_azure_credentials() {
  for (const char* name : {"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT",
                           "MSI_ENDPOINT", "AZURE_CONFIG_DIR"})
    if (is_set(name)) return true;
  return is_there(home() / ".azure") || is_machine_of(kAzureTag);
}

bool is_base64(const std::string& text) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t end = text.find_last_not_of('=');
  return text.size() % 4 == 0 && end != std::string::npos && text.size() - end <= 3 &&
         text.find_first_not_of(kDigits) >= end + 1;
}

FileSystem azure(const std::string& where, const StoreUri& uri, const StoreOptions& given) {
  if (uri.place.find('@') == std::string::npos)
    fail_at(where, fmt::format("name the account: {}://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY", uri.scheme));
  std::string path;
  auto options = must(where, arrow::fs::AzureOptions::FromUri(uri.root(), &path));
  options.background_writes = false;  // as for S3
  std::string url = given.of("AZURE_STORAGE_SERVICE_ENDPOINT");
  if (!url.empty()) {
    while (url.ends_with('/')) url.pop_back();
    // As Azure's own tools want it; Arrow adds the account itself.
    if (const std::string own = "/" + options.account_name; url.ends_with(own)) url.resize(url.size() - own.size());
    const Endpoint endpoint = endpoint_of("AZURE_STORAGE_SERVICE_ENDPOINT", url);
    options.blob_storage_scheme = options.dfs_storage_scheme = endpoint.scheme;
    options.blob_storage_authority = options.dfs_storage_authority = endpoint.host;
  }
  const std::string& account_key = given.of("AZURE_STORAGE_KEY");
  if (!account_key.empty() && !is_base64(account_key))
    fail_at("AZURE_STORAGE_KEY", "it is no Base64; take the account's key as Azure shows it");
  if (!account_key.empty())
    must("AZURE_STORAGE_KEY", options.ConfigureAccountKeyCredential(account_key));
  else if (const std::string& token = given.of("AZURE_STORAGE_SAS_TOKEN"); !token.empty())
    // Arrow puts it behind the account's URL as it is, and Azure's tools give it without the '?'.
    must("AZURE_STORAGE_SAS_TOKEN", options.ConfigureSASCredential(token.starts_with('?') ? token : "?" + token));
  else if (!may_have_azure_credentials())
    must(where, options.ConfigureAnonymousCredential());
  return must(where, arrow::fs::AzureFileSystem::Make(options));
}

}  // namespace

FileSystem open_store(const std::string& text, const StoreOptions& options, std::string* path) {
  const auto uri = store_uri(text);
  if (!uri && text.starts_with("file://")) fail_at(text, "a file of this machine is named by its path alone");
  if (!uri) fail_at(text, "name a bucket: s3://BUCKET/KEY");
  const bool is_in_azure = is_azure(uri->scheme);
  if (uri->scheme != "s3" && uri->scheme != "gs" && !is_in_azure)
    fail_at(uri->scheme + "://",
            "there is no such store; dtrain reads s3://, gs://, abfs:// and paths of this machine");
  // Of what may be a secret nothing is said.
  if (uri->place.find(':') != std::string::npos || (!is_in_azure && uri->place.find('@') != std::string::npos))
    fail_at(uri->scheme + "://", "a URI has no credentials in it, which everybody could see; use variables or ~/.aws");
  *path = uri->path();
  if (is_in_azure) return azure(text, *uri, options);
  return uri->scheme == "s3" ? s3(text, *uri, options) : gcs(text, options);
}

FileSystem open_store(const std::string& uri, std::string* path) { return open_store(uri, store_options(), path); }

}  // namespace dtrain::data
