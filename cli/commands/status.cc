#include "cli/commands/status.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/base/fail.h"
#include "cli/base/text.h"
#include "cli/commands/status_text.h"
#include "cli/parse/command_words.h"
#include "launcher/status/status_folder.h"
#include "launcher/status/status_report.h"

namespace dtrain::cli {
namespace {

using Clock = std::chrono::steady_clock;
using OrderedJson = nlohmann::ordered_json;

constexpr auto kAnswers = std::chrono::seconds(2);  // an agent that is stopped does not
constexpr int kNothingThere = 1;

struct StatusAsked {
  std::string job;  // empty: all
  bool json = false;
};

Result<StatusAsked> parse_status(const std::vector<std::string>& words) {
  auto flags = command_words(CommandId::status, words, Unknown::repeated);
  if (!flags) return flags.error();
  return StatusAsked{(*flags)["job"], flags->contains("json")};
}

// All that comes until the end of the connection.
Result<std::string> read_answer(int socket) {
  const auto until = Clock::now() + kAnswers;
  std::string answer;
  std::vector<char> buffer(std::size_t{16} << 10);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wait{socket, POLLIN, 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) == 0)
      return Error{ErrorKind::system, "it does not answer"};
    const ssize_t n = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n == 0) return answer;
    if (n < 0 && errno != EAGAIN && errno != EINTR) return system_error("its answer", errno);
    if (n > 0) answer.append(buffer.data(), static_cast<std::size_t>(n));
    if (answer.size() > 2 * launcher::kStatusBytes) return Error{ErrorKind::system, "its answer has no end"};
  }
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

Result<OrderedJson> ask(const launcher::StatusPeer& peer) {
  // A full queue: nobody has taken what came before.
  if (peer.error == EAGAIN) return Error{ErrorKind::system, "it does not answer"};
  if (peer.error != 0) return system_error("its socket", peer.error);
  if (!same_user(peer.connected.get())) return Error{ErrorKind::system, "it is another user's"};
  auto text = read_answer(peer.connected.get());
  if (!text) return text.error();
  OrderedJson answer = OrderedJson::parse(*text, nullptr, false);
  if (!answer.is_object()) return Error{ErrorKind::system, "its answer is not JSON; is it another version of dtrain?"};
  return answer;
}

// Of a server only what it has of this job.
bool is_of_job(OrderedJson& answer, const std::string& job) {
  if (job.empty()) return true;
  if (!is_of_server(answer)) return answer.value("job", std::string()) == job;
  OrderedJson jobs = OrderedJson::array();
  for (const OrderedJson& one : answer.value("jobs", OrderedJson::array()))
    if (one.is_object() && one.value("job", std::string()) == job) jobs.push_back(one);
  answer["jobs"] = jobs;
  return !jobs.empty();
}

void collect(const std::string& folder, const std::string& job, std::vector<OrderedJson>& answers) {
  struct stat facts {};
  if (::lstat(folder.c_str(), &facts) != 0) return;
  if (auto good = launcher::check_status_folder(folder); !good) {
    std::fprintf(stderr, "dtrain: %s\n", good.error().message.c_str());
    return;
  }
  for (const launcher::StatusPeer& peer : launcher::connect_to_status_folder(folder)) {
    auto answer = ask(peer);
    if (!answer)
      std::fprintf(stderr, "dtrain: process %d: %s\n", peer.pid, printable(answer.error().message).c_str());
    else if (const int more = unlisted_jobs(*answer); is_of_job(*answer, job))
      answers.push_back(std::move(*answer));
    else if (more > 0)
      std::fprintf(stderr, "dtrain: the server of process %d has %d more jobs, which it does not list\n", peer.pid,
                   more);
  }
}

}  // namespace

int status_command(const std::vector<std::string>& words) {
  auto asked = parse_status(words);
  if (!asked) return fail(asked.error());
  std::vector<OrderedJson> answers;
  for (const std::string& folder : launcher::status_folders()) collect(folder, asked->job, answers);
  std::string text;
  if (asked->json) {
    OrderedJson all = {{"jobs", OrderedJson::array()}};
    for (const OrderedJson& answer : answers) all[is_of_server(answer) ? "servers" : "jobs"].push_back(answer);
    text = all.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  } else {
    for (const OrderedJson& answer : answers) {
      text += (text.empty() ? "" : "\n") + status_text(answer);
      const int more = asked->job.empty() ? unlisted_jobs(answer) : 0;
      if (more > 0) text += fmt::format("  and {} more\n", more);
    }
  }
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return fail(system_error("standard output", errno));
  if (!answers.empty()) return 0;
  if (!asked->json)
    std::fprintf(stderr, "dtrain: no job %sof yours on this host\n",
                 asked->job.empty() ? "" : (printable(asked->job) + " ").c_str());
  return kNothingThere;
}

}  // namespace dtrain::cli
