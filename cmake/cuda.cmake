# The CUDA backend, src/ingot/kernels/cuda: off until it has run on a GPU. The tests always build its sources with the
# host's compiler, for the emulator (docs/cuda-backend.md).
set(INGOT_CUDA OFF CACHE STRING "Build the CUDA kernels: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE INGOT_CUDA PROPERTY STRINGS AUTO ON OFF)
set(INGOT_CUDA_ARCHITECTURES "90a;80;80+ptx" CACHE STRING
  "What the CUDA kernels are compiled for: compute capabilities, +ptx for code that newer GPUs translate")

set(INGOT_CUDNN_FRONTEND "" CACHE PATH "Folder of cudnn_frontend.h; without it the CUDA build does not use cuDNN")

set(INGOT_HAS_CUDA FALSE)
set(INGOT_HAS_CUDNN FALSE)
if(NOT INGOT_CUDA STREQUAL OFF)
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES OFF) # ours say more than CMake's list can
    set(CMAKE_CUDA_FLAGS_RELEASE "-O2")
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # Debian 12's CMake (3.25) knows no C++20 of nvcc
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    set(INGOT_HAS_CUDA TRUE)
    find_path(INGOT_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${INGOT_CUDNN_FRONTEND} NO_CACHE)
    find_path(INGOT_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
    if(INGOT_CUDNN_FRONTEND_INCLUDE AND INGOT_CUDNN_INCLUDE)
      set(INGOT_HAS_CUDNN TRUE)
    else()
      message(STATUS "cuDNN: not used; cudnn.h or cudnn_frontend.h is missing (INGOT_CUDNN_FRONTEND says where to look)")
    endif()
  elseif(INGOT_CUDA STREQUAL ON)
    message(FATAL_ERROR "INGOT_CUDA=ON, but there is no nvcc; install the CUDA toolkit (13 or newer), put nvcc on the "
                        "PATH or give -DCMAKE_CUDA_COMPILER=<path to nvcc>")
  endif()
endif()

# Flags of nvcc for the target.
function(ingot_cuda_flags target)
  set(flags --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra)
  foreach(architecture ${INGOT_CUDA_ARCHITECTURES})
    if(architecture MATCHES "^(.*)[+]ptx$")
      list(APPEND flags -gencode=arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1})
    else()
      list(APPEND flags -gencode=arch=compute_${architecture},code=sm_${architecture})
    endif()
  endforeach()
  foreach(flag ${flags})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${flag}>")
  endforeach()
endfunction()

# What includes cuDNN's headers needs this; the library itself is opened at run time.
function(ingot_cudnn_headers target)
  target_include_directories(${target} SYSTEM PRIVATE ${INGOT_CUDNN_FRONTEND_INCLUDE} ${INGOT_CUDNN_INCLUDE}
    ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(${target} PRIVATE INGOT_HAS_CUDNN CUDNN_FRONTEND_SKIP_JSON_LIB
    NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING)
  # Nothing in these files is hot, and the frontend is long.
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "/cudnn[^/]*$")
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -O1)
endfunction()

# ingot_cuda_emulated(FOLDER LIBS target...): the leaf for the emulated device (tests/emulated_gpu), which has headers of its own
# in place of FOLDER/hardware and no library of NVIDIA's. A .cu file becomes a .cpp that includes it.
function(ingot_cuda_emulated folder)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  set(device ${PROJECT_SOURCE_DIR}/tests/emulated_gpu)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp ${device}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "^${folder}/(hardware|libraries)/")
  if(INGOT_SANITIZE STREQUAL thread) # these tell ThreadSanitizer what the emulated threads do (race_check.h)
    set_source_files_properties(${device}/block.cpp ${device}/race_check.cpp PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread)
  endif()
  ingot_batches(sources)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${folder}/*.cu)
  foreach(kernel ${kernels})
    get_filename_component(name ${kernel} NAME_WE)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/src ${kernel})
    set(wrapper ${PROJECT_BINARY_DIR}/cuda_emulated/${name}.cpp)
    file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${path}\"\n")
    list(APPEND sources ${wrapper})
  endforeach()
  add_library(ingot_kernels_cuda_emulated STATIC EXCLUDE_FROM_ALL ${sources})
  target_include_directories(ingot_kernels_cuda_emulated BEFORE PUBLIC ${device}/include ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(ingot_kernels_cuda_emulated PUBLIC ingot_kernels ingot_core ingot_base PRIVATE ${ARG_LIBS} Boost::context)
  if(INGOT_SANITIZE STREQUAL thread)
    target_compile_definitions(ingot_kernels_cuda_emulated PUBLIC INGOT_CHECKS_RACES)
  endif()
  # It serves tests, on a processor: -O1 takes a third less time to compile than -O2.
  target_compile_options(ingot_kernels_cuda_emulated PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()
