#pragma once
// The one place that knows which Catch2 is installed: 2.13 (Debian 12) or 3.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
