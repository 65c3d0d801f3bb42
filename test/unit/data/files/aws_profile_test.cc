#include "data/files/aws_profile.h"

#include "test/support/catch.h"

namespace dtrain::data {
namespace {

using Values = std::map<std::string, std::string>;

TEST_CASE("a profile of ~/.aws") {
  const std::string text =
      "# of mine\n[default]\naws_access_key_id = a\nAWS_SECRET_ACCESS_KEY=b=c\r\n; region = x\n"
      "s3 =\n  max_queue_size = 1\n\n[ profile work ]\nregion=here\nno value\n[default]\nregion = there\n";
  CHECK(aws_profile(text, "default") ==
        Values{{"aws_access_key_id", "a"}, {"aws_secret_access_key", "b=c"}, {"s3", ""}, {"region", "there"}});
  CHECK(aws_profile(text, "work") == Values{{"region", "here"}});
  CHECK(aws_profile(text, "none").empty());
  CHECK(aws_profile("[", "default").empty());
  CHECK(aws_profile("a = b", "default").empty());
}

}  // namespace
}  // namespace dtrain::data
