# What Debian wants otherwise than other systems: the place of zsh's completion, a changelog as Debian's tools read it,
# and compression, without the time in it. Run by CPack. SOURCE_DATE_EPOCH is the changelog's date, if it is set.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/launcher/usr/share)
if(EXISTS ${share}/zsh/site-functions)
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
endif()

string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(GLOB docs ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/doc/*)
foreach(doc IN LISTS docs)
  cmake_path(GET doc FILENAME name)
  file(WRITE ${doc}/changelog "${name} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md.gz tells what has changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
endforeach()
file(GLOB_RECURSE files ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/man/man1/*.1
  ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/doc/*/changelog
  ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/doc/*/CHANGELOG.md)
foreach(file IN LISTS files)
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
