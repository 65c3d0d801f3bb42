#pragma once
// Tasks 0 to count - 1 on some threads.
#include <cstddef>
#include <functional>

namespace dtrain::data {

// Tasks begin in the order of their numbers. After an error no more begin; then the error of the lowest number is
// thrown, which is the same one however many threads there are.
void for_each_task(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& task);

}  // namespace dtrain::data
