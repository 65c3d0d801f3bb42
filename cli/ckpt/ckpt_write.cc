#include "cli/ckpt/ckpt_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/ckpt/ckpt_numbers.h"
#include "cli/ckpt/ckpt_sum.h"
#include "launcher/base/inherited.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // a multiple of each element's size

// The source is damaged: its own kind of error, as dtrain's exit code says so.
struct Stop {
  std::string damage{};
  std::optional<Error> error{};
};

[[noreturn]] void stop_with(const std::string& what) { throw Stop{.error = system_error(what, errno)}; }

// Signals that would end the program wait until it has cleaned up. Those that it ignores, as under nohup, do nothing.
class EndingSignals {
 public:
  EndingSignals() {
    sigset_t ending;
    ::sigemptyset(&ending);
    for (const int number : ending_) ::sigaddset(&ending, number);
    ::pthread_sigmask(SIG_BLOCK, &ending, &before_);
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGXFSZ, &ignore, &too_large_);  // `ulimit -f` becomes an error of the write
  }
  ~EndingSignals() {
    ::sigaction(SIGXFSZ, &too_large_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  void stop_if_one_came() const {
    sigset_t pending;
    ::sigpending(&pending);
    for (const int number : ending_)
      if (::sigismember(&pending, number) == 1 && ::sigismember(&before_, number) == 0)
        throw Stop{.error = Error{ErrorKind::system, "a signal has stopped it", 0}};
  }

 private:
  const std::vector<int> ending_ =
      launcher::not_ignored({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGXCPU});
  sigset_t before_{};
  struct sigaction too_large_ {};
};

// A folder with another name, until keep_as().
class NewFolder {
 public:
  explicit NewFolder(const std::string& name) : path_(name + ".tmp-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) stop_with(printable(path_, 400) + " cannot be made");
    made_ = true;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::chmod(path_.c_str(), 0777 & ~mask);
  }
  ~NewFolder() {
    std::error_code none;
    if (made_) fs::remove_all(path_, none);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return path_; }
  void keep_as(const std::string& name) {
    int done = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE);
    // A file system that cannot refuse: an empty folder at most is replaced.
    if (done != 0 && (errno == EINVAL || errno == ENOSYS)) done = ::rename(path_.c_str(), name.c_str());
    if (done != 0) stop_with(printable(name, 400) + " cannot get its name");
    made_ = false;
  }

 private:
  std::string path_;
  bool made_ = false;
};

void sync_to_disk(int file, const std::string& path) {
  if (::fsync(file) != 0) stop_with(printable(path, 400) + " cannot be brought to the disk");
}

void sync_folder(const std::string& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) stop_with(printable(path, 400) + " cannot be opened");
  // Some file systems have no fsync of folders.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) stop_with(printable(path, 400) + " cannot be brought to the disk");
}

class OutFile {
 public:
  OutFile(std::string path, std::uint64_t bytes)
      : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (!file_) stop_with(printable(path_, 400) + " cannot be made");
    // A full disk is told at once, where the file system can reserve room.
    while (bytes != 0 && ::fallocate(file_.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
      if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) break;
      if (errno != EINTR) stop_with(printable(path_, 400) + " cannot be written");
    }
  }
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) stop_with(printable(path_, 400) + " cannot be written");
      bytes.remove_prefix(static_cast<std::size_t>(done));
    }
  }
  void end() { sync_to_disk(file_.get(), path_); }

 private:
  std::string path_;
  UniqueFd file_;
};

class InFile {
 public:
  explicit InFile(const CkptFile& file)
      : name_(file.path), file_(::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (!file_) stop_with(printable(name_, 400) + " cannot be opened");
  }
  void read(std::uint64_t at, std::string& buffer) const {
    for (std::size_t done = 0; done < buffer.size();) {
      const ssize_t got =
          ::pread(file_.get(), buffer.data() + done, buffer.size() - done, static_cast<off_t>(at + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) stop_with(printable(name_, 400) + " cannot be read");
      if (got == 0) throw Stop{.damage = printable(name_, 400) + ": it was cut while it was read"};
      done += static_cast<std::size_t>(got);
    }
  }

 private:
  std::string name_;
  UniqueFd file_;
};

void copy_tensor(const CkptFile& source, const CkptTensor& tensor, const CkptMove& move, OutFile& out,
                 const EndingSignals& signals) {
  const InFile in(source);
  const auto from = ckpt_float(tensor.type), to = ckpt_float(move.type);
  const bool converts = tensor.type != move.type;
  std::uint32_t sum = 0;
  std::uint64_t overflows = 0;
  std::string buffer, converted;
  for (std::uint64_t done = 0; done < tensor.bytes; done += buffer.size()) {
    signals.stop_if_one_came();
    buffer.resize(std::min<std::uint64_t>(kPieceBytes, tensor.bytes - done));
    in.read(tensor.begin + done, buffer);
    sum = ckpt_sum(sum, buffer);
    converted.clear();
    if (converts) overflows += convert_elements(*from, *to, buffer, converted);
    out.write(converts ? converted : buffer);
  }
  const std::string name = printable(tensor.name, 200);
  if (const auto told = source.sums.find(tensor.name); told != source.sums.end() && told->second != sum)
    throw Stop{.damage = fmt::format("{}: tensor {} is damaged: its crc32c is {:08x}, and should be {:08x}",
                                     printable(source.path, 400), name, sum, told->second)};
  if (overflows != 0)
    throw Stop{.error = usage_error(fmt::format("tensor {} has {} numbers that are too large for {}; choose another "
                                                "--dtype",
                                                name, overflows, move.type))};
}

void write_all(const Ckpt& ckpt, const CkptPlan& plan, const std::string& folder, CkptWritten& written) {
  const EndingSignals signals;
  NewFolder made(folder);
  for (const CkptNewFile& file : plan.files) {
    OutFile out(made.path() + "/" + file.name, file.bytes());
    out.write(file.head);
    for (const CkptMove& move : file.tensors)
      copy_tensor(ckpt.files[move.file], ckpt.files[move.file].tensors[move.tensor], move, out, signals);
    out.end();
    written.bytes += file.bytes();
  }
  if (!plan.index.empty()) {
    OutFile out(made.path() + "/model.safetensors.index.json", plan.index.size());
    out.write(plan.index);
    out.end();
  }
  sync_folder(made.path());
  made.keep_as(folder);
  const std::string around = fs::path(folder).parent_path().string();
  sync_folder(around.empty() ? "." : around);
}

}  // namespace

Result<CkptWritten> write_ckpt(const Ckpt& ckpt, const CkptPlan& plan, const std::string& folder) {
  std::error_code none;
  std::string name = folder;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  if (fs::exists(fs::symlink_status(name, none)))
    return usage_error(fmt::format("{} exists; name a folder that does not", printable(name, 400)));
  CkptWritten written;
  try {
    write_all(ckpt, plan, name, written);
  } catch (const Stop& stop) {
    if (stop.error) return *stop.error;
    written.damage = stop.damage;
  }
  return written;
}

}  // namespace dtrain::cli
