#!/usr/bin/env bash
# Install Debian's Slurm with what accounting needs, OpenSSH's server and PostgreSQL, which tests of
# jobs start; with the argument "browser" Chromium instead. Does nothing if all is there. With
# "apptainer" that of Debian's unstable release is put into .apptainer, if that can be.
set -euo pipefail
if [ "${1:-}" = apptainer ]; then
  folder="$PWD/.apptainer"
  command -v apptainer >/dev/null || [ -x "$folder/usr/bin/apptainer" ] && exit 0
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  mkdir -p "$made"/{lists/partial,cache/archives/partial,packages,root}
  keys=/usr/share/keyrings/debian-archive-keyring.gpg
  # The archive that this machine's apt uses, without that of security updates, which has no sid.
  archive=$(apt-get indextargets --format '$(REPO_URI)' | grep -m1 -v security) || {
    echo "apptainer cannot be fetched, its tests are skipped: apt has no archive of Debian" >&2
    exit 0
  }
  echo "deb [signed-by=$keys] $archive sid main" >"$made/sources"
  printf '%s;\n' "Dir::Etc::sourcelist \"$made/sources\"" 'Dir::Etc::sourceparts "/dev/null"' \
    "Dir::State::lists \"$made/lists\"" "Dir::Cache \"$made/cache\"" >"$made/apt.conf"
  export APT_CONFIG="$made/apt.conf"
  if ! { apt-get -qq update && cd "$made/packages" &&
    apt-get -qq download apptainer libc6 libseccomp2 libsqlite3-0; } 2>"$made/errors"; then
    echo "apptainer cannot be fetched from Debian, its tests are skipped: $(tail -1 "$made/errors")" >&2
    exit 0
  fi
  for package in *.deb; do dpkg -x "$package" "$made/root"; done
  cd "$made/root"
  for each in bin sbin lib lib64; do [ -e "$each" ] || ln -s "usr/$each" "$each"; done
  echo "root:x:0:0:root:/root:/bin/sh" >etc/passwd
  echo "root:x:0:" >etc/group
  touch etc/hosts etc/resolv.conf etc/localtime
  mkdir -p var/tmp
  # A machine that is a container itself has not all capabilities to give.
  sed -i 's/^root default capabilities.*/root default capabilities = no/' etc/apptainer/apptainer.conf
  mv "$made/root" "$folder"
  exit 0
fi
what="Slurm, sshd and PostgreSQL"
packages=(slurmctld slurmd slurm-client slurmdbd munge mariadb-server openssh-server openssh-client iproute2
  postgresql)
programs=(slurmctld slurmd sbatch slurmdbd munged mariadbd sshd ssh ip pg_ctl)
if [ "${1:-}" = browser ]; then
  what="Chromium"
  # With the fonts of the screenshots in the documentation.
  packages=(chromium fonts-inter fonts-jetbrains-mono)
  programs=(chromium)
fi
export PATH="$PATH:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive
for folder in /usr/lib/postgresql/*/bin; do
  PATH="$PATH:$folder"
done

missing=()
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || missing+=("$program")
done
[ ${#missing[@]} -eq 0 ] && exit 0

cannot() {
  echo "$what cannot be installed for the tests: $1. Missing: ${missing[*]}." >&2
  echo "On Debian or Ubuntu, as root: apt-get install ${packages[*]}" >&2
  exit 1
}
command -v apt-get >/dev/null || cannot "there is no apt-get"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  sudo -n true 2>/dev/null || cannot "it takes root, or sudo without a password"
  as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
fi
# The tests start servers of their own: Debian's own is not made, nor started.
"${as_root[@]}" mkdir -p /etc/postgresql-common/createcluster.d
echo "create_main_cluster = false" |
  "${as_root[@]}" tee /etc/postgresql-common/createcluster.d/drumline-tests.conf >/dev/null
"${as_root[@]}" apt-get -qq update || cannot "apt-get update has failed"
"${as_root[@]}" apt-get -qq install -y --no-install-recommends "${packages[@]}" >/dev/null ||
  cannot "apt-get install has failed"
