# What `make install` puts where: relocatable, so --prefix may be given at installation.
include(CMakePackageConfigHelpers)
configure_file(${CMAKE_CURRENT_LIST_DIR}/braid.pc.in ${CMAKE_BINARY_DIR}/braid.pc @ONLY)
install(TARGETS braid_static ARCHIVE DESTINATION lib)
install(TARGETS braid_shared LIBRARY DESTINATION lib)
install(DIRECTORY include/braid DESTINATION include)
configure_file(${CMAKE_CURRENT_LIST_DIR}/braid-client.pc.in ${CMAKE_BINARY_DIR}/braid-client.pc @ONLY)
install(TARGETS braid_client_static ARCHIVE DESTINATION lib)
install(TARGETS braid_client_shared LIBRARY DESTINATION lib)
install(FILES ${CMAKE_BINARY_DIR}/braid.pc ${CMAKE_BINARY_DIR}/braid-client.pc DESTINATION lib/pkgconfig)
# find_package(braid) gives braid::braid.
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/braid-config.cmake.in ${CMAKE_BINARY_DIR}/braid-config.cmake
  INSTALL_DESTINATION lib/cmake/braid)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/braid-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/braid-config.cmake ${CMAKE_BINARY_DIR}/braid-config-version.cmake
  DESTINATION lib/cmake/braid)
install(FILES LICENSE NOTICE README.md CHANGELOG.md DESTINATION share/doc/braid)
if(TARGET braid)
  install(TARGETS braid RUNTIME DESTINATION bin)
  if(TARGET braid-serve)
    install(TARGETS braid-serve RUNTIME DESTINATION bin)
  endif()
  if(TARGET braid-ucx)
    install(TARGETS braid-ucx RUNTIME DESTINATION bin)
  endif()
  install(FILES cli/completion.bash DESTINATION share/bash-completion/completions RENAME braid)
  # Manual pages are what --help says.
  set(pages ${CMAKE_BINARY_DIR}/man)
  add_custom_command(OUTPUT ${pages}/braid.1
    COMMAND ${CMAKE_SOURCE_DIR}/cmake/manual.sh ${pages} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:braid>
    DEPENDS braid ${CMAKE_SOURCE_DIR}/cmake/manual.sh VERBATIM)
  add_custom_target(manual ALL DEPENDS ${pages}/braid.1)
  install(DIRECTORY ${pages}/ DESTINATION share/man/man1)
endif()
