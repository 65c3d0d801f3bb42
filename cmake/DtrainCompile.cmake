# Compiler settings of every target of ours: warnings, hardening, sanitizers, ccache.
# dtrain_add_library(NAME [SOURCES ...] [LINK ...]) makes a static library; of its users it demands C++20 and LINK.

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH DTRAIN_ROOT)

# A second clone hits what the first one compiled: paths below the project count as relative, and the folder of the
# compilation is no part of the key. Precompiled headers carry time stamps; without the sloppiness ccache would never hit
# on their users. -fpch-preprocess (dtrain_use_torch) belongs to it.
find_program(DTRAIN_CCACHE ccache)
if(DTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${DTRAIN_ROOT} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${DTRAIN_CCACHE})
endif()

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported()

# Of the folder that includes this file and of those below: what a user's project links gets none of it.
include_directories(${DTRAIN_ROOT})
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Wformat=2>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Werror=format-security;-fno-strict-aliasing>")
if(DTRAIN_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(DTRAIN_UNITY AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # For clang a parameter shadows what another source of the batch has in its unnamed namespace; g++ looks after the rest.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside its own coroutine frames and inlined std::string code.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-maybe-uninitialized>")
endif()

if(DTRAIN_SANITIZE)
  # Without the optimiser or some checks the sanitizers find less, but compilers need much less time.
  separate_arguments(how UNIX_COMMAND "${DTRAIN_SANITIZE_FLAGS}")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${DTRAIN_SANITIZE};-fno-omit-frame-pointer>"
    "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all;-g1;${how}>")
  add_link_options(-fsanitize=${DTRAIN_SANITIZE})
  if(DTRAIN_SANITIZE MATCHES "thread")
    # TSan does not model atomic_thread_fence, which Asio uses with well-understood effect.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
  endif()
else()
  # -O3 takes a tenth more time to compile, and nothing that is measured is faster for it.
  add_compile_options("$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O2>")
  # OpenSSF's list for gcc 12 and clang 14; checked by test/process/launcher/hardening_test.py. Older compilers warn of 3.
  set(fortify 2)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    set(fortify 3)
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE>"
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release,RelWithDebInfo>>:-D_FORTIFY_SOURCE=${fortify}>"
    "$<$<COMPILE_LANGUAGE:CXX>:-D_GLIBCXX_ASSERTIONS;-fstack-protector-strong;-fstack-clash-protection>"
    "$<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections;-fdata-sections>")
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fcf-protection=full>)
  endif()
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack -Wl,--gc-sections)
endif()

# dtrain_waits([LEVEL]): what this folder builds waits for processes and messages. With -O1, if no LEVEL is named, it is
# there in two thirds of the time.
macro(dtrain_waits)
  set(level "${ARGN}")
  if(NOT level)
    set(level -O1)
  endif()
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${level}>)
endmacro()

# With DTRAIN_UNITY the sources of neighbouring folders (rooms) are compiled as one: most of the time goes into templates
# of Asio, fmt, JSON and torch, which are then instantiated once for all of them. What a library's sources declare outside
# of headers must have a name of its own in the library (docs/adr/0104). A source that must stay alone has
# SKIP_UNITY_BUILD_INCLUSION. A batch has BYTES at most, or one room.
function(dtrain_unity target bytes)
  if(NOT DTRAIN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  set(rooms "")
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH room)
    if(room STREQUAL "")
      set(room .)
    endif()
    list(APPEND rooms "${room}")
    list(APPEND "in_${room}" ${source})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  list(SORT rooms)
  set(batch "")
  set(filled 0)
  foreach(room IN LISTS rooms)
    set(size 0)
    foreach(source IN LISTS "in_${room}")
      cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE file)
      file(SIZE ${file} own)
      math(EXPR size "${size} + ${own}")
    endforeach()
    math(EXPR filled "${filled} + ${size}")
    if(batch STREQUAL "" OR filled GREATER bytes)
      string(MAKE_C_IDENTIFIER "from_${room}" batch)
      set(filled ${size})
    endif()
    set_source_files_properties(${in_${room}} PROPERTIES UNITY_GROUP ${batch})
  endforeach()
endfunction()

function(dtrain_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  target_compile_features(${name} PUBLIC cxx_std_20)
  dtrain_unity(${name} 160000)
endfunction()
