# The command, both libraries, the header, pkg-config, the man page, completions.

if(TARGET batchone)
  install(TARGETS batchone RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS batchone_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET batchone_shared)
  install(TARGETS batchone_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/batchone DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# The .pc file finds the rest from where it lies, so that `cmake --install … --prefix DIR` may put it anywhere.
file(RELATIVE_PATH B1_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" B1_PREFIX_FROM_PC ${B1_PREFIX_FROM_PC})
file(RELATIVE_PATH B1_LIBDIR_FROM_PREFIX ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH B1_INCLUDEDIR_FROM_PREFIX ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(packaging/batchone.pc.in batchone.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/batchone.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES docs/man/batchone.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# The command's option tables are the one source of the completions.
if(TARGET batchone AND NOT B1_SANITIZE)
  foreach(pair "bash;batchone;${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
          "zsh;_batchone;${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
    list(GET pair 0 shell)
    list(GET pair 1 file)
    list(GET pair 2 folder)
    add_custom_command(OUTPUT completions/${file}
                       COMMAND ${CMAKE_COMMAND} -E make_directory completions
                       COMMAND batchone completion ${shell} > completions/${file} DEPENDS batchone VERBATIM)
    list(APPEND completions ${CMAKE_BINARY_DIR}/completions/${file})
    install(FILES ${CMAKE_BINARY_DIR}/completions/${file} DESTINATION ${folder})
  endforeach()
  add_custom_target(completions ALL DEPENDS ${completions})
endif()
