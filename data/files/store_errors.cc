// Tested by test/unit/data/files/store_errors_test.cc.
#include "data/files/store_errors.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace dtrain::data {
namespace {

constexpr std::size_t kMostDetail = 160;
constexpr const char* kNoPath = "Path does not exist";
constexpr const char* kNoAnswer = "the store does not answer, or breaks off, each time it is asked";

bool has_one(const std::string& message, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (message.find(word) != std::string::npos) return true;
  return false;
}

// Without the names of what was asked, in which any word may be.
std::string said_by_store(const std::string& message) {
  for (const std::string_view begin : {"AWS Error ", "Azure Error: ", "google::cloud::Status("})
    if (const auto at = message.find(begin); at != std::string::npos) return message.substr(at);
  return message.starts_with(kNoPath) ? kNoPath : message;
}

// What the store itself or the network said, without what was asked and without the request's number.
std::string detail_of(const std::string& message) {
  std::string text = message.substr(0, message.find('\n'));
  for (const std::string_view before : {" operation: ", "Message: ", "Details: ", "Azure Error: ", "[] "})
    if (const auto at = text.find(before); at != std::string::npos) text.erase(0, at + before.size());
  for (const std::string_view after : {" (Request ID:", " with address :"})
    if (const auto at = text.find(after); at != std::string::npos) text.erase(at);
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text.substr(0, kMostDetail);
}

const char* credentials_of(const std::string& scheme) {
  if (scheme == "gs") return "GOOGLE_APPLICATION_CREDENTIALS";
  if (scheme == "s3") return "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials";
  return "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN";
}

const char* place_of(const std::string& scheme) {
  if (scheme == "gs") return "STORAGE_EMULATOR_HOST, if it is set,";
  return scheme == "s3" ? "AWS_ENDPOINT_URL and AWS_REGION"
                        : "the account's name, AZURE_STORAGE_SERVICE_ENDPOINT, if it is set,";
}

}  // namespace

std::string store_error_text(const std::string& scheme, const std::string& whole) {
  const std::string message = said_by_store(whole);
  const std::string detail = detail_of(message);
  if (has_one(message, {"ACCESS_DENIED", "AccessDenied", "INVALID_ACCESS_KEY_ID", "InvalidAccessKeyId",
                        "INVALID_CLIENT_TOKEN_ID", "SIGNATURE_DOES_NOT_MATCH", "SignatureDoesNotMatch", "ExpiredToken",
                        "HTTP status 401", "HTTP status 403", "PERMISSION_DENIED", "UNAUTHENTICATED",
                        "AuthenticationFailed", "AuthorizationFailure", "AuthorizationPermissionMismatch"}))
    return fmt::format("the store refuses this user ({}); check {}, and what they may read", detail,
                       credentials_of(scheme));
  if (has_one(message, {"curlCode: 60", "curlCode: 77", "SSL certificate", "SSL peer certificate", "SSL CA cert"}))
    return fmt::format(
        "the store's certificate is not accepted ({}); name the file of those who signed it in {}SSL_CERT_FILE", detail,
        scheme == "s3" || scheme == "gs" ? "AWS_CA_BUNDLE or " : "");
  if (has_one(message, {"NETWORK_CONNECTION", "curlCode", "REQUEST_TIMEOUT", "SLOW_DOWN", "SERVICE_UNAVAILABLE",
                        "INTERNAL_FAILURE", "HTTP status 5", "UNAVAILABLE", "DEADLINE_EXCEEDED", "Retry policy",
                        "Fail to get a new connection", "Unable to connect", "Connection was closed",
                        "Connection closed", "Error while sending request", "for socket to", "from network socket"}))
    return fmt::format("{} ({}); check {} and the network", kNoAnswer, detail, place_of(scheme));
  if (has_one(message,
              {"HTTP status 404", "HTTP status 416", "NO_SUCH_KEY", "NoSuchKey", "NOT_FOUND", kNoPath, "BlobNotFound"}))
    return "there is no such object any more; leave the files alone while they are read";
  if (has_one(message, {"HTTP status 301", "PermanentRedirect", "AuthorizationHeaderMalformed"}))
    return fmt::format("its bucket is in another region ({}); set AWS_REGION", detail);
  return detail.empty() ? "the store says an error without a word" : detail;
}

bool is_no_answer(const std::string& text) { return text.find(kNoAnswer) != std::string::npos; }

}  // namespace dtrain::data
