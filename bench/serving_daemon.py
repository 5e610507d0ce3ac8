"""A daemon for the measurements of serving: `with daemon(build, config) as (port, process)`."""
import contextlib
import os
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_answer(url, seconds, process):
    """Until the URL answers; False: it does not, or the process has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return True
        except OSError:
            time.sleep(0.1)
    return False


def start(build, config):
    return subprocess.Popen([os.path.join(build, "braid"), "serve", "--config", config], stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def configured(config):
    """The port, and a file with `config`, in which PORT and FOLDER stand for a free port and the file's folder."""
    with tempfile.TemporaryDirectory() as folder:
        port, path = free_port(), os.path.join(folder, "serve.yaml")
        with open(path, "w") as f:
            f.write(config.replace("PORT", str(port)).replace("FOLDER", folder))
        yield port, path


@contextlib.contextmanager
def daemon(build, config):
    """Its port and process, when its models are loaded; ended by SIGTERM."""
    with configured(config) as (port, path):
        process = start(build, path)
        try:
            if not await_answer(f"http://127.0.0.1:{port}/v2/health/ready", 60, process):
                raise RuntimeError("the daemon does not start: braid serve --config FILE --check says why")
            yield port, process
        finally:
            process.terminate()
            process.wait(30)
