"""The tools that lit runs, as forks of one process: nearly all of a tool's time is for its imports.

    python prepared.py serve SOCKET            # import the tools, print a line, and wait
    python prepared.py SOCKET TOOL ARGUMENT... # run a tool in a fork

The fork has the standard files and the folder of the process that asks for it, which ends as the
fork ends.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys


def ask(path: str, request: list[str]) -> None:
    """Run a tool, and end as it has ended."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [json.dumps([os.getcwd(), *request]).encode()], [0, 1, 2])
        server.shutdown(socket.SHUT_WR)
        status = int(server.recv(16))
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


def serve(path: str) -> None:
    """Run what others ask for, until the process is terminated."""
    import filecheck.main

    import gnomon.tools.driver.command_line
    import gnomon.tools.opt
    from gnomon.dialects.mlir import context

    tools = {
        "gnomon-opt": gnomon.tools.opt.main,
        "gnomon": gnomon.tools.driver.command_line.main,
        "filecheck": filecheck.main.main,
    }
    context()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        if os.fork():
            client.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        message, files, _, _ = socket.recv_fds(client, 1 << 16, 3)
        if tool := os.fork():
            for file in files:
                os.close(file)
            status = os.waitstatus_to_exitcode(os.waitpid(tool, 0)[1])
            client.sendall(str(status).encode())
            os._exit(0)
        client.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
        folder, name, *arguments = json.loads(message)
        os.chdir(folder)
        sys.argv = [name, *arguments]
        try:
            status = tools[name]()
        except SystemExit as error:
            status = error.code
        sys.stdout.flush()
        # The end of a Python process takes a tenth of a second, and has tests of its own.
        os._exit(int(status or 0))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        ask(sys.argv[1], sys.argv[2:])
