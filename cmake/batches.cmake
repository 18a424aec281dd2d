# ingot_batches(LIST): what a unity build compiles instead of the sources in the variable LIST.
#
# Neighbours in a folder go into one file that includes them, up to INGOT_BATCH_BYTES: they parse the headers that they
# share once, and instantiate templates once. What stays by itself: files that are not .cpp, that have flags of their own,
# or that hold code for several instruction sets (which say so by macros and pragmas, and share little). CMake's own
# UNITY_BUILD writes absolute paths into these files, so that ccache could not share objects between checkouts; and it
# counts files, whatever their length.
option(INGOT_UNITY "Compile source files in batches: a clean build takes half the time" ON)
set(INGOT_BATCH_BYTES 48000) # 5 to 10 s of g++ -O2: what a change of one file may cost

function(ingot_batches list)
  if(NOT INGOT_UNITY)
    return()
  endif()
  set(result)
  set(batch)
  set(bytes 0)
  set(folder)
  foreach(source ${${list}})
    ingot_stands_alone(alone ${source})
    if(alone)
      list(APPEND result ${source})
      continue()
    endif()
    file(SIZE ${source} size)
    get_filename_component(here ${source} DIRECTORY)
    math(EXPR bytes "${bytes} + ${size}")
    if(NOT here STREQUAL folder OR bytes GREATER INGOT_BATCH_BYTES)
      ingot_write_batch(result ${batch})
      set(batch)
      set(bytes ${size})
      set(folder ${here})
    endif()
    list(APPEND batch ${source})
  endforeach()
  ingot_write_batch(result ${batch})
  set(${list} ${result} PARENT_SCOPE)
endfunction()

function(ingot_stands_alone variable source)
  get_source_file_property(options ${source} COMPILE_OPTIONS)
  get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
  set(simd)
  file(STRINGS ${source} simd REGEX "-inl[.]h\"|hwy/foreach_target" LIMIT_COUNT 1)
  if(options OR definitions OR simd OR NOT source MATCHES "[.]cpp$")
    set(${variable} TRUE PARENT_SCOPE)
  else()
    set(${variable} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Adds a file that includes these sources to the list. It has the first one's name, in a folder of the same name.
function(ingot_write_batch list)
  list(LENGTH ARGN count)
  if(count LESS 2)
    set(${list} ${${list}} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(content)
  foreach(source ${ARGN})
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
    string(REGEX REPLACE "^src/" "" name ${name}) # src and the root are where headers are looked for
    string(APPEND content "#include \"${name}\"\n")
  endforeach()
  list(GET ARGN 0 first)
  file(RELATIVE_PATH first ${PROJECT_SOURCE_DIR} ${first})
  set(output ${PROJECT_BINARY_DIR}/batches/${first})
  file(CONFIGURE OUTPUT ${output} CONTENT "${content}" @ONLY)
  # g++ takes what is included for a header, where a type with a member out of an anonymous namespace would be a mistake.
  # (clang-tidy's google-build-namespaces finds those in real headers.)
  set_source_files_properties(${output} PROPERTIES COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set(${list} ${${list}} ${output} PARENT_SCOPE)
endfunction()
