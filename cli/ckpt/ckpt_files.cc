#include "cli/ckpt/ckpt_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/ckpt/ckpt_sum.h"
#include "launcher/base/small_file.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = std::size_t{4} << 20;
constexpr const char* kManifest = "dtrain.json";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kIndexEnd = ".index.json";

// As many bytes as there are from `at` on, up to the size of the buffer.
Result<std::string_view> bytes_at(int file, std::uint64_t at, std::string& buffer) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got = ::pread(file, buffer.data() + done, buffer.size() - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("it cannot be read", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return std::string_view(buffer).substr(0, done);
}

Result<UniqueFd> open_regular(const std::string& path, std::uint64_t& bytes) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error("it cannot be opened", errno);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return system_error("it cannot be examined", errno);
  if (!S_ISREG(facts.st_mode)) return usage_error("it is no regular file");
  bytes = static_cast<std::uint64_t>(facts.st_size);
  return file;
}

Result<std::vector<CkptTensor>> tensors_in_file(const std::string& path, std::uint64_t& bytes) {
  auto file = open_regular(path, bytes);
  if (!file) return file.error();
  std::string first(8, '\0');
  auto start = bytes_at(file->get(), 0, first);
  if (!start) return start.error();
  auto length = ckpt_header_length(*start, bytes);
  if (!length) return length.error();
  std::string header(*length, '\0');
  auto read = bytes_at(file->get(), 8, header);
  if (!read) return read.error();
  return read_ckpt_header(*read, bytes);
}

CkptFile open_file(const std::string& folder, const std::string& name) {
  CkptFile file;
  file.name = name;
  file.path = folder.empty() ? name : folder + "/" + name;
  auto tensors = tensors_in_file(file.path, file.bytes);
  if (tensors)
    file.tensors = std::move(*tensors);
  else
    file.damage = tensors.error().message;
  return file;
}

// The file against what dtrain.json says of it.
void compare(CkptFile& file, const CkptManifestFile& told) {
  file.sums = told.sums;
  if (!file.damage.empty() && file.bytes == told.bytes) return;
  if (file.bytes != told.bytes && (file.damage.empty() || file.bytes != 0))
    file.damage = fmt::format("it has {} bytes, and should have {}", file.bytes, told.bytes);
  if (!file.damage.empty()) return;
  for (const CkptTensor& tensor : file.tensors)
    if (!told.sums.contains(tensor.name))
      file.damage = fmt::format("dtrain.json does not know its tensor {}", printable(tensor.name, 200));
  if (file.damage.empty() && file.tensors.size() != told.sums.size())
    file.damage = "it lacks tensors that dtrain.json has";
}

Ckpt open_step(const std::string& folder) {
  Ckpt ckpt;
  ckpt.path = folder;
  auto text = launcher::read_regular_file(folder + "/" + kManifest, kCkptManifestMax);
  auto manifest = text ? read_ckpt_manifest(*text) : Result<CkptManifest>(text.error());
  if (!manifest) {
    ckpt.damage = fmt::format("{}/{}: {}", folder, kManifest, manifest.error().message);
    return ckpt;
  }
  for (const CkptManifestFile& told : manifest->files) {
    ckpt.files.push_back(open_file(folder, told.name));
    compare(ckpt.files.back(), told);
  }
  ckpt.manifest = std::move(*manifest);
  return ckpt;
}

// The names of a file's tensors.
std::set<std::string_view> names_in(const CkptFile& file) {
  std::set<std::string_view> names;
  for (const CkptTensor& tensor : file.tensors) names.insert(tensor.name);
  return names;
}

// `path`: that of the Ckpt, the index or its folder.
Ckpt open_index(const std::string& path, const std::string& index) {
  Ckpt ckpt;
  ckpt.path = path;
  auto text = launcher::read_regular_file(index, kCkptManifestMax);
  auto files = text ? read_ckpt_index(*text) : Result<std::map<std::string, std::string>>(text.error());
  if (!files) {
    ckpt.damage = fmt::format("{}: {}", index, files.error().message);
    return ckpt;
  }
  std::map<std::string, std::vector<std::string>> tensors;
  for (const auto& [tensor, file] : *files) tensors[file].push_back(tensor);
  for (const auto& [name, its] : tensors) {
    CkptFile file = open_file(fs::path(index).parent_path().string(), name);
    const auto there = names_in(file);
    for (const std::string& tensor : its)
      if (file.damage.empty() && !there.contains(tensor))
        file.damage = fmt::format("it lacks tensor {}, which the index has", printable(tensor, 200));
    ckpt.files.push_back(std::move(file));
  }
  return ckpt;
}

// step-00001200: eight digits, or more if the number has more.
bool is_step(const std::string& name) {
  constexpr std::size_t kBegin = 5, kDigits = 8, kMostDigits = 18;
  if (!name.starts_with("step-") || !all_digits(std::string_view(name).substr(kBegin))) return false;
  const std::size_t digits = name.size() - kBegin;
  return digits == kDigits || (digits > kDigits && digits <= kMostDigits && name[kBegin] != '0');
}

Result<std::string> newest_step(const std::string& folder) {
  std::string newest;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool later = name.size() != newest.size() ? name.size() > newest.size() : name > newest;
    if (is_step(name) && later) newest = name;  // without dtrain.json it is damaged
  }
  if (error) return usage_error(fmt::format("{} cannot be read: {}", printable(folder, 400), error.message()));
  return newest;
}

void verify_file(CkptFile& file) {
  std::uint64_t bytes = 0;
  auto open = open_regular(file.path, bytes);
  if (!open) file.damage = open.error().message;
  std::string buffer;
  for (const CkptTensor& tensor : file.tensors) {
    std::uint32_t sum = 0;
    for (std::uint64_t done = 0; done < tensor.bytes && file.damage.empty();) {
      buffer.resize(std::min<std::uint64_t>(kReadBytes, tensor.bytes - done));
      auto part = bytes_at(open->get(), tensor.begin + done, buffer);
      if (!part) file.damage = part.error().message;
      if (part && part->size() != buffer.size()) file.damage = "it was cut while it was read";
      if (!file.damage.empty()) return;
      sum = ckpt_sum(sum, *part);
      done += part->size();
    }
    const auto told = file.sums.find(tensor.name);
    if (file.damage.empty() && told != file.sums.end() && told->second != sum)
      file.damage = fmt::format("tensor {} is damaged: its crc32c is {:08x}, and should be {:08x}",
                                printable(tensor.name, 200), sum, told->second);
    if (!file.damage.empty()) return;
  }
}

}  // namespace

std::string Ckpt::first_damage() const {
  if (!damage.empty()) return damage;
  for (const CkptFile& file : files)
    if (!file.damage.empty()) return fmt::format("{}: {}", file.path, file.damage);
  return {};
}

Result<Ckpt> open_ckpt(const std::string& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (error) return usage_error(fmt::format("{} cannot be examined: {}", printable(path, 400), error.message()));
  if (!exists) return usage_error(fmt::format("{} does not exist", printable(path, 400)));
  if (!fs::is_directory(path, error)) {
    if (path.ends_with(kIndexEnd)) return open_index(path, path);
    Ckpt ckpt;
    ckpt.path = path;
    ckpt.files.push_back(open_file("", path));
    return ckpt;
  }
  const std::string folder = path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  if (fs::exists(folder + "/" + kManifest, error)) return open_step(folder);
  const auto step = newest_step(folder);
  if (!step) return step.error();
  if (!step->empty()) return open_step(folder + "/" + *step);
  const std::string index = folder + "/" + kModel + kIndexEnd;
  if (fs::exists(index, error)) return open_index(folder, index);
  if (!fs::exists(folder + "/" + kModel, error))
    return usage_error(
        fmt::format("{} has no step-*/{}, no {} and no {}", printable(path, 400), kManifest, kManifest, kModel));
  Ckpt ckpt;
  ckpt.path = folder;
  ckpt.files.push_back(open_file(folder, kModel));
  return ckpt;
}

void verify_ckpt(Ckpt& ckpt) {
  for (CkptFile& file : ckpt.files)
    if (file.damage.empty()) verify_file(file);
}

}  // namespace dtrain::cli
