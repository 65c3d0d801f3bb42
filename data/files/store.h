#pragma once
// Object stores as file systems of Arrow:
//
//   s3://BUCKET/KEY                                       Amazon S3, and what speaks its protocol
//   gs://BUCKET/KEY                                       Google Cloud Storage
//   abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY     Azure; abfss:// is the same
//
// A key stands in a URI as it is: nothing is escaped, and there are no options behind a '?'.
#include <arrow/filesystem/filesystem.h>

#include <memory>
#include <string>

#include "data/base/store_uri.h"
#include "data/files/store_options.h"

namespace dtrain::data {

inline bool is_azure(const std::string& scheme) { return scheme == "abfs" || scheme == "abfss"; }

// The store of a URI, and as `path` what its functions call the URI's object: "BUCKET/KEY". Throws DataError: a scheme
// that is not known, a URI without a bucket, options that do not belong together. A store is asked nothing yet, but for
// where a bucket of Amazon's is, if AWS_REGION does not say it.
//
// Its calls end: a store that says nothing for DTRAIN_STORE_TIMEOUT_S (10) seconds is asked again, four times in all.
// The first call for s3:// starts threads, which end at the process's exit: a child that was forked after it must not
// use stores.
std::shared_ptr<arrow::fs::FileSystem> open_store(const std::string& uri, const StoreOptions& options,
                                                  std::string* path);
// With store_options().
std::shared_ptr<arrow::fs::FileSystem> open_store(const std::string& uri, std::string* path);

}  // namespace dtrain::data
