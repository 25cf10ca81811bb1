# Before a package is packed: what was staged, without what only an installation by hand has, and without the rest of debugging
# in archives (programs and shared libraries are stripped by CPack). Archives of another architecture take its own strip.
file(GLOB_RECURSE lists ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/lib/mgc/installed.txt)
if(lists)
  file(REMOVE ${lists})
endif()
file(GLOB_RECURSE archives ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.a)
foreach(archive IN LISTS archives)
  set(strip strip)
  if(archive MATCHES "/lib/mgc/([a-z0-9_]+)/[^/]*$")
    set(strip ${CMAKE_MATCH_1}-linux-gnu-strip)
  endif()
  execute_process(COMMAND ${strip} --strip-debug --enable-deterministic-archives ${archive} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
