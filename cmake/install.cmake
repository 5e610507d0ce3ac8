# What `make install` puts where: relocatable, so --prefix may be given at installation.
configure_file(${CMAKE_CURRENT_LIST_DIR}/braid.pc.in ${CMAKE_BINARY_DIR}/braid.pc @ONLY)
install(TARGETS braid_static ARCHIVE DESTINATION lib)
install(TARGETS braid_shared LIBRARY DESTINATION lib)
install(DIRECTORY include/braid DESTINATION include)
install(FILES ${CMAKE_BINARY_DIR}/braid.pc DESTINATION lib/pkgconfig)
if(TARGET braid)
  install(TARGETS braid RUNTIME DESTINATION bin)
endif()
