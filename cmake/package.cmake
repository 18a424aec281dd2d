# libingot.so, all layers but the command line in one library, and what `cmake --install` puts where. docs/embedding.md
# shows both ways to use it. The library needs no other package when a program is built with it: headers of Ingot include
# the standard library's and its own alone.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(shared ON)
if(INGOT_FUZZ OR INGOT_SANITIZE)
  set(shared OFF)
endif()
option(INGOT_SHARED "Build libingot.so for programs that embed Ingot" ${shared})
if(NOT INGOT_SHARED)
  return()
endif()
get_property(layers GLOBAL PROPERTY INGOT_LAYERS)
list(REMOVE_ITEM layers ingot_cli)

file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/shared.cpp CONTENT "// CMake wants a library to have a source.\n")
add_library(ingot_shared SHARED ${CMAKE_CURRENT_BINARY_DIR}/shared.cpp)
add_library(ingot::ingot ALIAS ingot_shared)
list(JOIN layers "," joined)
foreach(layer ${layers})
  target_link_libraries(ingot_shared PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,${layer}>)
endforeach()
# The layers name each other, too, and that way plainly.
set_target_properties(ingot_shared PROPERTIES
  OUTPUT_NAME ingot EXPORT_NAME ingot
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${joined}"
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
target_compile_features(ingot_shared PUBLIC cxx_std_20)
target_include_directories(ingot_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Calls inside the library go straight to their functions, as in the binary.
target_link_options(ingot_shared PRIVATE LINKER:-Bsymbolic-functions)
# Symbols of the C API say which version they came with; those of C++ have none, and stay visible.
target_link_options(ingot_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/c_api.map)
set_property(TARGET ingot_shared APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/c_api.map)

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/ingot)
install(TARGETS ingot_shared EXPORT ingot-config)
if(TARGET ingot)
  install(TARGETS ingot)
  # What the binary knows about itself: completions where shells look for them, and its page for man(1).
  install(CODE "
    foreach(page bash:bash-completion/completions/ingot zsh:zsh/site-functions/_ingot
                 fish:fish/vendor_completions.d/ingot.fish man:man/man1/ingot.1)
      string(REPLACE \":\" \";\" page \${page})
      list(GET page 0 kind)
      list(GET page 1 name)
      set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}/\${name}\")
      message(STATUS \"Installing: \${file}\")
      cmake_path(GET file PARENT_PATH folder)
      file(MAKE_DIRECTORY \${folder})
      execute_process(COMMAND $<TARGET_FILE:ingot> completion \${kind} OUTPUT_FILE \${file} COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
endif()
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/ingot.pc.in ${CMAKE_CURRENT_BINARY_DIR}/ingot.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ingot.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT ingot-config NAMESPACE ingot:: DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ingot-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ingot-config-version.cmake DESTINATION ${package})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Kernels, the command line, and the headers that bring another library's are not public interface.
set(inner cpu cuda cli c_api/inner base/json.h base/json_number.h base/trace_events.h base/trace_writer.h data/arrow data/parquet data/record.h
  forecast/fit_json.h grammar/json_text.h
  grammar/schema_check.h grammar/schema_compiler.h grammar/schema_shape.h hub/libcurl.h models/encoder/families.h models/encoder/family.h
  models/language/families models/language/family.h models/language/gguf_gemma3n.h models/language/gguf_gemma4.h models/language/gguf_states.h models/rope_keys.h
  serve/answer.h serve/api.h
  serve/chat_format.h serve/chat_input.h
  serve/fields.h serve/generation_params.h serve/lora_choice.h serve/structured_output.h serve/token_text.h
  train/language/rewards/json_schema.h train/reporters)
list(TRANSFORM inner REPLACE "(.+)" "PATTERN;\\1;EXCLUDE")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ingot DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
  PATTERN "*.h" ${inner})
