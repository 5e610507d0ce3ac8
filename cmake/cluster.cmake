# Several daemons on etcd (src/serve/cluster), by gRPC's C core and protobuf-c. Without gRPC a daemon says that it was
# built without them. The policies are the library's.
file(GLOB BRAID_CLUSTER_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/cluster/*.c)
list(FILTER BRAID_CLUSTER_SOURCES EXCLUDE REGEX "_(test|bench|fuzz)\\.c$")
list(REMOVE_ITEM BRAID_CLUSTER_SOURCES ${BRAID_SERVE_POLICIES})
if(BRAID_GRPC)
  list(FILTER BRAID_CLUSTER_SOURCES EXCLUDE REGEX "/without\\.c$")
  set(BRAID_ETCD_DIR ${CMAKE_BINARY_DIR}/etcd-proto)
  file(MAKE_DIRECTORY ${BRAID_ETCD_DIR})
  add_custom_command(
    OUTPUT ${BRAID_ETCD_DIR}/etcd.pb-c.c ${BRAID_ETCD_DIR}/etcd.pb-c.h
    COMMAND ${PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR}/src/serve/cluster --c_out=${BRAID_ETCD_DIR} etcd.proto
    DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/cluster/etcd.proto)
  set_property(SOURCE ${BRAID_ETCD_DIR}/etcd.pb-c.c APPEND PROPERTY COMPILE_OPTIONS -Wno-pedantic
    -Wno-strict-prototypes)
  set_property(SOURCE ${BRAID_CLUSTER_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -I${BRAID_ETCD_DIR})
  list(APPEND BRAID_SERVE_SOURCES ${BRAID_ETCD_DIR}/etcd.pb-c.c)
else()
  list(FILTER BRAID_CLUSTER_SOURCES INCLUDE REGEX "/without\\.c$")
endif()
list(APPEND BRAID_SERVE_SOURCES ${BRAID_CLUSTER_SOURCES})
