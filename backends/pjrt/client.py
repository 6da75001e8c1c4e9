"""Clients and devices of a plugin, and topologies of devices that are not here.

A client owns the devices. Everything made by it (buffers, executables) must be freed before it is,
and only once; the interpreter, when it ends, finalizes objects in an order of its own. So a client
keeps the table of what it has given out (`Client.owned`): whoever frees a handle takes it out of
the table first, and `Client.close` frees all that is left, then the client. Clients close at exit.

A fork copies handles into a process where the plugin's threads do not exist: there, nothing of the
client is called any more, and every use says so.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Any

from gnomon.backends.errors import BackendUnavailable, ExecutionError
from gnomon.backends.pjrt.c_api import PjrtError, address_of, named_values_of
from gnomon.backends.pjrt.plugin import Plugin

__all__ = ["Client", "Device", "Topology"]

_clients: weakref.WeakSet[Client] = weakref.WeakSet()


_AHEAD = (
    "; programs for TPUs can be compiled here all the same: "
    'gnomon.jit(f).lower(x).compile(target="tpu:v5e:2x2")'
)


class Device:
    """A device of a client.

    Attributes:
      id: its number, as the plugin counts.
      platform: the platform's name, as the user chose the plugin.
      device_kind: the model, as the plugin names it.
      process_index: the process that it belongs to.
      client: the client that owns it.
      handle: the plugin's pointer.
      backend: the backend that lists it.
      memory_kinds: the names of its memories, the default one first.
    """

    __slots__ = (
        "__weakref__",
        "backend",
        "client",
        "device_kind",
        "handle",
        "id",
        "memory_kinds",
        "platform",
        "process_index",
    )

    def __init__(self, client: Client, handle: int) -> None:
        api = client.api
        self.client = client
        self.handle = handle
        self.backend: Any = None
        self.platform = client.plugin.name
        description = api.call("Device_GetDescription", device=handle).description
        self.id = int(api.call("DeviceDescription_Id", description=description).id)
        self.process_index = int(
            api.call("DeviceDescription_ProcessIndex", description=description).process_index
        )
        self.device_kind = api.text("DeviceDescription_Kind", description=description)
        self.memory_kinds = _memory_kinds(client, handle)

    def memory_stats(self) -> dict[str, int] | None:
        """Bytes in use and the like, by the names that JAX has for them; None where the plugin does
        not count.
        """
        self.client.check_alive()
        try:
            stats = self.client.api.call("Device_MemoryStats", device=self.handle)
        except PjrtError as error:
            if error.code == "UNIMPLEMENTED":
                return None
            raise
        names = [name for name, _ in stats._fields_[2:] if not name.startswith("has_")]
        return {n: getattr(stats, n) for n in names if getattr(stats, f"has_{n}", True)}

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform.upper()}_{self.id}"


def _memory_kinds(client: Client, device: int) -> tuple[str, ...]:
    api = client.api
    with contextlib.suppress(PjrtError):
        default = api.call("Device_DefaultMemory", device=device).memory
        listed = api.call("Device_AddressableMemories", device=device)
        others = (ctypes.c_void_p * listed.num_memories).from_address(listed.memories)
        memories = [default, *(m for m in others if m != default)]
        return tuple(api.text("Memory_Kind", memory=memory) for memory in memories)
    return ()


class Client:
    """A plugin's client: the devices of this process.

    Args:
      plugin: a loaded plugin.
      options: what the plugin takes, such as ``cpu_device_count``.

    Attributes:
      devices: those that this process can use.
      platform_name, platform_version: as the plugin says them.
      owned: handles of buffers and executables to free, and the function that frees each.

    Raises:
      BackendUnavailable: the plugin finds no device, or another process has it.
    """

    def __init__(self, plugin: Plugin, options: dict[str, Any] | None = None) -> None:
        self.plugin = plugin
        self.api = plugin.api
        self.owned: dict[int, str] = {}
        # What NumPy arrays that look into a buffer keep alive, by the buffer's handle.
        self.viewed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        # NumPy arrays that the plugin may still read, with the event that says until when.
        self.borrowed: collections.deque[tuple[int, object]] = collections.deque()
        self._process = os.getpid()
        self.handle: int | None = None
        array, kept = named_values_of(options or {})
        try:
            self.handle = self.api.call(
                "Client_Create", create_options=address_of(array), num_options=len(options or {})
            ).client
        except PjrtError as error:
            raise BackendUnavailable(
                f"the platform {plugin.name!r} has no usable device on this machine: its plugin "
                f"{plugin.path} says {error}{_AHEAD if plugin.name == 'tpu' else ''}"
            ) from error
        del kept
        self.platform_name = self.api.text("Client_PlatformName", client=self.handle)
        self.platform_version = self.api.text("Client_PlatformVersion", client=self.handle)
        listed = self.api.call("Client_AddressableDevices", client=self.handle)
        handles = (ctypes.c_void_p * listed.num_devices).from_address(listed.devices)
        self.devices = tuple(Device(self, handle) for handle in handles)
        # In the memory of the host, results can be read in place.
        self.shares_host_memory = self.platform_name == "cpu"
        _clients.add(self)

    def __repr__(self) -> str:
        state = "" if self.usable else ", closed"
        return f"Client({self.plugin.name!r}, {len(self.devices)} devices{state})"

    @property
    def usable(self) -> bool:
        """Whether it is open, and of this process."""
        return self.handle is not None and os.getpid() == self._process

    def check_alive(self) -> None:
        """Raises unless the client can be used.

        Raises:
          ExecutionError: it was closed, or this process is a fork of the one that made it.
        """
        if self.handle is None:
            raise ExecutionError(f"the client of the platform {self.plugin.name!r} was closed")
        if os.getpid() != self._process:
            raise ExecutionError(
                f"the platform {self.plugin.name!r} was started before this process was forked, "
                "and its threads are not here; start processes by "
                "multiprocessing.get_context('spawn'), or use the platform after the fork only"
            )

    def adopt(self, handle: int, destroy: str) -> int:
        """Notes a handle that must be freed by the function ``destroy``."""
        self.owned[handle] = destroy
        return handle

    def release(self, handle: int) -> None:
        """Frees a handle, unless that happened before."""
        if self.usable:
            destroy = self.owned.pop(handle, None)
            if destroy is not None:
                self.api.call(destroy, **{_FREED[destroy]: handle})

    def linger(self, event: int, array: object) -> None:
        """Keeps an array that the plugin may still use, until an adopted event has come to pass.

        Called by finalizers, at any moment and in any thread: so it takes no lock.
        """
        if self.usable:
            self.borrowed.append((event, array))
            self.return_borrowed()

    def return_borrowed(self) -> None:
        """Lets go of the arrays whose events have come to pass."""
        for _ in range(len(self.borrowed)):
            try:
                event, array = self.borrowed.popleft()
            except IndexError:  # somebody else was quicker
                return
            if self.api.is_ready(event):
                self.release(event)
            else:
                self.borrowed.append((event, array))

    def close(self) -> None:
        """Frees everything that the client owns, and the client. Its buffers are deleted by it.

        What NumPy arrays look into stays until the process ends, and so does the client then.
        """
        if not self.usable:
            return
        viewed = set(self.viewed)
        for destroy in _FREED:
            for handle in [h for h, d in self.owned.items() if d == destroy and h not in viewed]:
                with contextlib.suppress(PjrtError):
                    if destroy == "Event_Destroy":
                        # It says that nothing reads or writes an array of ours any more.
                        self.api.call("Event_Await", event=handle)
                    self.release(handle)
        self.borrowed.clear()
        client, self.handle = self.handle, None
        if not viewed:
            self.api.call("Client_Destroy", client=client)


# What frees a handle, and by which name it takes it, in the order of freeing at the end: what was
# made goes before what made it.
_FREED = {
    "Buffer_Destroy": "buffer",
    "Event_Destroy": "event",
    "Executable_Destroy": "executable",
    "LoadedExecutable_Destroy": "executable",
}


class Topology:
    """Devices that are described, not present: what programs are compiled for ahead of time.

    Args:
      plugin: a loaded plugin.
      name: as the plugin names them, such as ``"v5e:2x2"``.

    Attributes:
      device_ids: the devices' numbers.
      device_kinds: their models.

    Raises:
      PjrtError: the plugin knows none of that name.
    """

    def __init__(self, plugin: Plugin, name: str) -> None:
        self.plugin = plugin
        self.name = name
        api = plugin.api
        text = name.encode()
        made = api.call("TopologyDescription_Create", name=text, name_size=len(text))
        self.handle = made.topology
        listed = api.call("TopologyDescription_GetDeviceDescriptions", topology=self.handle)
        descriptions = (ctypes.c_void_p * listed.num_descriptions).from_address(listed.descriptions)
        ids = [api.call("DeviceDescription_Id", description=d).id for d in descriptions]
        self.device_ids = tuple(map(int, ids))
        self.device_kinds: Sequence[str] = [
            api.text("DeviceDescription_Kind", description=d) for d in descriptions
        ]
        weakref.finalize(self, _destroy_topology, plugin, self.handle).atexit = False

    @property
    def version(self) -> str:
        """The compiler's version."""
        return self.plugin.api.text("TopologyDescription_PlatformVersion", topology=self.handle)

    def __repr__(self) -> str:
        return f"Topology({self.plugin.name!r}, {self.name!r}, {len(self.device_ids)} devices)"


def _destroy_topology(plugin: Plugin, handle: int) -> None:
    plugin.api.call("TopologyDescription_Destroy", topology=handle)


def _close_all() -> None:
    for client in list(_clients):
        with contextlib.suppress(PjrtError):
            client.close()


atexit.register(_close_all)
