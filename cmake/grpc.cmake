# The daemon's gRPC front end (src/serve/grpc), against gRPC's C core and protobuf-c. Without gRPC the daemon says that it
# was built without it. pkg-config's list for it is of a static link, and takes it twelve seconds; the shared library
# needs two.
find_path(GRPC_INCLUDE_DIR grpc/grpc.h)
find_library(GRPC_LIBRARY grpc)
find_library(GPR_LIBRARY gpr)
if(GRPC_INCLUDE_DIR AND GRPC_LIBRARY AND GPR_LIBRARY)
  set(BRAID_GRPC_DIR ${CMAKE_BINARY_DIR}/grpc-proto)
  file(MAKE_DIRECTORY ${BRAID_GRPC_DIR})
  set(BRAID_GRPC_MESSAGES "")
  foreach(name inference health)
    add_custom_command(
      OUTPUT ${BRAID_GRPC_DIR}/${name}.pb-c.c ${BRAID_GRPC_DIR}/${name}.pb-c.h
      COMMAND ${PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR}/src/serve/grpc --c_out=${BRAID_GRPC_DIR} ${name}.proto
      DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/grpc/${name}.proto)
    list(APPEND BRAID_GRPC_MESSAGES ${BRAID_GRPC_DIR}/${name}.pb-c.c)
  endforeach()
  set_property(SOURCE ${BRAID_GRPC_MESSAGES} APPEND PROPERTY COMPILE_OPTIONS -Wno-pedantic -Wno-strict-prototypes)
  file(GLOB BRAID_GRPC_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/grpc/*.c)
  list(FILTER BRAID_GRPC_SOURCES EXCLUDE REGEX "_(test|bench|fuzz)\\.c$|/without\\.c$")
  set_property(SOURCE ${BRAID_GRPC_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -I${BRAID_GRPC_DIR})
  if(BRAID_FUZZ)
    set(readers ${BRAID_GRPC_SOURCES})
    list(FILTER readers INCLUDE REGEX "/(wire|infer_read|infer_fill)\\.c$")
    set_property(SOURCE ${readers} APPEND PROPERTY COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
  endif()
  set(BRAID_GRPC ON) # its tests are built
  list(APPEND BRAID_SERVE_SOURCES ${BRAID_GRPC_SOURCES} ${BRAID_GRPC_MESSAGES})
  list(APPEND BRAID_SERVE_LIBRARIES ${GRPC_LIBRARY} ${GPR_LIBRARY})
else()
  list(APPEND BRAID_SERVE_SOURCES ${CMAKE_SOURCE_DIR}/src/serve/grpc/without.c)
endif()
