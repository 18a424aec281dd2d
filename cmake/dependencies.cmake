# Every library from outside. docs/dependencies.md says why each is there. Whatever is missing is told at once, and what brings it:
# pip and cmake themselves would name one library after another.
set(missing)
foreach(package fmt spdlog nlohmann_json yaml-cpp OpenMP OpenSSL ZLIB CURL Protobuf Boost PkgConfig)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND missing ${package})
  endif()
endforeach()
foreach(module libhwy libpcre2-8 libzstd pugixml sqlite3 libutf8proc simdjson)
  if(PkgConfig_FOUND)
    pkg_check_modules(looked_for_${module} QUIET ${module})
  endif()
  if(NOT looked_for_${module}_FOUND)
    list(APPEND missing ${module})
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  message(FATAL_ERROR "These libraries or their headers are missing: ${missing}. On Debian 12 ./dev setup installs them; elsewhere "
                      "docs/install.md says how to build in a container")
endif()
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(ZLIB REQUIRED)
find_package(CURL 7.85 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED libhwy)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(PUGIXML REQUIRED IMPORTED_TARGET pugixml)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SIMDJSON REQUIRED IMPORTED_TARGET simdjson)
find_library(DNNL_LIBRARY dnnl REQUIRED)

# Headers only. libcurl is opened at run time (hub/libcurl.cpp); what Highway wants of libhwy is in base/highway.cpp.
add_library(ingot_curl_headers INTERFACE)
target_include_directories(ingot_curl_headers SYSTEM INTERFACE ${CURL_INCLUDE_DIRS})
add_library(ingot_highway_headers INTERFACE)
target_include_directories(ingot_highway_headers SYSTEM INTERFACE ${HWY_INCLUDE_DIRS})

find_file(CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH)
if(NOT CHART_JS)
  message(FATAL_ERROR "Chart.js is missing; install the Debian package libjs-chart.js (./dev setup does), or give "
                      "-DCHART_JS=<path to a chart.min.js of version 3>")
endif()

# The messages of an ONNX file, as C++: made at build time from the description that libonnx-dev brings. Used in .cpp files.
find_file(ONNX_PROTO onnx/onnx.proto REQUIRED)
set(onnx_generated ${PROJECT_BINARY_DIR}/onnx_proto)
file(READ ${ONNX_PROTO} onnx_text)
string(REPLACE "option optimize_for = LITE_RUNTIME;" "" onnx_text "${onnx_text}") # tests write models as text
file(GENERATE OUTPUT ${onnx_generated}/onnx.proto CONTENT "${onnx_text}")
add_custom_command(
  OUTPUT ${onnx_generated}/onnx.pb.cc ${onnx_generated}/onnx.pb.h
  COMMAND protobuf::protoc --proto_path=${onnx_generated} --cpp_out=${onnx_generated} onnx.proto
  DEPENDS ${onnx_generated}/onnx.proto
  COMMENT "Generating the ONNX messages"
  VERBATIM)
add_library(ingot_onnx_proto STATIC ${onnx_generated}/onnx.pb.cc)
target_include_directories(ingot_onnx_proto SYSTEM PUBLIC ${onnx_generated})
target_link_libraries(ingot_onnx_proto PUBLIC protobuf::libprotobuf)
target_compile_options(ingot_onnx_proto PRIVATE -w)
