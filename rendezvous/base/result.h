#pragma once
// Result<T>: a value or an Error. Used for everything that can fail for a reason outside the program (user input,
// the operating system, the network). Broken invariants are not errors: see check.h.
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace dtrain {

// What kind of thing went wrong; decides dtrain's exit code (docs/exit-codes.md).
enum class ErrorKind {
  usage,           // the command line or environment makes no sense: 2
  not_found,       // the program does not exist: 127
  not_executable,  // it exists but cannot be executed: 126
  unavailable,     // what is asked for is not free at the moment: 75
  system,          // the operating system refused something dtrain needs: 125
};

struct Error {
  ErrorKind kind = ErrorKind::system;
  // One line for the user: what, where, and what to do next. No trailing period or newline.
  std::string message;
  // errno of the failing call, 0 if there was none.
  int errno_value = 0;

  // The same error with `where: ` put before its message.
  [[nodiscard]] Error in(const std::string& where) const { return {kind, where + ": " + message, errno_value}; }
};

// Build an Error from a failing system call: "what: strerror(errno_value)".
Error system_error(const std::string& what, int errno_value);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  const Error& error() const { return std::get<1>(state_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace dtrain
