# The sources of dtrain-data and libdtrain_data.so, as a wheel brings them: dtrain_data/native.py compiles them for the
# pyarrow that it finds. units.json says which are compiled as one: a unit is a room. Each room of data/ is in a
# list here, which a test looks at, but those for C++ programs with torch: torch/ and predict/.
set(place dtrain_data/_sources)
set(program_rooms process together shared rows source apply recipe files objects cache commands entry script)
set(library_rooms loader parquet mixture flow node share files abi options order times)

# JSON of the units of these rooms, with `more` sources.
function(units_of_rooms result more)
  set(units "")
  foreach(room IN LISTS ARGN)
    file(GLOB sources RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cc)
    if(sources)
      list(JOIN sources "\", \"" sources)
      set(flags "")
      if(room STREQUAL recipe)
        set(flags "\"-O3\"")  # moments.cc
      elseif(room STREQUAL together)
        set(flags "\"-DDTRAIN_VERSION=\\\"${PROJECT_VERSION}\\\"\"")  # plan_file.cc
      endif()
      list(APPEND units "    {\"flags\": [${flags}], \"sources\": [\"${sources}\"]}")
    endif()
  endforeach()
  list(JOIN more "\", \"" more)
  list(APPEND units "    {\"flags\": [], \"sources\": [\"${more}\"]}")
  list(JOIN units ",\n" units)
  set(${result} "[\n${units}\n  ]" PARENT_SCOPE)
endfunction()

set(memory strategies/kept/available_memory.cc)
units_of_rooms(program "data/main.cc;${memory}" ${program_rooms})
units_of_rooms(library "${memory}" ${library_rooms})
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/data_units.json CONTENT
  "{\n  \"dtrain-data\": ${program},\n  \"libdtrain_data.so\": ${library}\n}\n" @ONLY)

install(FILES ${PROJECT_BINARY_DIR}/python/data_units.json DESTINATION ${place} RENAME units.json COMPONENT wheel)
install(FILES main.cc DESTINATION ${place}/data COMPONENT wheel)
foreach(room IN LISTS program_rooms library_rooms)
  install(DIRECTORY ${room} DESTINATION ${place}/data COMPONENT wheel FILES_MATCHING PATTERN "*.cc" PATTERN "*.h")
endforeach()
install(DIRECTORY arrow base os DESTINATION ${place}/data COMPONENT wheel FILES_MATCHING PATTERN "*.h")
install(DIRECTORY include/dtrain DESTINATION ${place}/data/include COMPONENT wheel)
install(FILES ${PROJECT_SOURCE_DIR}/strategies/kept/available_memory.cc
  ${PROJECT_SOURCE_DIR}/strategies/kept/available_memory.h DESTINATION ${place}/strategies/kept COMPONENT wheel)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/strategies/include/dtrain DESTINATION ${place}/strategies/include
  COMPONENT wheel)
# What cache/sha256.cc uses of OpenSSL 1.1 and 3: few machines have the headers, and nearly all have the library.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/evp.h CONTENT [[#pragma once
#include <cstddef>

constexpr std::size_t EVP_MAX_MD_SIZE = 64;

extern "C" {
struct evp_md_ctx_st;
struct evp_md_st;
struct engine_st;
evp_md_ctx_st* EVP_MD_CTX_new();
void EVP_MD_CTX_free(evp_md_ctx_st* context);
const evp_md_st* EVP_sha256();
int EVP_DigestInit_ex(evp_md_ctx_st* context, const evp_md_st* type, engine_st* engine);
int EVP_DigestUpdate(evp_md_ctx_st* context, const void* bytes, std::size_t size);
int EVP_DigestFinal_ex(evp_md_ctx_st* context, unsigned char* digest, unsigned int* size);
}
]] @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/python/evp.h DESTINATION ${place}/include/openssl COMPONENT wheel)
find_path(DTRAIN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
find_path(DTRAIN_FMT_INCLUDE fmt/format.h REQUIRED)
install(DIRECTORY ${DTRAIN_JSON_INCLUDE}/nlohmann ${DTRAIN_FMT_INCLUDE}/fmt DESTINATION ${place}/include COMPONENT wheel)
