# dtrain_add_test(NAME SOURCES ... [LINK ...] [LABELS ...] [TIMEOUT seconds] [RUN_SERIAL]): a Catch2 test executable whose
# cases become ctest tests. Its main() lives in dtrain_test_main, compiled once. The target LABEL_tests builds all
# of a label.
find_package(Catch2 REQUIRED)
include(Catch)

add_library(dtrain_test_main STATIC ${PROJECT_SOURCE_DIR}/test/support/catch_main.cc)
target_link_libraries(dtrain_test_main PUBLIC Catch2::Catch2)

function(dtrain_add_test name)
  cmake_parse_arguments(ARG "RUN_SERIAL" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE dtrain_test_main ${ARG_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/test/bin)
  dtrain_unity(${name} 0)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(DTRAIN_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 4")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT DTRAIN_SANITIZE AND NOT ARG_LABELS STREQUAL "sim")
    # A test runs for milliseconds: less optimised, it is there a third sooner. What it tests is compiled as it ships.
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
  endif()
  if(NOT TARGET ${ARG_LABELS}_tests)
    add_custom_target(${ARG_LABELS}_tests)
  endif()
  add_dependencies(${ARG_LABELS}_tests ${name})
  catch_discover_tests(${name} TEST_PREFIX "${name}: "
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${ARG_RUN_SERIAL}
      SKIP_REGULAR_EXPRESSION "skipped here: "
    ENVIRONMENT "DTRAIN_SOURCE_DIR=${PROJECT_SOURCE_DIR};DTRAIN_BIN_DIR=${PROJECT_BINARY_DIR}/bin")
endfunction()
