"""Paths: resolved on both sides, confined to roots, opened without following a link (spec 03, field report 93).

A path is resolved once, when a call is judged. What runs later opens the *resolved* path component by component and
follows no link at all, so a link that was swapped in between is an error and never a way out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator

from attrs import frozen

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_HAS_DIR_FD = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd


class PathProblem(ValueError):
    """A path that cannot be used; the text tells the model why."""


@frozen
class Place:
    """One path as it was given and as it is.

    Attributes:
        given: absolute, ``~`` expanded, ``..`` removed by spelling; links not resolved.
        real: absolute, every link resolved; the tail may be missing.
    """

    given: str
    real: str


def is_inside(path: str, root: str) -> bool:
    """True if the real path ``path`` is ``root`` or below it; compares whole components."""
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)


@frozen
class Workspace:
    """Where the tools may work.

    Attributes:
        cwd: real path that relative paths start from.
        roots: real paths below which files may be read and written.
        read_roots: further real paths below which files may be read only (stored results).
    """

    cwd: str
    roots: tuple[str, ...]
    read_roots: tuple[str, ...] = ()

    @classmethod
    def at(
        cls, cwd: str | os.PathLike[str], extra: Iterable[str | os.PathLike[str]] = (), read: Iterable[str] = ()
    ) -> Workspace:
        """Make a workspace with ``cwd`` and ``extra`` as roots and ``read`` as read-only roots.

        Raises:
            PathProblem: if ``cwd`` or a root is no directory.
        """
        roots: list[str] = []
        for item in (cwd, *extra):
            real = os.path.realpath(os.path.expanduser(os.fspath(item)))
            if not os.path.isdir(real):
                raise PathProblem(f"{os.fspath(item)} is not a directory")
            if real not in roots:
                roots.append(real)
        return cls(cwd=roots[0], roots=tuple(roots), read_roots=tuple(os.path.realpath(item) for item in read))

    def resolve(self, text: str, base: str | None = None) -> Place:
        """Resolve a path that the model gave, relative to ``base`` (default: ``cwd``).

        Raises:
            PathProblem: for an empty path, a NUL, a lone surrogate, or a loop of links.
        """
        if not text:
            raise PathProblem("the path is empty")
        if "\0" in text:
            raise PathProblem("the path holds a NUL character")
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise PathProblem("the path holds characters that no file name can have") from None
        expanded = os.path.expanduser(text)
        joined = os.path.join(base or self.cwd, expanded)
        try:
            real = os.path.realpath(joined, strict=True)
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                raise PathProblem(f"{text}: the path is a loop of symbolic links") from None
            # A missing tail is fine: the part that exists is resolved, the rest is appended.
            real = os.path.realpath(joined)
        return Place(given=os.path.normpath(joined), real=real)

    def may_read(self, real: str) -> bool:
        """True if ``real`` lies below a root or a read-only root."""
        return any(is_inside(real, root) for root in (*self.roots, *self.read_roots))

    def may_write(self, real: str) -> bool:
        """True if ``real`` lies below a root."""
        return any(is_inside(real, root) for root in self.roots)

    def show(self, real: str) -> str:
        """Give ``real`` relative to ``cwd`` where that is shorter to read, else as it is."""
        if real == self.cwd:
            return "."
        return os.path.relpath(real, self.cwd) if is_inside(real, self.cwd) else real


def _parts(real: str) -> list[str]:
    if not os.path.isabs(real):
        raise PathProblem(f"{real} is not absolute")
    return [part for part in real.split(os.sep) if part]


def _link_problem(real: str, problem: OSError) -> PathProblem | OSError:
    if problem.errno in (errno.ELOOP, errno.EMLINK):
        return PathProblem(f"{real}: a symbolic link was put in the way; not followed")
    return problem


@contextlib.contextmanager
def open_directory(real: str, *, create: bool = False) -> Iterator[int]:
    """Open the directory ``real`` without following any link and give its descriptor; with ``create`` make what is missing.

    Raises:
        PathProblem: if a component is a link.
        OSError: if a component is missing or no directory.
    """
    handle = os.open(os.sep, _DIRECTORY)
    try:
        for part in _parts(real):
            try:
                inner = _enter(part, handle, create)
            except OSError as problem:
                if problem.errno == errno.ENOTDIR and _is_link(part, handle):
                    raise PathProblem(f"{real}: a symbolic link was put in the way; not followed") from None
                found = _link_problem(real, problem)
                if isinstance(found, PathProblem):
                    raise found from None
                raise OSError(problem.errno, problem.strerror, real) from None
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _enter(part: str, handle: int, create: bool) -> int:
    try:
        return os.open(part, _DIRECTORY | _NOFOLLOW, dir_fd=handle)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=handle)
    return os.open(part, _DIRECTORY | _NOFOLLOW, dir_fd=handle)


def _is_link(name: str, handle: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
    except OSError:
        return False


def open_regular(real: str) -> int:
    """Open the regular file ``real`` for reading, following no link, and give its descriptor.

    Raises:
        PathProblem: if it is a directory, a device, a pipe or a socket, or if a link is in the way.
        OSError: if it is missing or may not be read.
    """
    name = os.path.basename(real)
    if not name:
        raise PathProblem(f"{real} is a directory")
    if _HAS_DIR_FD:
        with open_directory(os.path.dirname(real)) as handle:
            try:
                file = os.open(name, os.O_RDONLY | _NOFOLLOW | _NONBLOCK | getattr(os, "O_CLOEXEC", 0), dir_fd=handle)
            except OSError as problem:
                found = _link_problem(real, problem)
                if isinstance(found, PathProblem):
                    raise found from None
                raise OSError(problem.errno, problem.strerror, real) from None
    else:  # pragma: no cover - systems without directory descriptors
        file = os.open(real, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise PathProblem(f"{real} is a directory" if stat.S_ISDIR(mode) else f"{real} is not a regular file")
    return file


def write_atomic(real: str, data: bytes) -> None:
    """Put ``data`` in the file ``real`` as a whole: a new file beside it is renamed over it.

    Missing directories are made. Nothing is followed: not a link in the path, not a link as the last component. The
    mode of an existing file is kept; other names of it (hard links) keep the old content.

    Raises:
        PathProblem: if a link is in the way or the target is no regular file.
        OSError: if it cannot be written; the old content is then still there.
    """
    folder, name = os.path.split(real)
    if not name:
        raise PathProblem(f"{real} is a directory")
    if not _HAS_DIR_FD:  # pragma: no cover - systems without directory descriptors
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, f".{name}.{secrets.token_hex(6)}")
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, real)
        return
    with open_directory(folder, create=True) as handle:
        mode = _mode_of(name, real, handle)
        temporary = f".fsm-{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
        file_handle = os.open(temporary, flags, 0o666, dir_fd=handle)
        try:
            with os.fdopen(file_handle, "wb") as file:
                file.write(data)
                file.flush()
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
            os.replace(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=handle)
            raise


def _mode_of(name: str, real: str, handle: int) -> int | None:
    try:
        found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise PathProblem(f"{real}: a symbolic link was put in the way; not followed")
    if not stat.S_ISREG(found.st_mode):
        raise PathProblem(f"{real} is a directory" if stat.S_ISDIR(found.st_mode) else f"{real} is not a regular file")
    if not os.access(name, os.W_OK, dir_fd=handle):
        raise PermissionError(errno.EACCES, "Permission denied", real)
    return stat.S_IMODE(found.st_mode)
