"""What the kernel refuses to the processes of the sandbox: calls that no answer needs.

Without network and files there are still calls that lead out of what is limited: a namespace of
one's own with file systems of its own, the keyring of who grades, memory that counts for no
process. The list is that of Flatpak, and memory besides; all else is allowed.
"""

import ctypes
import errno
import platform
import struct
import sys

PR_SET_SECCOMP, MODE_FILTER = 22, 2
LOAD, AND, EQUAL, ANY, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x45, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
NUMBER, MACHINE, FIRST, FOURTH = 0, 4, 16, 40  # where a call's number and arguments stand
NEW_SPACES = 0x7E020000  # CLONE_NEW…, of clone
SHARED_BY_NOBODY = 0x21  # MAP_SHARED and MAP_ANONYMOUS, of mmap
X32 = 0x40000000  # another way to call, on x86-64
CALLS = {  # on x86-64 and on AArch64
    "ptrace": (101, 117),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "mount": (165, 40),
    "umount2": (166, 39),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "memfd_create": (319, 279),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
}
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
CLONE, CLONE3, MMAP = (56, 220), (435, 435), (9, 222)


def program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter for a machine: steps (code, where to go on if true, and if not, a number)."""
    column, kind = MACHINES[machine]
    no, absent = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
    steps = [(LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, kind), (RETURN, 0, 0, no)]
    steps += [(LOAD, 0, 0, NUMBER), (AT_LEAST, 0, 1, X32), (RETURN, 0, 0, no)]
    for numbers in CALLS.values():
        steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, no)]
    # glibc then takes clone, whose flags can be looked at
    steps += [(EQUAL, 0, 1, CLONE3[column]), (RETURN, 0, 0, absent)]
    steps += [(EQUAL, 0, 4, CLONE[column]), (LOAD, 0, 0, FIRST)]
    steps += [(ANY, 0, 1, NEW_SPACES), (RETURN, 0, 0, no), (RETURN, 0, 0, ALLOW)]
    steps += [(EQUAL, 0, 5, MMAP[column]), (LOAD, 0, 0, FOURTH)]
    steps += [(AND, 0, 0, SHARED_BY_NOBODY), (EQUAL, 0, 1, SHARED_BY_NOBODY)]
    steps += [(RETURN, 0, 0, no), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ALLOW)]
    return steps


def refuse() -> bool:
    """Have these calls refused to this process and all that it starts, from now on; False where
    that is not possible."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return False
    steps = program(platform.machine())
    packed = b"".join(struct.pack("HBBI", *step) for step in steps)
    steps_there = ctypes.create_string_buffer(packed)
    head = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(steps_there))
    there = ctypes.create_string_buffer(head)
    return not ctypes.CDLL(None).prctl(PR_SET_SECCOMP, MODE_FILTER, there, 0, 0)
