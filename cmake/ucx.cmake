# braid-ucx (src/serve/bulk), the program that carries files between daemons by UCX: beside braid-serve, which does not
# depend on UCX itself, and says so where the program is not there.
pkg_check_modules(UCX IMPORTED_TARGET ucx)
if(NOT UCX_FOUND)
  message(STATUS "UCX is not there: braid-ucx is not built, and files travel between daemons by Braid's own protocol")
  return()
endif()
file(GLOB BRAID_UCX_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/bulk/ucx/*.c)
add_executable(braid-ucx ${BRAID_UCX_SOURCES})
target_include_directories(braid-ucx PRIVATE src)
target_link_libraries(braid-ucx PRIVATE braid_flags PkgConfig::UCX)
add_dependencies(braid-serve braid-ucx)
