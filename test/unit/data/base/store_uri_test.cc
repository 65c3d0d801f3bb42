#include "data/base/store_uri.h"

#include "test/support/catch.h"

namespace dtrain::data {
namespace {

TEST_CASE("a text with a scheme is a store's, and no other is") {
  for (const char* uri : {"s3://b/k", "gs://b", "abfss://c@a.dfs.core.windows.net/k", "file:///x", "s3://"})
    CHECK(is_store_uri(uri));
  for (const char* path : {"", "/s3://b", "./s3://b", "s3:/b/k", "://b", "C://b", "a b://c", "3://b", "x://b"})
    CHECK_FALSE(is_store_uri(path));
}

TEST_CASE("the parts of a store's URI") {
  const auto uri = store_uri("s3://bucket/a/b*?[x]%20.parquet");
  REQUIRE(uri);
  CHECK(uri->scheme == "s3");
  CHECK(uri->bucket() == "bucket");
  CHECK(uri->key == "a/b*?[x]%20.parquet");
  CHECK(uri->path() == "bucket/a/b*?[x]%20.parquet");
  CHECK(uri->uri_of("bucket/a/c") == "s3://bucket/a/c");

  CHECK(store_uri("gs://bucket//")->path() == "bucket");
  CHECK(store_uri("gs://bucket/a/")->path() == "bucket/a");

  const auto azure = store_uri("abfs://container@account.dfs.core.windows.net/a/b");
  REQUIRE(azure);
  CHECK(azure->root() == "abfs://container@account.dfs.core.windows.net");
  CHECK(azure->path() == "container/a/b");
  CHECK(azure->uri_of("container/a/c") == "abfs://container@account.dfs.core.windows.net/a/c");

  for (const char* none : {"s3://", "s3:///key", "bucket/key", "s3://@host/key"}) CHECK_FALSE(store_uri(none));
}

}  // namespace
}  // namespace dtrain::data
