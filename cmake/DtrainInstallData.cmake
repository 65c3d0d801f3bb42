# What installed dtrain::data consists of, the component data: headers and static libraries, and what find_package(dtrain
# COMPONENTS data) needs to know.
set(place ${CMAKE_INSTALL_LIBDIR}/cmake/dtrain)
foreach(part order files shared parquet loader predict mixture data)
  set_target_properties(dtrain_${part} PROPERTIES EXPORT_NAME ${part})
  install(TARGETS dtrain_${part} EXPORT dtrainDataTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT data)
endforeach()
install(EXPORT dtrainDataTargets NAMESPACE dtrain:: DESTINATION ${place} COMPONENT data)
# The C interface is that of a shared library, which stays in the build folder.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/include/dtrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT data
  PATTERN *_loader_c.h EXCLUDE)
configure_file(${CMAKE_CURRENT_LIST_DIR}/dtrainDataConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/dtrainDataConfig.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/dtrainDataConfig.cmake ${CMAKE_CURRENT_LIST_DIR}/FindArrowWheel.cmake
  DESTINATION ${place} COMPONENT data)
