# Arrow and Parquet for C++ from the pip wheel `pyarrow`, as imported targets. Debian 12 has no packages of them. The wheel has
# headers and libraries, but neither a CMake package nor library names without a version.
#
# Where it looks, in this order:
#   ArrowWheel_ROOT       the folder that holds include/ and libarrow.so.NUMBER (site-packages/pyarrow)
#   DTRAIN_TORCH_PYTHON   the Python whose torch is used (FindLibTorch.cmake)
#   .venv/bin/python of the project, of dtrain, or of $VIRTUAL_ENV or $CONDA_PREFIX, or python3
#
# What it makes:
#   ArrowWheel::parquet   libparquet and libarrow with their headers (as system headers); programs of the build tree find the
#                         libraries through their run path
#   ArrowWheel::compute   the same with libarrow_compute: call arrow::compute::Initialize() before its functions are used
#   ArrowWheel::stores    libarrow with its file systems for object stores; S3's is a library of its own in newer wheels
#   ArrowWheel_VERSION, ArrowWheel_PREFIX, ArrowWheel_HOW: a sentence on how to get it

set(ArrowWheel_HOW "`pip install pyarrow` into the environment that has torch, or choose one: -DArrowWheel_ROOT=FOLDER (with include/ and libarrow.so.*).")

# find_spec locates the package without importing it.
set(ArrowWheel_PREFIX "")
foreach(root IN ITEMS "${ArrowWheel_ROOT}" "$ENV{ArrowWheel_ROOT}")
  if(NOT ArrowWheel_PREFIX AND root)
    file(REAL_PATH "${root}" ArrowWheel_PREFIX)
  endif()
endforeach()
if(NOT ArrowWheel_PREFIX)
  find_program(_arrow_python3 python3 NO_CACHE)
  foreach(python "${DTRAIN_TORCH_PYTHON}" "${CMAKE_SOURCE_DIR}/.venv/bin/python"
      "${CMAKE_CURRENT_LIST_DIR}/../.venv/bin/python" "$ENV{VIRTUAL_ENV}/bin/python" "$ENV{CONDA_PREFIX}/bin/python"
      "${_arrow_python3}")
    if(NOT ArrowWheel_PREFIX AND EXISTS "${python}")
      execute_process(
        COMMAND "${python}" -c
          "import importlib.util as u; s = u.find_spec('pyarrow'); print(s.submodule_search_locations[0] if s else '')"
        OUTPUT_VARIABLE ArrowWheel_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endforeach()
endif()

set(ArrowWheel_VERSION "")
set(_arrow_version_header "${ArrowWheel_PREFIX}/include/arrow/util/config.h")
if(ArrowWheel_PREFIX AND EXISTS "${_arrow_version_header}")
  file(STRINGS "${_arrow_version_header}" _arrow_line REGEX "#define ARROW_VERSION_STRING \"")
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" ArrowWheel_VERSION "${_arrow_line}")
endif()
# The number in their names goes with the version: 2600 for 26.0.
foreach(name arrow parquet arrow_compute arrow_s3)
  file(GLOB _arrow_found "${ArrowWheel_PREFIX}/lib${name}.so.[0-9]*")
  list(FILTER _arrow_found INCLUDE REGEX "[.]so[.][0-9]+$")
  list(LENGTH _arrow_found _arrow_count)
  set(ArrowWheel_${name}_LIBRARY "")
  if(ArrowWheel_PREFIX AND _arrow_count EQUAL 1)
    set(ArrowWheel_${name}_LIBRARY "${_arrow_found}")
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ArrowWheel
  REQUIRED_VARS ArrowWheel_PREFIX ArrowWheel_VERSION ArrowWheel_arrow_LIBRARY ArrowWheel_parquet_LIBRARY
    ArrowWheel_arrow_compute_LIBRARY
  VERSION_VAR ArrowWheel_VERSION
  REASON_FAILURE_MESSAGE "${ArrowWheel_HOW}")

if(ArrowWheel_FOUND AND NOT TARGET ArrowWheel::parquet)
  foreach(name arrow parquet arrow_compute)
    add_library(ArrowWheel::lib${name} SHARED IMPORTED GLOBAL)
    set_target_properties(ArrowWheel::lib${name} PROPERTIES IMPORTED_LOCATION "${ArrowWheel_${name}_LIBRARY}")
  endforeach()
  add_library(ArrowWheel::parquet INTERFACE IMPORTED GLOBAL)
  target_include_directories(ArrowWheel::parquet SYSTEM INTERFACE "${ArrowWheel_PREFIX}/include")
  target_link_libraries(ArrowWheel::parquet INTERFACE ArrowWheel::libparquet ArrowWheel::libarrow)
  target_compile_features(ArrowWheel::parquet INTERFACE cxx_std_20)
  add_library(ArrowWheel::compute INTERFACE IMPORTED GLOBAL)
  target_link_libraries(ArrowWheel::compute INTERFACE ArrowWheel::parquet ArrowWheel::libarrow_compute)
  add_library(ArrowWheel::stores INTERFACE IMPORTED GLOBAL)
  target_link_libraries(ArrowWheel::stores INTERFACE ArrowWheel::parquet)
  if(ArrowWheel_arrow_s3_LIBRARY)
    add_library(ArrowWheel::libarrow_s3 SHARED IMPORTED GLOBAL)
    set_target_properties(ArrowWheel::libarrow_s3 PROPERTIES IMPORTED_LOCATION "${ArrowWheel_arrow_s3_LIBRARY}")
    target_link_libraries(ArrowWheel::stores INTERFACE ArrowWheel::libarrow_s3)
  endif()
endif()
