# Files X_isa.c are compiled once for every instruction set (src/backend/cpu/isa.h): each set gets a file that names it
# and includes the text.
# Files X_dot_isa.c have one more set, with dot products of bytes.
set(BRAID_ISA_SETS base)
set(BRAID_DOT_ISA_SETS base)
set(BRAID_ISA_OPTIONS_base "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND BRAID_ISA_SETS v3 v4)
  list(APPEND BRAID_DOT_ISA_SETS v3 v4 vnni)
  set(BRAID_ISA_OPTIONS_v3 -march=x86-64-v3)
  set(BRAID_ISA_OPTIONS_v4 -march=x86-64-v4 -mprefer-vector-width=512)
  set(BRAID_ISA_OPTIONS_vnni ${BRAID_ISA_OPTIONS_v4} -mavx512vnni)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND BRAID_DOT_ISA_SETS dotprod)
  set(BRAID_ISA_OPTIONS_dotprod -march=armv8.2-a+dotprod)
endif()
# Matrix products may contract: they run in one order on any number of threads, but not to the same bits on any machine.
# All of their tiles must: GCC 13 leaves multiplications apart where it takes a sum for a chain that these would delay,
# in some tiles and not in others, and rows would depend on the tile that they are in.
# Clang contracts each expression where it is told to, and else what lies in one block.
set(BRAID_ISA_OPTIONS_gemm_isa -ffp-contract=on)
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  set(BRAID_ISA_OPTIONS_gemm_isa -ffp-contract=fast --param=avoid-fma-max-bits=0)
endif()
# Without it comparisons of floating-point numbers stay branches, but for AVX-512.
set(BRAID_ISA_OPTIONS -fno-trapping-math)

# Replaces the files X_isa.c in the list of sources `list`.
function(braid_isa_sources list)
  set(sources ${${list}})
  set(texts ${sources})
  list(FILTER texts INCLUDE REGEX "_isa\\.c$")
  list(REMOVE_ITEM sources ${texts})
  foreach(text ${texts})
    get_filename_component(name ${text} NAME_WE)
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/src ${text})
    string(REPLACE "/" "_" file ${path})
    set(sets ${BRAID_ISA_SETS})
    if(name MATCHES "_dot_isa$")
      set(sets ${BRAID_DOT_ISA_SETS})
    endif()
    foreach(isa ${sets})
      set(source ${CMAKE_BINARY_DIR}/generated/isa/${isa}_${file})
      file(CONFIGURE OUTPUT ${source} CONTENT "#define BRAID_ISA_SUFFIX ${isa}\n#include \"${path}\"\n")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "${BRAID_ISA_OPTIONS};${BRAID_ISA_OPTIONS_${isa}};${BRAID_ISA_OPTIONS_${name}}")
      list(APPEND sources ${source})
    endforeach()
  endforeach()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()
