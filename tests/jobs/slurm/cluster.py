"""A Slurm of two nodes on this machine, really run, with accounting.

The QOS ``one`` lets a user have one job; ``nobody`` is a user who is no operator.

It takes root and Debian's packages ``slurmctld slurmd slurm-client slurmdbd munge mariadb-server``,
whose services need not run. The nodes ``n1`` and ``n2`` have four processors, 4,000 MB and two
GPUs each, which are devices in name only. A requeued job waits 10 s instead of the usual two
minutes, and Slurm forgets an ended one after 10 s. All is in one directory but munge's socket,
whose place slurmdbd cannot be told: a munge that runs already is used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAMS = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "mariadb",
    "slurmdbd",
    "slurmctld",
    "slurmd",
)
NODES = ("n1", "n2")
CPUS, MEGABYTES, GPUS = 4, 4000, 2
MUNGE_SOCKET = Path("/run/munge/munge.socket.2")
START_SECONDS = 120
_NULL_DEVICE = os.makedev(1, 3)

SLURM_CONF = """\
ClusterName=drumline
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={n1}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=10
CredType=cred/munge
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool/%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.%n.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,requeue_delay=1
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
MessageTimeout=5
SlurmctldTimeout=10
MinJobAge=10
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} {size}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} {size}
PartitionName=low Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=30 \
PreemptMode=REQUEUE
PartitionName=short Nodes=n1,n2 Default=NO MaxTime=2 State=UP PriorityTier=1
PartitionName=high Nodes=n1,n2 Default=NO MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""

GRES_CONF = """\
NodeName=n1 Name=gpu File={at}/gpu[0-1]
NodeName=n2 Name=gpu File={at}/gpu[2-3]
"""

SLURMDBD_CONF = """\
AuthType=auth/munge
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
LogFile={at}/slurmdbd.log
PidFile={at}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageLoc=slurm_acct_db
StorageUser=slurm
StoragePass=accounting
"""

ACCOUNTING = (
    "add cluster drumline",
    "add account drumline",
    "add user nobody account=drumline",
    "add qos one MaxSubmitJobsPerUser=1",
    "modify user root set qos+=one,normal",
)
OTHER_USER = "nobody"


class Service:
    """A program that runs beside the tests.

    Args:
        argv: its command.
        environment: its whole environment.
        log: where its output goes.
        name: in errors.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], log: Path, name: str
    ) -> None:
        self.name = name
        self._argv, self._environment, self._log = argv, environment, log

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                self._argv,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def end(self, seconds: float = 20) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclasses.dataclass(frozen=True)
class SlurmCluster:
    """A cluster that runs.

    Attributes:
        directory: of its configuration, state and logs.
        environment: with which Slurm's commands find it.
    """

    directory: Path
    environment: Mapping[str, str]
    services: list[Service] = dataclasses.field(default_factory=list)

    @contextlib.contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Have a service ended meanwhile."""
        service = next(each for each in self.services if each.name == name)
        service.end()
        try:
            yield
        finally:
            service.start()

    def command(self, *argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's commands to its end; an error of it is raised, with what it says."""
        done = subprocess.run(
            argv, env=dict(self.environment), capture_output=True, text=True, **options
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
        return done

    def log(self) -> str:
        """What its services logged last, for a failing test."""
        return "\n".join(
            f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}"
            for path in sorted(self.directory.glob("*.log"))
        )


REQUIRED_VARIABLE = "DRUMLINE_REQUIRE_SLURM"
"""If it is set, a test that cannot run fails."""


def missing() -> str:
    """Why it cannot run here; empty if it can."""
    if os.geteuid():
        return "a Slurm cluster of tests takes root"
    absent = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


@contextlib.contextmanager
def slurm_cluster(directory: Path) -> Iterator[SlurmCluster]:
    """Start a cluster, and end it with all its jobs.

    Args:
        directory: empty; its path is short enough for a socket (108 bytes).

    Raises:
        RuntimeError: a service does not come, with its log.
    """
    host = socket.gethostname()
    ports = dict(zip(("ctld", "n1", "n2", "dbd", "database"), _free_ports(5), strict=True))
    size = f"CPUS={CPUS} RealMemory={MEGABYTES} Gres=gpu:{GPUS}".replace("CPUS", "CPUs")
    values = {"host": host, "at": directory, "size": size, **ports}
    # Munge and MariaDB run as other users, who have to be let through to their files.
    for parent in (directory, *directory.parents[:-1]):
        parent.chmod(parent.stat().st_mode | 0o011)
    for name, text in (
        ("slurm.conf", SLURM_CONF),
        ("gres.conf", GRES_CONF),
        ("slurmdbd.conf", SLURMDBD_CONF),
    ):
        (directory / name).write_text(text.format(**values))
        (directory / name).chmod(0o600 if name == "slurmdbd.conf" else 0o644)
    for folder in ("state", *(f"spool/{node}" for node in NODES)):
        (directory / folder).mkdir(parents=True)
    for number in range(GPUS * len(NODES)):
        os.mknod(directory / f"gpu{number}", 0o666 | stat.S_IFCHR, _NULL_DEVICE)
    environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(directory / "slurm.conf")}
    cluster = SlurmCluster(directory, environment)
    with contextlib.ExitStack() as stack:
        services = _Services(stack, cluster)
        stack.enter_context(_munge(environment))
        _start_database(services, ports["database"])
        services.start("slurmdbd", "-D")
        services.wait_for("slurmdbd", lambda: _listens(ports["dbd"]))
        for words in ACCOUNTING:
            cluster.command("sacctmgr", "-i", *words.split())
        services.start("slurmctld", "-D", "-f", environment["SLURM_CONF"])
        for node in NODES:
            services.start(
                "slurmd", "-D", "-N", node, "-f", environment["SLURM_CONF"], name=f"slurmd.{node}"
            )
        services.wait_for("the nodes", lambda: _idle_nodes(cluster) == set(NODES))
        yield cluster
        subprocess.run(["scancel", "--full", "-u", "root"], env=environment, check=False)


class _Services:
    """Processes of a cluster, which end in the reverse order."""

    def __init__(self, stack: contextlib.ExitStack, cluster: SlurmCluster) -> None:
        self.stack = stack
        self.cluster = cluster

    def start(self, *argv: str, name: str | None = None) -> None:
        name = name or argv[0]
        log = self.cluster.directory / f"{name}.out.log"
        service = Service(argv, self.cluster.environment, log, name)
        service.start()
        self.cluster.services.append(service)
        self.stack.callback(service.end)

    def wait_for(self, what: str, there: Callable[[], bool]) -> None:
        until = time.monotonic() + START_SECONDS
        while not there():
            ended = [service.name for service in self.cluster.services if service.ended]
            if ended or time.monotonic() > until:
                why = f"ended: {', '.join(ended)}" if ended else f"not within {START_SECONDS} s"
                raise RuntimeError(f"Slurm: {what} did not come ({why}).\n{self.cluster.log()}")
            time.sleep(0.1)


@contextlib.contextmanager
def _munge(environment: Mapping[str, str]) -> Iterator[None]:
    """Have a munge that answers. One that was started for tests ends with the last that use it."""
    place = MUNGE_SOCKET.parent
    place.mkdir(exist_ok=True, mode=0o755)
    shutil.chown(place, "munge", "munge")
    pid = place / "drumline.pid"
    with (place / "drumline.lock").open("w") as users:
        until = time.monotonic() + START_SECONDS
        while True:
            fcntl.flock(users, fcntl.LOCK_EX)
            if not _munge_answers():
                _start_munge(place, pid, environment)
            # Another one may end it before this is a user of it.
            fcntl.flock(users, fcntl.LOCK_SH)
            if _munge_answers():
                break
            if time.monotonic() > until:
                raise RuntimeError(f"Slurm: munge does not answer at {MUNGE_SOCKET}")
        try:
            yield
        finally:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if pid.exists():
                    os.kill(int(pid.read_text()), signal.SIGTERM)


def _start_munge(place: Path, pid: Path, environment: Mapping[str, str]) -> None:
    key = place / "drumline.key"
    key.unlink(missing_ok=True)
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    shutil.chown(key, "munge", "munge")
    subprocess.run(
        [*("runuser", "-u", "munge", "--", "munged", "--force", f"--key-file={key}")]
        + [f"--pid-file={pid}", f"--seed-file={place}/drumline.seed"]
        + [f"--log-file={place}/drumline.log"],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        check=True,
    )


def _munge_answers() -> bool:
    if not MUNGE_SOCKET.exists():
        return False
    return subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0


def _start_database(services: _Services, port: int) -> None:
    directory = services.cluster.directory
    place = directory / "database"
    place.mkdir()
    shutil.chown(place, "mysql", "mysql")
    services.cluster.command(
        "mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={place}"
    )
    services.start(
        *("mariadbd", "--no-defaults", "--user=mysql", f"--datadir={place}"),
        *(f"--socket={place}/mariadb.sock", "--bind-address=127.0.0.1", f"--port={port}"),
        *("--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"),
    )
    services.wait_for("MariaDB", lambda: _listens(port))
    sql = (
        "create user 'slurm'@'127.0.0.1' identified by 'accounting'; "
        "grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1'"
    )
    services.cluster.command(
        "mariadb", "--no-defaults", f"--socket={place}/mariadb.sock", "-e", sql
    )


def _listens(port: int) -> bool:
    with contextlib.closing(socket.socket()) as tried:
        tried.settimeout(1)
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _idle_nodes(cluster: SlurmCluster) -> set[str]:
    try:
        shown = cluster.command("sinfo", "--noheader", "--Node", "--format=%N %t").stdout
    except RuntimeError:
        return set()
    found: Sequence[list[str]] = [line.split() for line in shown.splitlines()]
    return {fields[0] for fields in found if fields[1:] == ["idle"]}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(contextlib.closing(socket.socket())) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


def _path() -> str:
    """With the directories of services, which a user's path may lack."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
