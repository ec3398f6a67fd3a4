#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds hosts on one machine: network namespaces whose links have a rate, for runs over real sockets.

  testbed.py up 4 500                     four hosts, 500 Mb/s each way
  testbed.py up 4 500 --between 100       two sites of two hosts; 100 Mb/s each way between them, shared by all
  testbed.py up 4 500 --delay 2           adds 2 ms per message from host to host; --between-delay: from site to site
  testbed.py rate 500 --host 3            changes a link, even during a run; --between changes that of the sites
  testbed.py delay 5                      changes the delay, even during a run; --between changes that of the sites
  testbed.py run [--local 2] -- COMMAND   runs COMMAND on every host as rank, shows the output of rank 0
                                          (sets RANK, WORLD_SIZE, MASTER_ADDR …)
  testbed.py down                         removes everything, also after a crash; `up` does so first

Needs root and Linux with iproute2 (ip, tc). Host i is the namespace esp<i> with the address 10.77.0.<i+1> on its link
eth0. A link is a token bucket each way (tc tbf): messages up to its burst pass unshaped. A process of delay_line.cpp
makes the delays by holding every frame back, since kernels often have no netem; without a C++ compiler there are
none. Ranks run with a real-time priority where chrt can set it, so that other processes do not slow them. Exit codes:
2 usage, 3 the testbed cannot be built here (no root, no tc), 1 a rank failed.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time

PREFIX, NETWORK, STATE = "esp", "10.77.0", "/run/espalier-testbed.json"
DELAYS, DELAY_LINE = "/run/espalier-testbed-delays.txt", "/run/espalier-delay-line"
TRUNK = f"{PREFIX}trunkb"  # delayed end of the line between sites
BURST = 16 * 1024  # bytes that a link passes at once: the size that TCP sends at a time, so that nothing is split again
QUEUE_MS = 400


class Unable(Exception):
    """Signals that the testbed cannot be built on this machine."""


def sh(*words, check=True):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and done.returncode != 0:
        raise Unable(f"{' '.join(words)}: {done.stdout.strip()}")
    return done


def need_root():
    if os.geteuid() != 0:
        raise Unable("network namespaces need root")
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise Unable(f"no {tool} (Debian: iproute2)")


def shape(rate, device, host=None):
    """Shapes traffic that leaves `device` with a token bucket of `rate` Mb/s; 0: no limit."""
    inside = ("ip", "netns", "exec", f"{PREFIX}{host}") if host is not None else ()
    sh(*inside, "tc", "qdisc", "del", "dev", device, "root", check=False)
    if rate > 0:
        sh(*inside, "ip", "link", "set", "dev", device, "gso_max_size", str(BURST - 1000))
        sh(*inside, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}mbit", "burst", str(BURST), "latency", f"{QUEUE_MS}ms")


def carry_packets(first):
    """Gives the kernel threads that carry packets between namespaces a real-time priority, or resets it."""
    if shutil.which("chrt") is None:
        return
    for pid in subprocess.run(["pgrep", "^ksoftirqd"], capture_output=True, text=True).stdout.split():
        sh("chrt", *(["-f", "-p", "30"] if first else ["-o", "-p", "0"]), pid, check=False)


def pair(name, peer, *more):
    sh("ip", "link", "add", name, "type", "veth", "peer", "name", peer, *more)


def lift(device, bridge=None):
    if bridge:
        sh("ip", "link", "set", device, "master", bridge)
    sh("ip", "link", "set", device, "up")


def join(device, bridge, delayed):
    """Connects the end of a link with a bridge, through the delay line if it is delayed."""
    if not delayed:
        return lift(device, bridge)
    inner, outer = f"{device}d", f"{device}e"
    pair(inner, outer)
    lift(device)
    lift(inner)
    lift(outer, bridge)


def start_delays(delays):
    """Starts the delay line over the pairs of `delays`, device -> milliseconds."""
    write_delays(delays)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "delay_line.cpp")
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise Unable("delays need a C++ compiler (Debian: g++)")
    sh(compiler, "-std=c++20", "-O2", source, "-o", DELAY_LINE)
    soon = ["chrt", "-f", "40"] if shutil.which("chrt") and sh("chrt", "-f", "40", "true", check=False).returncode == 0 else []
    line = subprocess.Popen([*soon, DELAY_LINE, DELAYS], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)
    if line.stdout.readline().strip() != "ready":
        raise Unable(f"the delay line: {line.stderr.read().strip()}")
    return line.pid


def write_delays(delays):
    with open(DELAYS, "w", encoding="utf-8") as file:
        file.writelines(f"{device} {device}d {milliseconds}\n" for device, milliseconds in delays.items())


def set_delay(milliseconds, between):
    state = state_up()
    changed = {device for device in state["delays"] if (device == TRUNK) == between}
    if not changed:
        raise Unable("nothing is delayed there (up --delay, --between-delay)")
    for device in changed:
        state["delays"][device] = milliseconds if between else milliseconds / 2
    write_delays(state["delays"])
    os.kill(state["delay_line"], signal.SIGHUP)
    keep(state)


def keep(state):
    with open(STATE, "w", encoding="utf-8") as file:
        json.dump(state, file)


def end_delays():
    subprocess.run(["pkill", "-x", os.path.basename(DELAY_LINE)[:15]], check=False)


def down():
    carry_packets(False)
    end_delays()
    for line in sh("ip", "netns", "list", check=False).stdout.splitlines():
        name = line.split()[0] if line.split() else ""
        if name.startswith(PREFIX) and name[len(PREFIX):].isdigit():
            for pid in sh("ip", "netns", "pids", name, check=False).stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            sh("ip", "netns", "del", name, check=False)
    # The kernel removes a namespace and the ends of links in it lazily, so the outer ends are removed at once.
    devices = [line.split(": ")[1].split("@")[0] for line in sh("ip", "-o", "link", check=False).stdout.splitlines()]
    for device in [d for d in devices if d.startswith(PREFIX) and (d.endswith("d") or d.startswith(f"{PREFIX}v"))] + [f"{PREFIX}trunk", f"{PREFIX}br0", f"{PREFIX}br1"]:
        sh("ip", "link", "del", device, check=False)
    if os.path.exists(STATE):
        os.remove(STATE)


def add_bridge(name):
    sh("ip", "link", "add", name, "type", "bridge", "forward_delay", "0")
    sh("ip", "link", "set", name, "up")


def add_host(i, bridge, rate, delayed):
    name, outside = f"{PREFIX}{i}", f"{PREFIX}v{i}"
    sh("ip", "netns", "add", name)
    pair(outside, "eth0", "netns", name)
    join(outside, bridge, delayed)
    for words in (("addr", "add", f"{NETWORK}.{i + 1}/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
        sh("ip", "-n", name, *words)
    # Connections keep their window through pauses between steps, as on cluster networks.
    sh("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0", "net.ipv4.tcp_no_metrics_save=1", check=False)
    # A connection begins with the window that the line needs, since cluster networks have no slow start.
    if delayed:
        sh("ip", "-n", name, "route", "change", f"{NETWORK}.0/24", "dev", "eth0", "src", f"{NETWORK}.{i + 1}", "initcwnd", "1000", "initrwnd", "1000")
    shape(rate, "eth0", i)
    shape(rate, outside)


def up(hosts, rate, between, delay, between_delay):
    need_root()
    down()
    carry_packets(True)
    add_bridge(f"{PREFIX}br0")
    delays = {f"{PREFIX}v{i}": delay / 2 for i in range(hosts)} if delay > 0 else {}
    if between > 0:
        add_bridge(f"{PREFIX}br1")
        pair(f"{PREFIX}trunk", TRUNK)
        lift(f"{PREFIX}trunk", f"{PREFIX}br0")
        join(TRUNK, f"{PREFIX}br1", between_delay > 0)
        set_between(between)
        if between_delay > 0:
            delays[TRUNK] = between_delay
    for i in range(hosts):
        add_host(i, f"{PREFIX}br{1 if between > 0 and i >= hosts // 2 else 0}", rate, delay > 0)
    state = {"hosts": hosts, "delays": delays}
    if delays:
        state["delay_line"] = start_delays(delays)
    keep(state)


def set_between(rate):
    shape(rate, f"{PREFIX}trunk")
    shape(rate, TRUNK)


def state_up():
    if not os.path.exists(STATE):
        raise Unable("no testbed is up (testbed.py up HOSTS RATE)")
    with open(STATE, encoding="utf-8") as file:
        return json.load(file)


def hosts_up():
    return state_up()["hosts"]


def set_rate(rate, host, between):
    if between:
        return set_between(rate)
    for i in range(hosts_up()) if host is None else [host]:
        shape(rate, "eth0", i)
        shape(rate, f"{PREFIX}v{i}")


def start(command, host, rank, world, port, first):
    environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR=f"{NETWORK}.1", MASTER_PORT=str(port),
                       GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    soon = ["chrt", "-r", "10"] if shutil.which("chrt") and sh("chrt", "-r", "10", "true", check=False).returncode == 0 else []
    out = None if first else subprocess.DEVNULL
    return subprocess.Popen(["ip", "netns", "exec", f"{PREFIX}{host}", *soon, *command], env=environment, stdin=subprocess.DEVNULL, stdout=out,
                            stderr=None if first else subprocess.PIPE)


def run(command, hosts, local, timeout):
    """Runs every rank until all have ended; the first failure ends the others."""
    have = hosts_up()
    hosts = hosts or have
    if hosts > have:
        raise Unable(f"{hosts} hosts asked for, {have} are up")
    port = 20000 + os.getpid() % 20000
    ranks = [start(command, r // local, r, hosts * local, port, r == 0) for r in range(hosts * local)]
    end, code = time.monotonic() + timeout, 0
    while any(p.poll() is None for p in ranks):
        failed = [p for p in ranks if p.poll() not in (None, 0)]
        if failed or time.monotonic() > end:
            code = 1
            time.sleep(1)
            for p in ranks:
                if p.poll() is None:
                    p.kill()
            break
        time.sleep(0.02)
    for r, p in enumerate(ranks):
        p.wait()
        if p.returncode != 0:
            code = 1
            said = p.stderr.read().decode(errors="replace").strip() if p.stderr else ""
            print(f"rank {r}: exit code {p.returncode} {said[-500:]}", file=sys.stderr)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("up")
    p.add_argument("hosts", type=int)
    p.add_argument("rate", type=float, help="Mb/s; 0: no limit")
    p.add_argument("--between", type=float, default=0, help="Mb/s between two sites")
    p.add_argument("--delay", type=float, default=0, help="milliseconds from host to host")
    p.add_argument("--between-delay", type=float, default=0, help="milliseconds more from site to site")
    p = commands.add_parser("delay")
    p.add_argument("milliseconds", type=float)
    p.add_argument("--between", action="store_true")
    p = commands.add_parser("rate")
    p.add_argument("rate", type=float)
    p.add_argument("--host", type=int)
    p.add_argument("--between", action="store_true")
    p = commands.add_parser("run")
    p.add_argument("--hosts", type=int, default=0, help="the first so many; 0: all")
    p.add_argument("--local", type=int, default=1, help="ranks of a host")
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("words", nargs=argparse.REMAINDER)
    commands.add_parser("down")
    a = parser.parse_args()
    try:
        if a.command == "up":
            up(a.hosts, a.rate, a.between, a.delay, a.between_delay)
        elif a.command == "delay":
            set_delay(a.milliseconds, a.between)
        elif a.command == "rate":
            set_rate(a.rate, a.host, a.between)
        elif a.command == "down":
            need_root()
            down()
        else:
            words = a.words[1:] if a.words[:1] == ["--"] else a.words
            if not words:
                parser.error("run -- COMMAND")
            return run(words, a.hosts, a.local, a.timeout)
    except Unable as why:
        print(f"testbed: skipped: {why}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
