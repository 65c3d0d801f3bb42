// See step_folder.h.
#include "strategies/checkpoint/step_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "strategies/checkpoint/range_file.h"

namespace dtrain::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kAttemptMark = ".tmp-";
constexpr int kAttemptsMost = 1000;
constexpr std::uint64_t kIndexBytesMax = std::uint64_t{64} << 20;

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  name.remove_prefix(kStepPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0 ||
      step_name(step) != fmt::format("{}{}", kStepPrefix, name))
    return std::nullopt;
  return step;
}

std::vector<std::string> names_in(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  return names;
}

// A folder of this name, one that nobody has made before.
std::string new_folder(const std::string& folder, const std::string& start) {
  for (int i = 0; i < kAttemptsMost; ++i) {
    const std::string path = fmt::format("{}/{}{}{}-{}", folder, start, kAttemptMark, ::getpid(), i);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) throw Refused(fmt::format("{} cannot be made: {}", path, std::strerror(errno)));
  }
  throw Refused(fmt::format("{} is full of attempts that cannot be removed", folder));
}

void move_folder(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw Refused(fmt::format("{} cannot be renamed to {}: {}", from, to, std::strerror(errno)));
}

std::string away_name(const std::string& path) { return fmt::format("{}{}{}-old", path, kAttemptMark, ::getpid()); }

// The files of the ranks that torch.distributed.checkpoint has not consolidated.
std::vector<std::string> files_of_ranks(const std::string& folder) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("shard-") && name.ends_with(".safetensors")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The files of whole tensors that a folder has; nothing: it has none.
std::optional<std::vector<std::string>> files_of_whole(const std::string& folder,
                                                       const std::vector<std::string>& stems) {
  for (const std::string& stem : stems) {
    const std::string file = fmt::format("{}/{}.safetensors", folder, stem), index = file + ".index.json";
    if (fs::exists(index)) {
      std::vector<std::string> files = files_of_index(read_whole(index, kIndexBytesMax));
      for (std::string& name : files) name.insert(0, folder + "/");
      return files;
    }
    if (fs::exists(file)) return std::vector{file};
  }
  return std::nullopt;
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  const std::vector<std::string> names = names_in(folder, error);
  // Training must not begin anew because a file system is away.
  if (error && error != std::errc::no_such_file_or_directory)
    throw Refused(fmt::format("{} cannot be read: {}", folder, error.message()));
  for (const std::string& name : names)
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Manifest complete_manifest(const std::string& step_folder) {
  const std::string path = step_folder + "/" + kManifestName;
  try {
    Manifest manifest = parse_manifest(read_whole(path, kManifestBytesMax));
    for (const ManifestFile& file : manifest.files) {
      const RangeFile there(step_folder + "/" + file.name, RangeFile::Use::read);
      if (there.bytes() != file.bytes)
        there.refuse(fmt::format("has {} bytes, and should have {}", there.bytes(), file.bytes));
    }
    return manifest;
  } catch (const Refused& error) {
    if (std::string_view(error.what()).starts_with(step_folder)) throw;
    throw Refused(fmt::format("{}: {}", path, error.what()));
  }
}

std::optional<std::string> why_incomplete(const std::string& step_folder) {
  try {
    complete_manifest(step_folder);
  } catch (const Refused& error) {
    return error.what();
  }
  return std::nullopt;
}

std::int64_t newest_complete(const std::string& folder, std::int64_t below, std::vector<std::string>& damaged) {
  for (const std::int64_t step : steps_in(folder)) {
    if (step >= below) continue;
    const std::string path = folder + "/" + step_name(step);
    const auto why = why_incomplete(path);
    if (!why) return step;
    // The job that saves here may have taken it away in the meantime, because of keep_last.
    std::error_code error;
    if (fs::symlink_status(path, error).type() != fs::file_type::not_found) damaged.push_back(*why);
  }
  return -1;
}

std::string begin_attempt(const std::string& folder, std::int64_t step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) {
    const std::string why = error ? error.message() : std::strerror(ENOTDIR);
    throw Refused(fmt::format("the folder {} cannot be made: {}", folder, why));
  }
  std::error_code unread;  // then there is nothing to be removed
  for (const std::string& name : names_in(folder, unread))
    if (const auto mark = name.find(kAttemptMark); mark != std::string::npos && step_of(name.substr(0, mark)))
      fs::remove_all(fmt::format("{}/{}", folder, name), error);
  return new_folder(folder, step_name(step));
}

void make_files(const std::string& attempt, const Layout& layout) {
  for (const PlannedFile& planned : layout.files)
    RangeFile(attempt + "/" + planned.name, RangeFile::Use::create).close();
}

void begin_files(const std::string& attempt, const Layout& layout) {
  for (const PlannedFile& planned : layout.files) {
    RangeFile file(attempt + "/" + planned.name, RangeFile::Use::write);
    file.reserve(planned.bytes);
    file.write(0, planned.head.data(), planned.head.size());
    file.close();
  }
}

void finish_attempt(const std::string& folder, const std::string& attempt, std::int64_t step, bool sync) {
  const std::string path = folder + "/" + step_name(step);
  if (sync) sync_folder(attempt);
  struct stat facts {};
  std::string old;  // where the earlier one is
  if (::lstat(path.c_str(), &facts) != 0) {
    move_folder(attempt, path);
  } else if (::renameat2(AT_FDCWD, attempt.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    old = attempt;
  } else {
    old = put_in_place(attempt, path);
  }
  if (sync) sync_folder(folder);
  std::error_code error;
  if (!old.empty()) fs::remove_all(old, error);
}

std::string put_in_place(const std::string& attempt, const std::string& path) {
  const std::string away = away_name(path);
  move_folder(path, away);
  try {
    move_folder(attempt, path);
  } catch (const Refused&) {
    ::rename(away.c_str(), path.c_str());
    throw;
  }
  return away;
}

// Out of the names that are complete, so that a kill during the removal leaves no half of a step.
std::vector<std::string> take_old_steps(const std::string& folder, std::int64_t step, int keep) {
  std::vector<std::string> taken;
  if (keep <= 0) return taken;
  std::vector<std::int64_t> steps;
  try {
    steps = steps_in(folder);
  } catch (const Refused&) {
    return taken;
  }
  for (const std::int64_t old : steps) {
    const std::string path = fmt::format("{}/{}", folder, step_name(old)), away = away_name(path);
    std::error_code error;
    if (old > step || (!fs::exists(path + "/" + kManifestName, error) && !error)) continue;
    // A damaged one is none of the steps that are kept, and stays as long as too few newer ones are complete.
    if (keep > 0) {
      if (!why_incomplete(path)) --keep;
      continue;
    }
    fs::rename(path, away, error);
    if (!error) taken.push_back(away);
  }
  return taken;
}

void remove_folders(const std::vector<std::string>& folders) {
  std::error_code error;
  for (const std::string& folder : folders) fs::remove_all(folder, error);
}

std::vector<PartSum> write_parts(const std::string& attempt, const Layout& layout, const std::vector<Part>& parts,
                                 bool sync, Way way) {
  std::vector<const Part*> in_order;
  for (const Part& part : parts)
    if (part.count != 0) in_order.push_back(&part);
  std::sort(in_order.begin(), in_order.end(), [&](const Part* a, const Part* b) {
    return std::pair(layout.file_of[a->tensor], layout.begin_of[a->tensor]) <
           std::pair(layout.file_of[b->tensor], layout.begin_of[b->tensor]);
  });
  std::vector<PartSum> sums;
  std::unique_ptr<RangeFile> file;
  std::size_t number = 0;
  const auto end_file = [&] {
    if (file && sync) file->sync();
    if (file) file->close();
  };
  for (const Part* part : in_order) {
    if (!file || layout.file_of[part->tensor] != number) {
      end_file();
      number = layout.file_of[part->tensor];
      file = std::make_unique<RangeFile>(attempt + "/" + layout.files[number].name, RangeFile::Use::write);
      if (sync && way == Way::past_it) file->write_directly();
    }
    const std::uint64_t element = layout.tensors[part->tensor].element_bytes();
    const std::uint32_t sum =
        file->write(layout.begin_of[part->tensor] + part->begin * element, part->data, part->count * element);
    sums.push_back({part->tensor, part->begin, part->count, sum});
  }
  end_file();
  return sums;
}

std::vector<HeaderTensor> read_header(const std::string& path) {
  RangeFile file(path, RangeFile::Use::read);
  const std::uint64_t bytes = file.bytes();
  try {
    std::string first(std::min<std::uint64_t>(bytes, kLengthBytes), '\0');
    file.read_unsummed(0, first.data(), first.size());
    std::string header(header_length(first, bytes), '\0');
    file.read_unsummed(kLengthBytes, header.data(), header.size());
    return parse_header(header, bytes);
  } catch (const Refused& error) {
    if (std::string_view(error.what()).starts_with(path)) throw;
    file.refuse(fmt::format("is damaged: {}", error.what()));
  }
}

StoredTensors read_plain(const std::string& path, const std::vector<std::string>& stems) {
  StoredTensors stored;
  const auto whole = fs::is_directory(path) ? files_of_whole(path, stems) : std::vector{path};
  if (whole) {
    for (const std::string& file : *whole) stored.add(file, read_header(file));
    return stored;
  }
  const std::vector<std::string> of_ranks = files_of_ranks(path);
  if (of_ranks.empty())
    throw Refused(fmt::format("it has neither {}.safetensors nor its index", fmt::join(stems, ".safetensors, ")));
  for (const std::string& file : of_ranks) stored.add_rows(file, read_header(file));
  stored.check_whole();
  return stored;
}

}  // namespace dtrain::checkpoint
