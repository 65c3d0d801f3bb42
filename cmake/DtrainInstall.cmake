# What an installed library consists of: headers, static libraries, the CMake package, the pkg-config file.
include(CMakePackageConfigHelpers)

set(place ${CMAKE_INSTALL_LIBDIR}/cmake/dtrain)
foreach(part kernels config comm shards data_parallel parallel strategies)
  set_target_properties(dtrain_${part} PROPERTIES EXPORT_NAME ${part})
  install(TARGETS dtrain_${part} EXPORT dtrainTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endforeach()
install(EXPORT dtrainTargets NAMESPACE dtrain:: DESTINATION ${place} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/strategies/include/dtrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT library)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/dtrainConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/dtrainConfig.cmake INSTALL_DESTINATION ${place} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/dtrainConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/dtrainConfig.cmake ${PROJECT_BINARY_DIR}/package/dtrainConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake DESTINATION ${place} COMPONENT library)

get_target_property(definitions LibTorch::headers INTERFACE_COMPILE_DEFINITIONS)
set(torch_libraries -ltorch_cpu -lc10)
if(DTRAIN_CUDA)
  get_target_property(cuda_definitions LibTorch::cuda INTERFACE_COMPILE_DEFINITIONS)
  list(APPEND definitions ${cuda_definitions})
  list(APPEND torch_libraries -Wl,--no-as-needed -ltorch_cuda -lc10_cuda -Wl,--as-needed)
endif()
list(TRANSFORM definitions PREPEND -D)
list(JOIN definitions " " torch_definitions)
list(JOIN torch_libraries " " torch_libraries)
# `cmake --install --prefix` chooses the prefix later: the file tells it by where it lies.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/dtrain.pc.in ${PROJECT_BINARY_DIR}/package/dtrain.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/dtrain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
