# ingot_layer(NAME [DEPENDS layer...] [LIBS target...])
#
# One folder of src/ingot = one static library `ingot_NAME`. DEPENDS is at once the link list and the include
# rule: tools/check_layers.py reads the same calls and fails on any #include they do not allow. Every layer above
# base and core can be left out with -DINGOT_BUILD_<NAME>=OFF (and is, when a layer it needs is).
function(ingot_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBS" ${ARGN})
  string(TOUPPER ${name} upper)
  option(INGOT_BUILD_${upper} "Build the layer ${name}" ON)
  if(NOT INGOT_BUILD_${upper})
    return()
  endif()
  list(TRANSFORM ARG_DEPENDS REPLACE "/" "_" OUTPUT_VARIABLE deps)
  list(TRANSFORM deps PREPEND ingot_)
  foreach(dep ${deps})
    if(NOT TARGET ${dep})
      message(STATUS "layer ${name} is left out: it needs ${dep}")
      return()
    endif()
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")  # executables are added beside the layer
  if(name STREQUAL "kernels")  # its leaves are layers of their own
    list(FILTER sources EXCLUDE REGEX "/kernels/(cpu|cuda)/")
  endif()
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" target ingot_${name})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${deps} PRIVATE ${ARG_LIBS})
  if(name STREQUAL "kernels/cpu")
    # One copy of each SIMD kernel for AVX2, one for AVX-512 (and the portable one): more would only cost build time.
    target_compile_definitions(${target} PRIVATE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
  endif()
endfunction()
