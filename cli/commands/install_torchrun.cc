#include "cli/commands/install_torchrun.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "cli/base/fail.h"
#include "cli/base/own_file.h"
#include "cli/base/print.h"
#include "cli/base/usage_error.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> install_torchrun(const std::string& asked) {
  std::error_code error;
  const auto found = own_file();
  if (!found) return found.error();
  const fs::path& self = *found;
  const fs::path folder = asked.empty() ? self.parent_path() : fs::canonical(asked, error);
  if (error || !fs::is_directory(folder, error)) return usage_error(printable(asked) + " is not a folder");

  const fs::path link = folder / "torchrun";
  // Beside dtrain it holds by name: both may be moved together.
  const fs::path target = folder == self.parent_path() ? self.filename() : self;
  const int failed = ::symlink(target.c_str(), link.c_str()) == 0 ? 0 : errno;
  const std::string name = printable(link.native());
  if (failed == 0) return name + " is dtrain now\n";
  if (failed != EEXIST) return system_error("cannot make " + name, failed);
  if (fs::equivalent(link, self, error)) return name + " is dtrain already\n";
  return usage_error(name +
                     " is there and is not this dtrain; remove it first, or choose another folder: dtrain "
                     "install-torchrun DIR");
}

}  // namespace

int install_torchrun_command(const std::vector<std::string>& words) {
  const auto done = install_torchrun(words.empty() ? "" : words[0]);
  return done ? print(*done) : fail(done.error());
}

}  // namespace dtrain::cli
