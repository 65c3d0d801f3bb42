#pragma once
// Flags: the program and its standard input.
#include "cli/table/flags.h"

namespace dtrain::cli {

inline constexpr Flag kProgramFlags[] = {
    {.id = FlagId::module,
     .group = Group::program,
     .name = "module",
     .letter = 'm',
     .pet = "MODULE",
     .help = "PROGRAM is a Python module: python -u -m PROGRAM",
     .details = "Python is $PYTHON_EXEC, else $VIRTUAL_ENV/bin/python, else python3 or python in PATH."},
    {.id = FlagId::no_python,
     .group = Group::program,
     .name = "no-python",
     .pet = "NO_PYTHON",
     .help = "execute PROGRAM itself, never through Python",
     .details = "Without this flag, dtrain runs as python -u PROGRAM: a .py file, a .pyz or .zip archive, a folder "
                "with a __main__.py, and a file that is not executable but starts with a #! line for Python. It "
                "executes everything else directly."},
    {.id = FlagId::run_path,
     .group = Group::program,
     .name = "run-path",
     .pet = "RUN_PATH",
     .help = "PROGRAM is a Python script, run by runpy.run_path",
     .details = "sys.argv[0] and __file__ are PROGRAM as typed. An exception is written to the worker's error file "
                "without @record. This flag takes precedence over --no-python and --module."},
    {.id = FlagId::stdin_mode,
     .group = Group::program,
     .name = "stdin",
     .value = "all|none|RANK",
     .choices = "all,none",
     .fallback = "all",
     .help = "which workers read dtrain's standard input",
     .details = "`all`: every worker inherits it, as under torchrun. A number: only the worker of this local rank has "
                "it. `none`: no worker has it. Workers without it read /dev/null. All workers read /dev/null while "
                "another job has the terminal (&)."},
    {.id = FlagId::attach,
     .group = Group::program,
     .name = "attach",
     .value = "RANK",
     .help = "give the terminal to the worker of this local rank",
     .details = "For debuggers. The worker is in the terminal's foreground, so line editing, Ctrl-C and Ctrl-Z are its "
                "own. Its output goes only to the terminal. The output of the others goes to log files, unless --tee "
                "or --redirects says otherwise. See docs/debugging.md."},
};

}  // namespace dtrain::cli
