"""Clients and devices of a plugin, and topologies of devices that are not present.

A client owns the devices. All of its objects (buffers, executables) must be freed exactly once, and
before the client. At exit, however, the interpreter finalizes objects in an arbitrary order. A
client therefore keeps a table of its live handles (`Client.owned`). A handle is removed from the
table before it is freed. `Client.close`, which runs at exit, frees all handles that are left and
then the client.

A fork copies handles into a process without the plugin's threads. In the child, the client is never
called, and every use raises an error.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import os
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from gnomon.backends.errors import BackendUnavailable, ExecutionError
from gnomon.backends.pjrt.c_api import PjrtError, address_of, named_values_of
from gnomon.backends.pjrt.key_values import KeyValueCallbacks, KeyValueStore
from gnomon.backends.pjrt.plugin import Plugin

__all__ = ["Client", "Device", "Topology"]

_clients: weakref.WeakSet[Client] = weakref.WeakSet()


_AHEAD = (
    "; programs for TPUs can still be compiled here: "
    'gnomon.jit(f).lower(x).compile(target="tpu:v5e:2x2")'
)


class Device:
    """A device of a client.

    Attributes:
      id: the plugin's number of the device.
      platform: the name of the platform.
      device_kind: the plugin's name of the model.
      process_index: the index of the process to which it belongs.
      is_addressable: whether it belongs to this process.
      coords: its coordinates in the topology; empty if the plugin reports none.
      client: the client that owns it.
      handle: the plugin's pointer.
      backend: the backend that lists it.
      memory_kinds: the names of its memories, the default one first.
    """

    __slots__ = (
        "__weakref__",
        "backend",
        "client",
        "coords",
        "device_kind",
        "handle",
        "id",
        "is_addressable",
        "memory_kinds",
        "platform",
        "process_index",
    )

    def __init__(self, client: Client, handle: int, is_addressable: bool) -> None:
        api = client.api
        self.client = client
        self.handle = handle
        self.is_addressable = is_addressable
        self.backend: Any = None
        self.platform = client.plugin.name
        description = api.call("Device_GetDescription", device=handle).description
        self.id = int(api.call("DeviceDescription_Id", description=description).id)
        self.process_index = int(
            api.call("DeviceDescription_ProcessIndex", description=description).process_index
        )
        self.device_kind = api.text("DeviceDescription_Kind", description=description)
        answer = api.call("DeviceDescription_Attributes", description=description)
        attributes = api.named_values(answer.attributes, answer.num_attributes)
        self.coords: tuple[int, ...] = tuple(attributes.get("coords", ()))
        self.memory_kinds = _memory_kinds(client, handle) if is_addressable else ()

    def memory_stats(self) -> dict[str, int] | None:
        """Statistics such as bytes in use, by JAX's names; None if the plugin has none."""
        self.client.check_alive()
        try:
            stats = self.client.api.call("Device_MemoryStats", device=self.handle)
        except PjrtError as error:
            if error.code == "UNIMPLEMENTED":
                return None
            raise
        # Each statistic but the first has a flag that says whether it is known.
        flags = [name for name, _ in stats._fields_ if name.startswith("has_")]
        known = [flag.removeprefix("has_") for flag in flags if getattr(stats, flag)]
        return {name: getattr(stats, name) for name in ("bytes_in_use", *known)}

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
    """A plugin's client: the devices of this process, and of others that it knows.

    Args:
      plugin: a loaded plugin.
      options: options of the plugin, such as ``cpu_device_count``.
      store: the store through which the clients of several processes find each other.

    Attributes:
      devices: the devices of all processes.
      local: the devices that this process can use.
      process_index: the index of this process, by the plugin's count.
      platform_name, platform_version: the plugin's name and version of the platform.
      owned: the live handles of buffers and executables, and the function that frees each.

    Raises:
      BackendUnavailable: the plugin finds no device, or another process uses it.
    """

    def __init__(
        self,
        plugin: Plugin,
        options: dict[str, Any] | None = None,
        store: KeyValueStore | None = None,
    ) -> None:
        self.plugin = plugin
        self.api = plugin.api
        self.owned: dict[int, str] = {}
        # The bases of NumPy arrays that view a buffer, by the buffer's handle.
        self.viewed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        # NumPy arrays that the plugin may still read, with the event that signals the end.
        self.borrowed: collections.deque[tuple[int, object]] = collections.deque()
        # The events of programs that may still run, in the order in which they started.
        self.running: collections.deque[int] = collections.deque()
        self._process = os.getpid()
        self.handle: int | None = None
        array, kept = named_values_of(options or {})
        # The plugin may call the functions as long as the client exists.
        self._callbacks = None
        if store is not None:
            self._callbacks = KeyValueCallbacks(store, f"gnomon/pjrt/{plugin.name}/")
        try:
            self.handle = self.api.call(
                "Client_Create",
                create_options=address_of(array),
                num_options=len(options or {}),
                **(self._callbacks.fields if self._callbacks else {}),
            ).client
        except PjrtError as error:
            raise BackendUnavailable(
                f"the platform {plugin.name!r} has no usable device on this machine: its plugin "
                f"{plugin.path} says {error}{_AHEAD if plugin.name == 'tpu' else ''}"
            ) from error
        del kept
        self.platform_name = self.api.text("Client_PlatformName", client=self.handle)
        self.platform_version = self.api.text("Client_PlatformVersion", client=self.handle)
        index = self.api.call("Client_ProcessIndex", client=self.handle).process_index
        self.process_index = int(index)
        mine = set(self._listed("Client_AddressableDevices"))
        every = self._listed("Client_Devices")
        self.devices = tuple(Device(self, handle, handle in mine) for handle in every)
        self.local = tuple(device for device in self.devices if device.is_addressable)
        # Results in the memory of the host can be read in place.
        self.shares_host_memory = self.platform_name == "cpu"
        _clients.add(self)

    def _listed(self, function: str) -> list[int]:
        """The handles of the devices that a function of the plugin lists."""
        listed = self.api.call(function, client=self.handle)
        return list((ctypes.c_void_p * listed.num_devices).from_address(listed.devices))

    def __repr__(self) -> str:
        state = "" if self.usable else ", closed"
        return f"Client({self.plugin.name!r}, {len(self.devices)} devices{state})"

    @property
    def usable(self) -> bool:
        """Whether the client is open and belongs to this process."""
        return self.handle is not None and os.getpid() == self._process

    def check_alive(self) -> None:
        """Raises unless the client can be used.

        Raises:
          ExecutionError: it was closed, or this process is a fork of the client's process.
        """
        if self.handle is None:
            raise ExecutionError(f"the client of the platform {self.plugin.name!r} was closed")
        if os.getpid() != self._process:
            raise ExecutionError(
                f"the platform {self.plugin.name!r} was started before this process was forked, "
                "so its threads do not exist here; start processes by "
                "multiprocessing.get_context('spawn'), or use the platform only after the fork"
            )

    def adopt(self, handle: int, destroy: str) -> int:
        """Registers a handle that must be freed by the function ``destroy``."""
        self.owned[handle] = destroy
        return handle

    def release(self, handle: int) -> None:
        """Frees a handle, unless it has been freed before."""
        if self.usable:
            destroy = self.owned.pop(handle, None)
            if destroy is not None:
                self.api.call(destroy, **{_FREED[destroy]: handle})

    def linger(self, event: int, array: object) -> None:
        """Keeps an array that the plugin may still use until an adopted event has occurred.

        Finalizers call this at any time and in any thread, so it takes no lock.
        """
        if self.usable:
            self.borrowed.append((event, array))
            self.return_borrowed()

    def await_at_close(self, events: Iterable[int]) -> None:
        """Keeps the events of programs that have started until they have occurred."""
        running = self.running
        running.extend(self.adopt(event, "Event_Destroy") for event in events)
        while running:
            try:
                event = running.popleft()
            except IndexError:  # another thread has taken the last one
                return
            if not self.api.is_ready(event):
                running.appendleft(event)
                return
            self.release(event)

    def return_borrowed(self) -> None:
        """Releases the arrays whose events have occurred."""
        for _ in range(len(self.borrowed)):
            try:
                event, array = self.borrowed.popleft()
            except IndexError:  # another thread has already released it
                return
            if self.api.is_ready(event):
                self.release(event)
            else:
                self.borrowed.append((event, array))

    def close(self) -> None:
        """Frees everything that the client owns, including all buffers, and then the client.

        If NumPy arrays view memory of the client, this memory and the client stay until the process
        ends. Programs in progress end before that: they would use what the plugin's own destructors
        free.
        """
        if not self.usable:
            return
        viewed = set(self.viewed)
        for destroy in _FREED:
            for handle in [h for h, d in self.owned.items() if d == destroy and h not in viewed]:
                with contextlib.suppress(PjrtError):
                    if destroy == "Event_Destroy":
                        # After the event, the plugin no longer reads or writes our array, and the
                        # program no longer runs.
                        self.api.call("Event_Await", event=handle)
                    self.release(handle)
        self.borrowed.clear()
        client, self.handle = self.handle, None
        if not viewed:
            self.api.call("Client_Destroy", client=client)


# The function that frees each kind of handle and the name of its field, in the order of freeing at
# exit: objects before those from which they were created.
_FREED = {
    "Buffer_Destroy": "buffer",
    "Event_Destroy": "event",
    "Executable_Destroy": "executable",
    "LoadedExecutable_Destroy": "executable",
}


class Topology:
    """Devices that are not present, for which programs are compiled ahead of time.

    Args:
      plugin: a loaded plugin.
      name: the plugin's name of the topology, such as ``"v5e:2x2"``.

    Attributes:
      device_ids: the devices' numbers.
      device_kinds: their models.

    Raises:
      PjrtError: the plugin knows no topology of that name.
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
        self._descriptions = list(descriptions)
        weakref.finalize(self, _destroy_topology, plugin, self.handle).atexit = False

    def describe(self) -> list[tuple[int, int, str, list[int]]]:
        """The id, the process, the model and the coordinates of each device.

        The coordinates are empty if the plugin reports none.
        """
        api = self.plugin.api
        found = []
        for id_, kind, handle in zip(
            self.device_ids, self.device_kinds, self._descriptions, strict=True
        ):
            process = api.call("DeviceDescription_ProcessIndex", description=handle).process_index
            answer = api.call("DeviceDescription_Attributes", description=handle)
            attributes = api.named_values(answer.attributes, answer.num_attributes)
            found.append((id_, int(process), kind, list(attributes.get("coords", ()))))
        return found

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
