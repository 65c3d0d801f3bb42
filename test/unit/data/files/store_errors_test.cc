#include "data/files/store_errors.h"

#include "test/support/catch.h"

namespace dtrain::data {
namespace {

using Catch::Contains;
using Catch::StartsWith;

// Of Arrow 26 and moto, unless it says otherwise.
TEST_CASE("an error of a store says what is wrong and what to do") {
  CHECK_THAT(store_error_text("s3",
                              "When getting information for key 'a' in bucket 'b': AWS Error ACCESS_DENIED (HTTP "
                              "status 403) during HeadObject operation: No response body. (Request ID: X)"),
             StartsWith("the store refuses this user (No response body); check AWS_ACCESS_KEY_ID"));
  CHECK_THAT(store_error_text("gs", "google::cloud::Status(PERMISSION_DENIED: no)"),
             Contains("check GOOGLE_APPLICATION_CREDENTIALS"));
  const std::string cut = store_error_text(
      "s3",
      "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 18, Transferred a partial file; Details: "
      "end of response with 3 bytes missing with address : 127.0.0.1");
  CHECK(cut ==
        "the store does not answer, or breaks off, each time it is asked (end of response with 3 bytes missing); "
        "check AWS_ENDPOINT_URL and AWS_REGION and the network");
  CHECK(is_no_answer("dtrain: s3://b/a: " + cut));
  CHECK_THAT(store_error_text("s3", "AWS Error UNKNOWN (HTTP status 416) during GetObject operation: x"),
             StartsWith("there is no such object any more"));
  CHECK_THAT(store_error_text("s3", "AWS Error UNKNOWN (HTTP status 301) during HeadObject operation: x"),
             Contains("set AWS_REGION"));
  CHECK_THAT(store_error_text("s3", "curlCode: 60, SSL peer certificate was not OK"), Contains("AWS_CA_BUNDLE"));
  CHECK_THAT(
      store_error_text("abfs", "Azure Error: [] Fail to get a new connection for: https://h. SSL peer certificate"),
      Contains("signed it in SSL_CERT_FILE"));
  const std::string asked = "GetProperties failed for 'https://a.blob.core.windows.net/c/o?sig=hunter2'. Azure Error: ";
  CHECK_THAT(
      store_error_text("abfs", asked + "[AuthorizationPermissionMismatch] 403 x\n\nRequest ID: 1"),
      StartsWith("the store refuses this user ([AuthorizationPermissionMismatch] 403 x); check AZURE_STORAGE_KEY"));
  const std::string silent = store_error_text("abfs", asked + "[] Timeout waiting for socket to read.");
  CHECK(is_no_answer(silent));
  CHECK_THAT(silent, Contains("(Timeout waiting for socket to read)") && Contains("AZURE_STORAGE_SERVICE_ENDPOINT"));
}

TEST_CASE("the name of an object says nothing of its store") {
  const std::string asked =
      "When reading information for key 'certificates/SSL_UNAVAILABLE/ACCESS_DENIED' in bucket 'NOT_FOUND': ";
  CHECK_THAT(store_error_text("s3", asked + "AWS Error NO_SUCH_KEY during GetObject operation: it is not there"),
             StartsWith("there is no such object any more"));
  CHECK(store_error_text("s3", asked + "AWS Error UNKNOWN (HTTP status 409) during PutObject operation: busy") ==
        "busy");
  CHECK_THAT(store_error_text("gs", "Path does not exist 'bucket/certificates/UNAUTHENTICATED.parquet'"),
             StartsWith("there is no such object any more"));
  // Who speaks TLS to a port without it has no trouble with certificates.
  CHECK_THAT(store_error_text("s3",
                              "AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 35, SSL "
                              "connect error"),
             Contains("check AWS_ENDPOINT_URL"));
}

TEST_CASE("an unknown error of a store stays as it is, in one short line") {
  CHECK(store_error_text("s3", "something else.\nmore") == "something else");
  CHECK(store_error_text("s3", "").find("without a word") != std::string::npos);
  CHECK(store_error_text("s3", std::string(1000, 'x')).size() < 200);
  CHECK_FALSE(is_no_answer("something else"));
}

}  // namespace
}  // namespace dtrain::data
