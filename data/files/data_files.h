#pragma once
// The files of a data set, on this machine or in an object store: which ones. open_file.h has their bytes.
//
// A file of this machine is named by its path, an object by its URI (store.h). The words below are either.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace arrow::fs {
class FileSystem;
}

namespace dtrain::data {

struct DataFile {
  std::string path;           // or the URI
  std::uint64_t bytes = 0;    // more than 0
  std::int64_t mtime_ns = 0;  // of an object: whole seconds, since not all that a store says is finer
  // Of an object:
  std::shared_ptr<arrow::fs::FileSystem> store = nullptr;
  std::string key = "";  // what the store calls it
  std::string tag = "";  // changes with its content; known once it was opened

  bool is_remote() const { return store != nullptr; }
};

struct FilesWanted {
  // Whether a file of a folder is one, by its name.
  std::function<bool(const std::string& name)> by_name;
  // What to say of a folder that has none.
  std::string none;
};

// The files that each word means: the file itself; of a folder those that are wanted, sorted by name; or of a pattern
// as in a shell all that match. Of a folder and a pattern without those whose names begin with '.' or '_': writers use
// them for what is not finished, and for notes. Throws DataError: there is none, or one is empty.
std::vector<DataFile> find_files(const std::vector<std::string>& words, const FilesWanted& wanted);

// Throws DataError if an object is no longer the one that was opened first. Of a file of this machine nothing is asked.
void check_same(const DataFile& file);
// The same after `error`, which reading the file has thrown: what is wrong with an object that changes is that. A store
// that does not answer is not asked for this.
void check_same_after(const DataFile& file, const std::string& error);

}  // namespace dtrain::data
