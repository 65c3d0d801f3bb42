#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

#if defined(__SANITIZE_THREAD__)
// An exception that two threads hold is counted inside libstdc++, which is not compiled for the sanitizer: to it the
// last holder deletes what the other has just read.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier): the sanitizer's name
  return "race:std::__exception_ptr::exception_ptr::_M_release\n";
}
#endif
