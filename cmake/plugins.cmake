# Plugins (docs/plugins.md) use Ingot's functions and variables out of the program that loads them.
#   ingot_hosts_plugins(TARGET)
# lets them find those; everything else in the program stays its own.
function(ingot_hosts_plugins target)
  target_link_options(${target} PRIVATE LINKER:--dynamic-list=${PROJECT_SOURCE_DIR}/cmake/plugins.list)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/plugins.list)
endfunction()

#   ingot_add_plugin(TARGET source...)
# A shared library that links none of Ingot's: a second copy would have registries of its own.
function(ingot_add_plugin target)
  add_library(${target} MODULE ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(${target} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
endfunction()
