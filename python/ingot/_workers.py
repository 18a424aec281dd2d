"""Processes that try what a study asks for, each with a connection of its own to the study's file."""

import multiprocessing
import os
import signal


class Workers:
    """Forked processes: objectives need not be pickled, and see what the program has loaded."""

    def __init__(self, count, work, trials):
        """``work(allowed)`` runs in each of ``count`` processes and calls ``allowed()`` before each trial; of all together
        ``trials`` begin (None: as many as the study has)."""
        context = multiprocessing.get_context("fork")
        self._left = context.Value("q", 2**62 if trials is None else trials)
        self._begun = context.Value("q", 0)
        self._errors = context.SimpleQueue()
        self._processes = [context.Process(target=self._run, args=(work,), daemon=True) for _ in range(count)]

    def _allowed(self):
        with self._left, self._begun:
            if self._left.value <= 0:
                return False
            self._left.value -= 1
            self._begun.value += 1
            return True

    def _run(self, work):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            work(self._allowed)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal and the parent may both send it
        except BaseException as error:
            with self._left:
                self._left.value = 0  # no further trial begins
            self._errors.put(_sendable(error))

    def wait(self, told):
        """Until all have ended. ``told(begun)`` is called now and then. Raises the first error of a worker; Ctrl-C ends them."""
        errors, started = [], []
        try:
            for process in self._processes:
                process.start()
                started.append(process)
            while any(process.is_alive() for process in started):
                for process in started:
                    process.join(0.05)
                while not self._errors.empty():  # a worker waits until a large one is read
                    errors.append(self._errors.get())
                told(self._begun.value)
        except BaseException:
            for process in started:
                if process.is_alive():
                    os.kill(process.pid, signal.SIGINT)
            for process in started:
                process.join()
            raise
        while not self._errors.empty():
            errors.append(self._errors.get())
        if errors:
            raise errors[0]
        for process in self._processes:
            if process.exitcode:
                raise RuntimeError(f"a worker of the study ended with exit code {process.exitcode}")


def _sendable(error):
    """The exception itself where it survives pickling, else one that tells of it."""
    import pickle

    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
