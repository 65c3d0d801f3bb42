"""Files of a job that are removed, whatever ends this process."""
import contextlib
import os
import shutil
import subprocess

# The pipe ends with the processes that have its other end. After the new name nobody finds the folder, so nothing comes
# into it while its content goes.
_KEEPER = 'read -r _; mv -- "$1" "$1.gone" && rm -rf -- "$1.gone"'


def _remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def removed(path):
    """Removes this file or folder at the end of the block. If this process is killed before, another one does."""
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, path)  # also without a keeper
        # Of another session than a terminal's, whose Ctrl-C would end it too.
        keeper = stack.enter_context(subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "sh", os.path.abspath(path)], cwd="/", stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))
        stack.callback(keeper.kill)
        stack.callback(_remove, path)
        yield path
