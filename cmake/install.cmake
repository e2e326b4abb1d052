# The command, both libraries, the header, pkg-config, the man page, completions.

if(TARGET batchone)
  install(TARGETS batchone RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS batchone_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET batchone_shared)
  install(TARGETS batchone_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/batchone DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
configure_file(packaging/batchone.pc.in batchone.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/batchone.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES docs/man/batchone.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES completions/batchone.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME batchone)
install(FILES completions/_batchone DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
