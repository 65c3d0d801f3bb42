# Compiler settings of every target of ours: warnings as errors, hardening, sanitizers, ccache.
# dtrain_add_library(NAME [SOURCES ...] [LINK ...]) makes a static library with them.

# A second clone hits what the first one compiled: paths below the project count as relative, and the folder of the
# compilation is no part of the key. Precompiled headers carry time stamps; without the sloppiness ccache would never hit
# on their users. -fpch-preprocess (dtrain_use_torch) belongs to it.
find_program(DTRAIN_CCACHE ccache)
if(DTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${DTRAIN_CCACHE})
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
  # Without the optimiser or some checks the sanitizers find less, but compilers need much less time.
  separate_arguments(how UNIX_COMMAND "${DTRAIN_SANITIZE_FLAGS}")
  target_compile_options(dtrain_compile INTERFACE
    -fsanitize=${DTRAIN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1 ${how})
  target_link_options(dtrain_compile INTERFACE -fsanitize=${DTRAIN_SANITIZE})
  if(DTRAIN_SANITIZE MATCHES "thread")
    # TSan does not model atomic_thread_fence, which Asio uses with well-understood effect.
    target_compile_options(dtrain_compile INTERFACE -Wno-tsan)
  endif()
else()
  # OpenSSF's list for gcc 12 and clang 14; checked by test/process/launcher/hardening_test.py. Older compilers warn of 3.
  set(fortify 2)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    set(fortify 3)
  endif()
  target_compile_options(dtrain_compile INTERFACE
    -U_FORTIFY_SOURCE $<$<CONFIG:Release,RelWithDebInfo>:-D_FORTIFY_SOURCE=${fortify}>
    -D_GLIBCXX_ASSERTIONS -fstack-protector-strong -fstack-clash-protection
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection=full>)
  target_link_options(dtrain_compile INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--gc-sections)
  target_compile_options(dtrain_compile INTERFACE -ffunction-sections -fdata-sections)
endif()

# With DTRAIN_UNITY the sources of a folder (a room) are compiled as one: most of the time goes into templates of Asio,
# fmt, JSON and torch, which are then instantiated once for a room. What a room declares outside of its headers must
# have a name of its own in the room. A source that must stay alone has SKIP_UNITY_BUILD_INCLUSION.
function(dtrain_unity target)
  if(NOT DTRAIN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH room)
    string(MAKE_C_IDENTIFIER "room_${room}" room)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room})
  endforeach()
endfunction()

function(dtrain_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC dtrain_compile ${ARG_LINK})
  dtrain_unity(${name})
endfunction()
