# Build-wide settings. Everything a person may want to switch is an option here.
# As a part of another project (add_subdirectory, FetchContent) Ingot is its libraries alone.
option(INGOT_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(INGOT_BENCH "Build the benchmarks" OFF)
option(INGOT_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(INGOT_PYTHON "Build the Python package's module (needs nanobind)" OFF)
option(INGOT_WERROR "Treat warnings as errors (./dev does with g++ 12; other compilers and libraries may warn of more)" OFF)
option(INGOT_FUZZ "Build the fuzzers of tests/fuzz (needs clang)" OFF)
set(INGOT_SANITIZE "" CACHE STRING "Sanitizers to build with, as for -fsanitize= (address,undefined or thread)")
set(INGOT_SANITIZE_LAYERS "" CACHE STRING "Layers to instrument, and python; all where it is empty")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # asserts stay on: they are cheap beside the kernels
if(INGOT_SANITIZE AND NOT INGOT_SANITIZE_LAYERS) # other layers are those of the ordinary build
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")  # what is instrumented compiles in half the time, and less is optimized away
endif()

# Options structs are filled by naming the fields that differ from their defaults; g++ warns about the others.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wconversion> $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
# g++ collects its garbage again and again while a batch of files grows; letting it have the gigabyte that ./dev counts for a
# compiler takes a tenth off the time.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-expand=400;--param=ggc-min-heapsize=1000000>")
if(INGOT_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(INGOT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "INGOT_FUZZ needs clang: configure a build folder of its own with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  # Everything is instrumented, or the fuzzer would be blind inside the libraries; only the fuzzers get its main().
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -O1 -g1)
  add_link_options(-fsanitize=address,undefined)
endif()
if(INGOT_SANITIZE)
  set(instrumented $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${INGOT_SANITIZE}>
                   $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer> $<$<COMPILE_LANGUAGE:C,CXX>:-g1>)
  if(NOT INGOT_SANITIZE_LAYERS)
    add_compile_options(${instrumented})
  endif()
  add_link_options(-fsanitize=${INGOT_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # CCACHE_DEPEND: a miss is compiled at once, without a run of the preprocessor before it.
  set(cache env CCACHE_DEPEND=1)
  if(NOT DEFINED ENV{CCACHE_BASEDIR}) # ./dev sets both; pip does not
    list(APPEND cache CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${cache} ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})  # of the tests of the C API
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()
