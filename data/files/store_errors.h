#pragma once
// What an object store's refusal means, and what to do: from Arrow's message, in one line. Pure.
#include <string>

namespace dtrain::data {

// `scheme`: of the store.
std::string store_error_text(const std::string& scheme, const std::string& message);

// Whether such a line, in whatever it stands, says that the store did not answer.
bool is_no_answer(const std::string& text);

}  // namespace dtrain::data
