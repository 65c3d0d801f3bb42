#include "cli/commands/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/commands/ask_secretly.h"
#include "cli/machine/host.h"
#include "cli/machine/user_token.h"
#include "cli/parse/command_words.h"
#include "launcher/job/exit_codes.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/credentials/job_secret.h"
#include "rendezvous/credentials/join_code.h"

namespace dtrain::cli {
namespace {

struct TokenAsked {
  bool make = false;
  bool show_code = false;  // of what is made
  bool join = false;       // make it of a code that the user types
  std::string file;        // empty: not said
};

Result<TokenAsked> parse_token(const std::vector<std::string>& words) {
  auto flags = command_words(CommandId::token, words);
  if (!flags) return flags.error();
  TokenAsked asked;
  asked.show_code = flags->contains("code");
  asked.join = flags->contains("join");
  asked.make = flags->contains("new") || asked.show_code || asked.join;
  asked.file = (*flags)["file"];
  if (asked.show_code && asked.join)
    return usage_error("--code makes a code and --join asks for one: use one of the two");
  return asked;
}

// Of a moment.
struct WipedCode {
  std::string text;
  ~WipedCode() { wipe(text.data(), text.size()); }
};

// To the terminal alone: what a program prints may end up in a log.
Result<void> show_code(const std::string& code) {
  const UniqueFd terminal(::open("/dev/tty", O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!terminal)
    return usage_error("--code shows the join code on a terminal, but there is none: use --new, and copy the file");
  WipedCode line{fmt::format("join code: {}\n", code)};
  if (::write(terminal.get(), line.text.data(), line.text.size()) == static_cast<ssize_t>(line.text.size())) return {};
  return system_error("cannot write to the terminal", errno);
}

Result<JobSecret> secret_for(const TokenAsked& asked, WipedCode& code) {
  if (asked.join) {
    if (auto typed = ask_secretly("join code: ", code.text); !typed) return typed.error();
    return secret_of_join_code(code.text);
  }
  if (!asked.show_code) return JobSecret::generate();
  auto made = make_join_code();
  if (!made) return made.error();
  code.text = std::move(*made);
  return secret_of_join_code(code.text);
}

// ~/.config/dtrain, and ~/.config if need be: for this user alone.
Result<void> make_folders(const std::string& file) {
  for (std::size_t slash = file.find('/', 1); slash != std::string::npos; slash = file.find('/', slash + 1)) {
    const std::string folder = file.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      struct stat facts = {};
      const int error = errno;
      if (stat(folder.c_str(), &facts) != 0) return system_error("cannot make the folder " + folder, error);
    }
  }
  return {};
}

Result<std::string> made(const TokenAsked& asked, const Host& host) {
  const std::string file = asked.file.empty() ? usual_token_file(host) : asked.file;
  if (file.empty()) return usage_error("HOME is not set: name a file with --file FILE");
  if (asked.file.empty())
    if (auto done = make_folders(file); !done) return done.error();
  WipedCode code;
  auto secret = secret_for(asked, code);
  if (!secret) return secret.error();
  auto fingerprint = secret->fingerprint();
  if (!fingerprint) return fingerprint.error();
  if (auto done = secret->write_new(file); !done) return done.error();
  if (asked.show_code) {
    if (auto shown = show_code(code.text); !shown) return ::unlink(file.c_str()), shown.error();
    return fmt::format(
        "new token in {}, fingerprint {}\nOn every other node: dtrain token --join, and type the code.\n", file,
        *fingerprint);
  }
  if (asked.join) return fmt::format("token in {}, fingerprint {}\n", file, *fingerprint);
  const std::string use = asked.file.empty() ? "" : fmt::format(" and use --token-file {}", shell_quoted(file));
  return fmt::format("new token in {}, fingerprint {}\nCopy the file to every node (mode 0600){}.\n", file,
                     *fingerprint, use);
}

Result<std::string> shown(const TokenAsked& asked, const Host& host) {
  std::string where;
  auto secret = find_token(host, asked.file, &where);
  if (!secret) return secret.error();
  auto fingerprint = secret->fingerprint();
  if (!fingerprint) return fingerprint.error();
  return fmt::format("token of {}, fingerprint {}\n", where, *fingerprint);
}

}  // namespace

int token_command(const std::vector<std::string>& words) {
  auto asked = parse_token(words);
  const Host host = this_host();
  Result<std::string> text = !asked        ? Result<std::string>(asked.error())
                             : asked->make ? made(*asked, host)
                                           : shown(*asked, host);
  if (!text) return fail(text.error());
  const bool told = std::fputs(text->c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return told ? 0 : launcher::kExitOwnFailure;
}

}  // namespace dtrain::cli
