# Before a package is packed: what was staged, as Debian has it. Without what only an installation by hand has, and without the rest
# of debugging in archives (programs and shared libraries are stripped by CPack); man pages packed, and with a changelog in Debian's form.
# Archives of another architecture take its own strip.
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

file(GLOB_RECURSE pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/share/man/*.1)
list(GET pages 0 page)
string(REGEX REPLACE "/share/man/.*" "/share/doc/mgc" doc ${page})
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH
file(WRITE ${doc}/changelog "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * What is new in this version: CHANGELOG.md beside this file.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
execute_process(COMMAND gzip -9nf ${pages} ${doc}/changelog COMMAND_ERROR_IS_FATAL ANY)
