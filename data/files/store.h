#pragma once
// Object stores as file systems of Arrow:
//
//   s3://BUCKET/KEY                                       Amazon S3, and what speaks its protocol
//   gs://BUCKET/KEY                                       Google Cloud Storage
//   abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY     Azure; abfss:// is the same
//
// A key stands in a URI as it is: nothing is escaped, and there are no options behind a '?'.
#include <arrow/filesystem/filesystem.h>

#include <map>
#include <memory>
#include <string>

namespace dtrain::data {

// What the store is told, by the names of the variables that the store's own tools read:
//
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, AWS_CA_BUNDLE
//   GOOGLE_APPLICATION_CREDENTIALS (a path), STORAGE_EMULATOR_HOST (a URL)
//   AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN
//   DTRAIN_STORE_TIMEOUT_S
struct StoreOptions {
  std::map<std::string, std::string> values;

  // The value, else "". No name has an empty value.
  const std::string& of(const std::string& name) const;
};

// Those of this process: of the environment, and before it of the file that DTRAIN_STORE_CREDENTIALS names. The file
// is one JSON object {"AWS_ACCESS_KEY_ID": "..."}, belongs to this user, and others cannot read it. Throws DataError,
// with no value in it.
StoreOptions store_options();

// "s3://..." and so on: text with a "://" behind a scheme. Nothing else is a store's.
bool is_store_uri(const std::string& text);

// The store of a URI, and as `path` what its functions call the URI's object: "BUCKET/KEY". Throws DataError: a scheme
// that is not known, a URI without a bucket, options that do not belong together. A store is asked nothing yet, but for
// where a bucket of Amazon's is, if AWS_REGION does not say it.
//
// Its calls end: a store that says nothing for DTRAIN_STORE_TIMEOUT_S (10) seconds is asked again, four times in all.
// The first call for s3:// starts threads: a child that was forked after it must not use stores. They end at the
// process's exit.
std::shared_ptr<arrow::fs::FileSystem> open_store(const std::string& uri, const StoreOptions& options,
                                                  std::string* path);
// With store_options().
std::shared_ptr<arrow::fs::FileSystem> open_store(const std::string& uri, std::string* path);

}  // namespace dtrain::data
