# ingot_embed(LAYER NAMESPACE [function file]...)
#
# Puts files into a layer's library: generates a source, at build time, in which `std::string_view function()` of
# namespace ingot::NAMESPACE returns the file's bytes. A header of the layer declares them.
function(ingot_embed layer namespace)
  set(target ingot_${layer})
  if(NOT TARGET ${target})
    return()
  endif()
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${layer}_${namespace}.cpp)
  set(files)
  set(rest ${ARGN})
  while(rest)
    list(POP_FRONT rest function file)
    list(APPEND files ${file})
  endwhile()
  list(JOIN ARGN "|" pairs)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DNAMESPACE=${namespace} "-DPAIRS=${pairs}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_run.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed_run.cmake
    COMMENT "Embedding ${namespace}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
