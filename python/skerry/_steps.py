"""Loops that go on by themselves after a death."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _core, _state_files
from ._core import Group
from ._protected import (
    attempts,
    given_arrays,
    is_hurt,
    is_newcomer,
    is_state_of,
    join,
    join_making,
    kept,
    next_loop,
    own_state,
    protect_for,
    protected_arrays,
    protected_group,
    recover,
    shrink_again,
    would_protect,
)
from .errors import InvalidError, LostError, PeerDeadError


if TYPE_CHECKING:
    from typing_extensions import Self


_Result = TypeVar("_Result")

_IS_OVER = (
    "the state in this file is that after a loop's last step, so this loop takes none. Remove the "
    "file to begin anew; if it is another loop's, give each loop a file of its own"
)


def _hear_of(died: PeerDeadError, group: Group) -> None:
    """Raises what is no death in the group. The launcher has told of the death that a call has met
    before, but perhaps not this rank: so it asks. A clock would decide otherwise on a slow rank."""
    if not is_hurt(group):
        _core._hear()
        if not is_hurt(group):
            raise died


class Step(int):
    """A step of a loop: its number, and a context in which a death ends the step alone."""

    loop: Steps  # that it is of

    @property
    def group(self) -> Group:
        """The ranks that take part: give it to collectives. Not collective."""
        return self.loop.group

    @property
    def values(self) -> dict[str, Any]:
        """Small values of this rank, which are kept with each state and go back with it. Not
        collective."""
        return self.loop.values

    def __enter__(self) -> Self:
        self.loop._enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return self.loop._leave(value)


class Steps:
    """The loop that steps() makes."""

    def __init__(
        self,
        n: int,
        arrays: Sequence[Any],
        every: int,
        partner: int,
        timeout: float,
        every_file: int,
        file: Path | None,
    ) -> None:
        self.values: dict[str, Any] = {}
        self.recovered = 0  # how often, so far
        self._n, self._arrays, self._every, self._partner = n, list(arrays), every, partner
        self._timeout, self._every_file = timeout, every_file
        self._file = None if file is None else _state_files.StateFile(file, n)
        self._is_begun = self._has_file = False  # looked for the file; it has a state of this loop
        self._all: list[Any] = []  # the arrays whose state was read from it
        self.number = next_loop()  # of the loops of this program
        self._at = 0
        self._kept_at = -1  # the step before which the last state was protected
        self._written_at = -1  # likewise, for which it was seen to that the file has it
        self._died: PeerDeadError | None = None  # what told of a death
        self._is_open = self._is_entered = False

    @property
    def group(self) -> Group:
        """The ranks that take part. Not collective."""
        return protected_group(self._arrays)

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Step:
        if self._is_open and not self._is_entered:
            raise InvalidError("a step was not entered: begin the loop's body with `with step:`")
        try:
            while not self._is_ready():
                pass
        except BaseException:
            self._release()
            raise
        if self._at >= self._n:
            self._release()
            raise StopIteration
        step = Step(self._at)
        step.loop = self
        self._is_open, self._is_entered = True, False
        return step

    def _is_ready(self) -> bool:
        """Goes back after a death, or protects what is due. False if that failed."""
        if is_newcomer():
            return not self._join()  # what is left to be done for its step is done with the others
        if self._died is not None:
            self._go_back(self._died)
        try:
            self._begin()
            is_due = self._at % self._every == 0 or self._at >= self._n
            # What was read is protected at once: with the file alone no spare can come.
            is_bare = self._has_file and self._kept_at < 0
            self._look()
            if (is_due or is_bare) and self._kept_at != self._at:
                protect_for(
                    self, self._arrays, self._partner, step=self._at, values=self.values
                )
                self._kept_at = self._at
            if is_due and self._written_at != self._at:
                self._write()
                self._written_at = self._at
        except LostError:
            raise
        except PeerDeadError as error:
            if self._kept_at < 0 and not self._has_file and not is_state_of(self):
                raise
            self._died = error
        return self._died is None

    def _go_back(self, died: PeerDeadError) -> None:
        """To the last state, with those that live."""
        _hear_of(died, self.group)
        if self._has_file and self._kept_at < 0 and not is_state_of(self):
            # A death since the reading of the file began, before what it has was protected.
            group = shrink_again(self.group, self._timeout)
            self._read_again(group, self._all, died)
            return
        if not is_state_of(self):
            raise InvalidError(
                "the last protected state is not of this loop: it cannot go back to a step. In "
                "its steps call neither sk.protect() nor other loops that protect"
            ) from died
        arrays = protected_arrays()
        try:
            recover(timeout=self._timeout)
        except LostError as error:
            if self._file is None:
                raise
            assert error.group is not None  # recover() has met the others
            self._read_again(error.group, arrays, error)
            return
        self._take_state()

    # ---- states in the file ----------------------------------------------------------------------

    def _begin(self) -> None:
        """The first time: goes on from the file, if there is one."""
        if self._is_begun or self._file is None:
            return
        if self._file.exists(self.group):
            self._all = would_protect(self._arrays, self._partner)
            self._has_file = True
            self._take_file(self._file.read(self._all, self.group, False))
            if self._at >= self._n and _core.rank() == self.group.ranks[0]:
                os.write(2, f"skerry: {self._file.path}: {_IS_OVER}\n".encode())
        self._is_begun = True  # not if that failed: the file would be written over

    def _write(self) -> None:
        is_due = self._at // self._every % self._every_file == 0 if self._every_file else False
        if self._file is not None and (is_due or self._at >= self._n):
            self._file.write()
            self._has_file = True

    def _read_again(self, group: Group, arrays: list[Any], died: PeerDeadError) -> None:
        """The state in the file, over those that live. If more die meanwhile, it goes round.
        Raises `died` if there is no file. Collective."""
        assert self._file is not None
        while True:
            try:
                if not self._file.exists(group):
                    raise died
                values = self._file.read(arrays, group, True)
                break
            except PeerDeadError as error:
                if error is died:
                    raise
                _hear_of(error, group)
                group = shrink_again(group, self._timeout)
        # All that was protected is protected again, also what is of no step: it would be lost.
        self._all = self._arrays = arrays
        self._take_file(values)
        self.recovered += 1

    def _release(self) -> None:
        if self._file is not None:
            self._file.release()

    def _take_file(self, values: dict[str, Any]) -> None:
        self._at, self.values = values["step"], values["values"]
        self._kept_at, self._died = -1, None
        self._is_begun = self._has_file = True

    def _take_state(self) -> None:
        own_state(self)
        self._at = self._kept_at = kept("step")
        self._written_at = -1  # a death may have ended that
        self.values = kept("values")
        self._died = None
        self.recovered += 1

    def _join(self) -> bool:
        """Of a newcomer: comes to the step where the others are. False: leaves this loop out."""
        self._is_begun = True
        try:
            is_here = join(self, self._arrays, self._timeout)
        except LostError as error:
            if self._file is None:
                raise
            assert error.group is not None  # recover() has met the others
            self._read_again(error.group, given_arrays(), error)
            return True
        self._has_file = self._file is not None
        if is_here:
            self._take_state()
        else:
            self._at = self._kept_at = self._n
        return is_here

    def _look(self) -> None:
        """Who has not heard of a death in a call hears of it here: the others wait."""
        if is_hurt(self.group):
            raise PeerDeadError(f"ranks {_core.failed()} have died")

    def _enter(self, step: Step) -> None:
        if not self._is_open or self._is_entered or step != self._at:
            raise InvalidError(f"step {int(step)} is over: enter each step once, in its turn")
        self._is_entered = True

    def _leave(self, value: BaseException | None) -> bool:
        if value is None:
            self._at += 1
            return False
        if isinstance(value, PeerDeadError) and not isinstance(value, LostError):
            self._died = value
        if self._died is None:
            self._release()  # the error ends the loop
        return self._died is not None


def steps(
    n: int,
    *,
    protect: Sequence[Any],
    every: int = 1,
    partner: int = 1,
    timeout: float = -1.0,
    every_file: int = 0,
    file: str | PathLike[str] | None = None,
) -> Steps:
    """A loop of n steps that goes on by itself after deaths, with on_failure="continue".

        for step in sk.steps(100, protect=[a, b], every=5):
            with step:
                ...  # a collective takes group=step.group, or a.group

    Before every `every`-th step, and after the last, the arrays are protected: sk.protect() says
    of which kinds, shapes and dtypes, and what `partner` is. A PeerDeadError in a step is not
    raised: the living recover(), and the loop goes on from the last protected step, with the same
    array objects. (One that tells of no death in the group is: of an array that is not protected.)
    Steps call neither sk.protect() nor other loops that protect. `step` is an int; what is in
    ``step.values``, a dict, goes back with the arrays; other variables do not. All members take
    the same steps. `timeout`: of recover().

    Every `every_file`-th of these states, and the last, is also written to `file`, a path with the
    suffix .npz in a folder that all hosts share. The loop goes on from it where the state in memory
    is lost, and so does a loop that begins: a job started anew, with any number of ranks. `values`
    are then those of the first member on all. Remove the file to begin from step 0. It holds
    pickled values: use no file of those that you do not trust. Not collective; each turn of the
    loop is. Errors: FileError (the file before stays);
    InvalidError (the last state is not of this loop, or that in the file is of a longer one, too);
    the loop raises LostError for what it cannot mend, and PeerDeadError for a death before the
    first state was complete, or the reading of the file began."""
    if n < 0 or every < 1:
        raise InvalidError(f"{n} steps, protected every {every}: give 0 or more, and 1 or more")
    if every_file < 0 or (every_file > 0) != (file is not None):
        raise InvalidError(
            f"every_file is {every_file} and file {file!r}: give 1 or more and a path, or neither"
        )
    path = None if file is None else Path(file).absolute()
    if path is not None and path.suffix != ".npz":
        raise InvalidError(f"{path}: states are written to .npz files: give such a suffix")
    arrays = list(protect)
    if not arrays:
        raise InvalidError("steps need something to protect: give arrays")
    return Steps(n, arrays, every, partner, timeout, every_file, path)


def go_on(attempt: Callable[[Group, list[Any]], _Result], *, timeout: float = -1.0) -> _Result:
    """attempt(group, arrays), again after each death in it, with on_failure="continue": for a loop
    in a library, say. It calls protect() now and then. A PeerDeadError in it is not raised: the
    living recover(), and call it with their group and the arrays that came back. (One that tells of
    no death in the group is.) The first time the list is empty. What else is over a group, it makes
    anew. Returns what it returned, the same attempt on all members. `timeout`: of recover(). Ends
    with a sync. Collective. Errors: those of attempt; LostError for what cannot be mended, also for
    a death before the first state is complete."""
    group, arrays = protected_group(()), list[Any]()
    with attempts():
        if is_newcomer():
            group, arrays = join_making(timeout), protected_arrays()
        while True:
            try:
                result = attempt(group, arrays)
                _core.sync(group)  # a member that came through does not leave those that did not
                return result
            except LostError:
                raise
            except PeerDeadError as error:
                _hear_of(error, group)
                group = recover(timeout=timeout)
                arrays = protected_arrays()
