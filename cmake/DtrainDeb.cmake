# Debian packages by CPack (`make deb`): dtrain, the launcher, and libdtrain-dev, the training layer for C++ programs.
# DebMaintainer.cmake and DebFiles.cmake do the rest when they are made.
set(doc ${PROJECT_BINARY_DIR}/package/doc)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(REGEX REPLACE "^[^\n]*\n\n" "" license "${license}")
string(REGEX MATCH "Copyright[^\n]*" copyright "${license}")
string(REGEX REPLACE "^.*reserved\\.\n\n" "" license "${license}")
string(REGEX REPLACE "\n+$" "" license "${license}")
string(REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license "${license}")
string(REGEX REPLACE "^Copyright \\(c\\) " "" copyright "${copyright}")
file(CONFIGURE OUTPUT ${doc}/copyright CONTENT "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: dtrain

Files: *
Copyright: ${copyright}
License: BSD-3-Clause
 ${license}
" @ONLY)
foreach(package IN ITEMS "dtrain launcher" "libdtrain-dev library")
  separate_arguments(package)
  list(GET package 0 name)
  list(GET package 1 component)
  install(FILES ${doc}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
  install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dtrain)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/DebMaintainer.cmake)
# Each package's description has its own first line.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/DebFiles.cmake)
set(CPACK_COMPONENTS_ALL launcher)
if(DTRAIN_STRATEGIES)
  list(APPEND CPACK_COMPONENTS_ALL library)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_NAME dtrain)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_SECTION science)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_RECOMMENDS libssl3)
set(CPACK_COMPONENT_LAUNCHER_DESCRIPTION "launcher for distributed PyTorch programs
dtrain starts, watches and stops the worker processes of a distributed job.
It gives them the environment that torchrun gives, on one host or several.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libdtrain-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "dtrain, cmake")
if(DTRAIN_STRATEGIES)
  get_directory_property(LibTorch_VERSION DIRECTORY strategies DEFINITION LibTorch_VERSION)
endif()
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "distributed training for C++ programs with LibTorch
Headers, static library, CMake package and pkg-config file. The library was
compiled with LibTorch ${LibTorch_VERSION}, which comes from the torch wheel.")
include(CPack)
