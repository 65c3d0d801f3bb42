// See uncaught.h.
#include "strategies/session/uncaught.h"

#include <cxxabi.h>

#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "strategies/comm/blame/error_file.h"
#include "strategies/comm/blame/new_file.h"
#include "strategies/torch/pch.h"

namespace dtrain {
namespace {

std::string& error_file() {
  static auto* path = new std::string;  // exceptions may come when statics are gone
  return *path;
}

std::terminate_handler earlier = nullptr;

std::string type_of_current_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? name.get() : type->name();
}

// Without the C++ frames that torch adds.
std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "";
  }
}

[[noreturn]] void on_terminate() noexcept {
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      const std::string type = type_of_current_exception(), text = text_of(error);
      write_new_file(error_file(), uncaught_json(text.empty() ? type : type + ": " + text, std::time(nullptr)));
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for it; the handler of before tells more
    }
  }
  if (earlier != nullptr) earlier();
  std::abort();
}

}  // namespace

void tell_uncaught_exceptions() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
    if (path == nullptr || *path == 0) return;
    error_file() = path;
    earlier = std::set_terminate(on_terminate);
  });
}

}  // namespace dtrain
