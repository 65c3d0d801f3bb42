# Compiler settings of every target of ours: warnings as errors, hardening, sanitizers, ccache.
# dtrain_add_library(NAME [SOURCES ...] [LINK ...]) makes a static library with them.

find_program(DTRAIN_CCACHE ccache)
if(DTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DTRAIN_CCACHE})
  # Precompiled headers carry time stamps; without this ccache would never hit on their users.
  set(ENV{CCACHE_SLOPPINESS} "pch_defines,time_macros,include_file_mtime,include_file_ctime")
endif()

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported()

add_library(dtrain_compile INTERFACE)
target_include_directories(dtrain_compile INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(dtrain_compile INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wformat=2 -Werror=format-security -Werror
  -fno-strict-aliasing)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside its own coroutine frames and inlined std::string code.
  target_compile_options(dtrain_compile INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()

if(DTRAIN_SANITIZE)
  # -O1: the sanitizers find the same, and compilers need a third less time.
  target_compile_options(dtrain_compile INTERFACE
    -fsanitize=${DTRAIN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -O1 -g1)
  target_link_options(dtrain_compile INTERFACE -fsanitize=${DTRAIN_SANITIZE})
  if(DTRAIN_SANITIZE MATCHES "thread")
    # TSan does not model atomic_thread_fence, which Asio uses with well-understood effect.
    target_compile_options(dtrain_compile INTERFACE -Wno-tsan)
  endif()
else()
  # OpenSSF's list for gcc 12 and clang 14; checked by test/process/launcher/hardening_test.py.
  target_compile_options(dtrain_compile INTERFACE
    -U_FORTIFY_SOURCE $<$<CONFIG:Release,RelWithDebInfo>:-D_FORTIFY_SOURCE=2>
    -D_GLIBCXX_ASSERTIONS -fstack-protector-strong -fstack-clash-protection
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection=full>)
  target_link_options(dtrain_compile INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--gc-sections)
  target_compile_options(dtrain_compile INTERFACE -ffunction-sections -fdata-sections)
endif()

function(dtrain_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC dtrain_compile ${ARG_LINK})
endfunction()
