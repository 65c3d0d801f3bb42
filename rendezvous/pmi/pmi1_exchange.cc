// PMI-1 over the socket that the launcher has left open.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>

#include "rendezvous/base/printable.h"
#include "rendezvous/pmi/pmi_exchange.h"
#include "rendezvous/pmi/pmi_wire.h"

namespace dtrain {
namespace {

Error pmi_failed(const std::string& why) { return {ErrorKind::system, "PMI: " + why}; }

std::optional<int> number_of(const PmiVariables& env, const char* name) {
  const auto found = env.find(name);
  if (found == env.end()) return std::nullopt;
  int value = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

class Pmi1Exchange final : public PmiExchange {
 public:
  explicit Pmi1Exchange(int socket) : socket_(socket) {}

  Result<void> begin(const PmiVariables& env) {
    const auto rank = number_of(env, "PMI_RANK"), size = number_of(env, "PMI_SIZE"),
               local_rank = number_of(env, "MPI_LOCALRANKID"), local_size = number_of(env, "MPI_LOCALNRANKS");
    if (!rank || !size || !local_rank || !local_size || *rank >= *size || *local_rank >= *local_size)
      return pmi_failed("PMI_RANK, PMI_SIZE, MPI_LOCALRANKID and MPI_LOCALNRANKS contradict each other");
    facts_ = {.rank = *rank, .size = *size, .local_rank = *local_rank, .local_size = *local_size};
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) == 0) facts_.host = name;
    // Where several hosts of a test, or containers, have one name.
    if (const auto found = env.find("MPIR_CVAR_CH3_INTERFACE_HOSTNAME"); found != env.end())
      facts_.host = found->second;
    if (auto done = ask(pmi_line("init", {{"pmi_version", "1"}, {"pmi_subversion", "1"}}), "response_to_init"); !done)
      return done.error();
    auto names = ask(pmi_line("get_my_kvsname"), "my_kvsname");
    if (!names) return names.error();
    facts_.job = names->value("kvsname");
    return {};
  }

  Result<void> put(const std::string& name, const std::string& value) override {
    return done(ask(pmi_line("put", {{"kvsname", facts_.job}, {"key", key_of(facts_.rank, name)}, {"value", value}}),
                    "put_result"));
  }
  Result<void> fence() override { return done(ask(pmi_line("barrier_in"), "barrier_out")); }
  Result<std::string> get(int rank, const std::string& name) override {
    auto answer = ask(pmi_line("get", {{"kvsname", facts_.job}, {"key", key_of(rank, name)}}), "get_result");
    if (!answer) return answer.error();
    return answer->value("value");
  }
  Result<void> finish() override { return done(ask(pmi_line("finalize"), "finalize_ack")); }

 private:
  static std::string key_of(int rank, const std::string& name) { return fmt::format("dtrain-{}-{}", name, rank); }
  static Result<void> done(const Result<PmiLine>& answer) {
    return answer ? Result<void>() : Result<void>(answer.error());
  }

  Result<PmiLine> ask(const std::string& line, const std::string& answer) {
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t size = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return pmi_failed(system_error("the launcher cannot be reached", errno).message);
      sent += static_cast<std::size_t>(size);
    }
    auto came = read_line();
    if (!came) return came.error();
    auto parsed = parse_pmi_line(*came);
    if (!parsed) return parsed.error();
    if (parsed->command != answer)
      return pmi_failed(fmt::format("the launcher answers '{}', and not {}", printable(*came, 100), answer));
    if (const std::string code = parsed->value("rc"); !code.empty() && code != "0")
      return pmi_failed(fmt::format("the launcher refuses: '{}'", printable(*came, 100)));
    return parsed;
  }

  Result<std::string> read_line() {
    std::string line;
    while (line.size() < kLongestPmiLine) {
      char c = 0;
      const ssize_t size = ::read(socket_, &c, 1);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return pmi_failed(system_error("the launcher cannot be reached", errno).message);
      if (size == 0) return pmi_failed("the launcher is gone");
      if (c == '\n') return line;
      line += c;
    }
    return pmi_failed("the launcher's answer is too long");
  }

  int socket_;  // the launcher's; it stays open
};

}  // namespace

Result<std::unique_ptr<PmiExchange>> exchange_by_pmi1(const PmiVariables& env) {
  const auto socket = number_of(env, "PMI_FD");
  if (!socket)
    return pmi_failed("the launcher names no descriptor in PMI_FD; a port, as with mpiexec -pmi-port, does not do");
  auto exchange = std::make_unique<Pmi1Exchange>(*socket);
  if (auto begun = exchange->begin(env); !begun) return begun.error();
  return std::unique_ptr<PmiExchange>(std::move(exchange));
}

}  // namespace dtrain
