#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes `import torch` work without 2.4 GB of CUDA libraries, for tests that only read configurations. Builds a small
shared library for each one that torch's own need and this machine lacks; its functions do nothing. It must never be
used for GPU computations.

usage: stand_ins.py TORCH_LIB_FOLDER OUT_FOLDER          needs gcc, nm and readelf
"""
import collections
import pathlib
import re
import subprocess
import sys

OURS = re.compile(r"^(cublas|cudnn|cusparse|cufft|cuFile|nccl|nvrtc|nvshmem|cusolver|nvtx)")
PRESENT = ("libcudart", "libcupti")  # separate wheels that torch needs


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    needed, symbols, versions = set(), set(), collections.defaultdict(set)
    for library in sorted(folder.glob("libtorch*.so")):
        needed |= {n for n in re.findall(r"Shared library: \[(lib(?:cu|nv|nccl)[^\]]*)\]", said("readelf", "-d", str(library))) if not n.startswith(PRESENT)}
        symbols |= {s for s in (line.split()[-1].split("@")[0] for line in said("nm", "-D", "-u", str(library)).splitlines()) if OURS.match(s)}
        current = None
        for line in said("readelf", "-V", str(library)).splitlines():
            if (file := re.search(r"File: (\S+)", line)) is not None:
                current = file.group(1)
            elif (name := re.search(r"Name: (\S+)\s+Flags", line)) is not None and current is not None:
                versions[current].add(name.group(1))
    code = "".join(f"int {s}(){{return 1;}}\n" for s in sorted(symbols))
    for library in sorted(needed):
        (out / "stand_in.c").write_text(code)
        words = ["gcc", "-w", "-shared", "-fPIC", str(out / "stand_in.c"), f"-Wl,-soname,{library}", "-o", str(out / library)]
        if versions[library]:
            (out / "stand_in.map").write_text("".join(f"{v} {{ global: *; }};\n" if k == 0 else f"{v} {{ }};\n" for k, v in enumerate(sorted(versions[library]))))
            words.append(f"-Wl,--version-script={out / 'stand_in.map'}")
        subprocess.run(words, check=True)
    print(f"{len(needed)} libraries in {out}")


if __name__ == "__main__":
    main()
