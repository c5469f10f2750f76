#!/usr/bin/env python3
"""Which folios real kernels make: boots orders.c in kernels of the rig, and prints what it reports, a line for each step.

    python3 lab/folios/orders.py 6.12,xfs 6.12,ext4 7.2,xfs 7.2,ext4 > lab/folios/orders.txt

Kernels are those that `isotherm-lab rig ready 6.12 7.2` has put into the cache folder. Needs gcc, mkfs.xfs, mke2fs and qemu-system-x86_64.
`[0] 0:2 4:2` says: at page 0 the kernel added a folio of order 2 at page 0 of the file, and one at page 4; `8..11:0` are single pages.
"""

import glob
import lzma
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("ISOTHERM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "isotherm"
)
BLOCK = 4096
DISK_BYTES = 320 << 20
SECONDS_MAX = 600


def modules_of(folder, names):
    """The modules called `names`, each after those that it needs. What is not there is built in."""
    found = glob.glob(f"{folder}/kernel/**/*.ko.xz", recursive=True)
    paths = {os.path.basename(path).split(".")[0].replace("-", "_"): path for path in found}
    modules = {}

    def add(name):
        if name in modules or name not in paths:
            return
        module = lzma.open(paths[name]).read()
        key = b"\0depends="
        at = module.find(key) + len(key)
        for needed in module[at : module.index(b"\0", at)].decode().split(","):
            add(needed.replace("-", "_"))
        modules[name] = module

    for name in names:
        add(name)
    return modules


def blocks_of(kind, folder):
    """The blocks of an empty file system that are not zero, each after its place."""
    image = f"{folder}/image"
    make = {
        "xfs": ["mkfs.xfs", "-q", "-K", "-b", f"size={BLOCK}", "-d", f"file,name={image},size={DISK_BYTES}"],
        "ext4": ["mke2fs", "-q", "-F", "-t", "ext4", "-b", str(BLOCK), "-O", "^has_journal", image, f"{DISK_BYTES >> 10}k"],
    }[kind]
    path = "/usr/sbin:/sbin:" + os.environ["PATH"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path})
    blocks = b""
    with open(image, "rb") as file:
        for at in range(0, DISK_BYTES, BLOCK):
            block = file.read(BLOCK)
            if block.strip(b"\0"):
                blocks += struct.pack("<Q", at) + block
    return blocks


def archive(files):
    """An archive as the kernel unpacks it: name, mode, bytes."""
    out = b""
    for number, (name, mode, content) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        name = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name
        out += b"\0" * (-len(out) % 4) + content
        out += b"\0" * (-len(out) % 4)
    return out


def boot(kernel, kind, folder):
    modules = glob.glob(f"{CACHE}/kernels/{kernel}/usr/lib/modules/*")[0]
    images = [f"{CACHE}/kernels/{kernel}/boot/vmlinuz-{os.path.basename(modules)}", f"{modules}/vmlinuz"]
    image = next(image for image in images if os.path.exists(image))
    init = f"{folder}/init"
    compiler = ["gcc", "-O1", "-static", "-w", f'-DKIND="{kind}"', "-o", init, f"{HERE}/orders.c"]
    subprocess.run(compiler, check=True)
    files = [("m", 0o40755, b""), ("init", 0o100755, open(init, "rb").read()), ("image", 0o100644, blocks_of(kind, folder))]
    loaded = modules_of(modules, ["crc32c_generic", kind, "brd"])
    files.append(("brd.ko", 0o100644, loaded.pop("brd")))
    files += [(f"m/{index:02}.ko", 0o100644, module) for index, module in enumerate(loaded.values())]
    with open(f"{folder}/initramfs", "wb") as file:
        file.write(archive(files))
    report = f"{folder}/report"
    emulator = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max,la57=off", "-m", "1024", "-display", "none"]
    emulator += ["-nodefaults", "-no-reboot", "-serial", f"file:{folder}/console", "-serial", f"file:{report}"]
    emulator += ["-kernel", image, "-initrd", f"{folder}/initramfs"]
    emulator += ["-append", "console=ttyS0 quiet panic=-1 norandmaps no_timer_check"]
    subprocess.run(emulator, check=True, timeout=SECONDS_MAX)
    with open(report) as lines:
        return [line.rstrip() for line in lines]


def steps(lines):
    """Joins the folios of a step, and single pages that follow each other."""
    step, folios = "", []
    for line in [*lines, ""]:
        if line.startswith("    "):
            index, order = map(int, line.split(":"))
            if order == 0 and folios and folios[-1][1:] == [index - 1, 0]:
                folios[-1][1] = index
            else:
                folios.append([index, index, order])
            continue
        if folios:
            words = [f"{first}..{last}:{order}" if last > first else f"{first}:{order}" for first, last, order in folios]
            yield " ".join([" " + step, *words])
        folios = []
        step = f" [{line.split()[1]}]" if line.startswith("  at ") else " "
        if line and not line.startswith("  at "):
            yield line


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for asked in sys.argv[1:]:
        kernel, kind = asked.split(",")
        with tempfile.TemporaryDirectory() as folder:
            lines = boot(kernel, kind, folder)
        if not lines or lines[-1] != "done":
            sys.exit(f"{asked}: the guest did not finish: {lines[:9]}")
        print(f"# {kind}")
        print("\n".join(steps(lines[:-1])), flush=True)


main()
