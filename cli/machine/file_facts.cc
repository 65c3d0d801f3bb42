#include "cli/machine/file_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "launcher/base/small_file.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

std::string read_head(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string head(4096, '\0');
  ssize_t size = fd ? read(fd.get(), head.data(), head.size()) : 0;
  head.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return head;
}

}  // namespace

FileFacts file_facts(const std::string& path) {
  FileFacts facts;
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return facts;
  facts.kind = S_ISREG(status.st_mode)   ? FileFacts::Kind::file
               : S_ISDIR(status.st_mode) ? FileFacts::Kind::folder
                                         : FileFacts::Kind::other;
  facts.readable = eaccess(path.c_str(), R_OK) == 0;
  facts.writable = eaccess(path.c_str(), W_OK) == 0;
  facts.executable = eaccess(path.c_str(), X_OK) == 0;
  facts.execute_bit = (status.st_mode & 0111) != 0;
  facts.mode = status.st_mode & 07777;
  if (facts.kind == FileFacts::Kind::file && facts.readable) facts.head = read_head(path);
  return facts;
}

Result<std::string> text_file(const std::string& path) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  auto text = launcher::read_regular_file(path, kLargest);
  if (!text) return usage_error("the file cannot be read: " + text.error().message);
  if (text->size() > kLargest) return usage_error("the file is larger than 1 MiB; name the right one");
  return text;
}

std::string find_in_path(const std::string& name, const std::string& search_path, const Probe& probe) {
  if (name.find('/') != std::string::npos) return name;
  if (name.empty()) return "";
  for (const std::string& folder : split(search_path, ':')) {
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    FileFacts facts = probe(file);
    if (facts.kind == FileFacts::Kind::file && facts.executable) return file;
  }
  return "";
}

}  // namespace dtrain::cli
