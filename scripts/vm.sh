#!/bin/bash
# Boots Debian's kernel in an emulated machine (TCG: it needs no hardware of this one) that has control groups v2 alone,
# a busybox and nothing else, runs the tests of the driver exec in it, and says PASS or FAIL at the end.
# Usage: vm.sh DIRECTORY      in which shim.test lies, built without cgo; the image and the machine's words go there
# RUN= names the tests, KERNEL= the kernel, LIMIT= the seconds after which it is ended.
set -eu -o pipefail

dir=$1
: "${RUN:=^(TestExecConforms|TestAnIsolatedTask.*|TestATaskReachesNoDevice.*|TestATaskThatForks.*|TestCapabilities.*|TestATaskBegins.*|TestATaskWithCores.*|TestATaskWrites.*|TestMountsOfAJob.*|TestWhatATaskMayNotAsk.*)$}"
: "${LIMIT:=600}"
if [ -z "${KERNEL:-}" ]; then
	KERNEL=$(find /boot -maxdepth 1 -name 'vmlinuz-*' | sort -V | tail -n 1)
fi
if [ -z "$KERNEL" ]; then
	echo "vm.sh: there is no kernel in /boot; install linux-image-amd64, or name one: KERNEL=/path/to/vmlinuz" >&2
	exit 1
fi
command -v qemu-system-x86_64 >/dev/null || { echo "vm.sh: there is no qemu-system-x86_64; install qemu-system-x86" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,etc,lib,lib64,proc,sys,dev,run,tmp,new,root,tests}
cp "$(command -v busybox)" "$root/bin/busybox"
for name in $("$root/bin/busybox" --list); do
	[ "$name" = busybox ] || ln -s busybox "$root/bin/$name"
done
for name in env id true; do ln -s /bin/busybox "$root/usr/bin/$name"; done
# What the tests read of a shell's processes and of errors is Debian's; busybox has other ways and words.
for name in dash touch script; do
	path=$(command -v "$name")
	rm -f "$root/bin/$name"
	cp -L "$path" "$root/bin/$name"
	ldd "$path" | grep -o '/[^ ]*' | sort -u | while read -r library; do
		mkdir -p "$root/${library%/*}"
		cp -L "$library" "$root/$library"
	done
done
ln -sf dash "$root/bin/sh"
cp "$dir/shim.test" "$root/tests/"
gzip -dc internal/helperbin/bin/berth-helper.gz >"$root/tests/berth-helper"
chmod 0755 "$root/tests/berth-helper"
# Devices are bounded on a loop device, whose driver is none of the kernel's own in Debian's.
modprobe --show-depends --set-version "${KERNEL#*/vmlinuz-}" loop | while read -r what module _; do
	if [ "$what" = insmod ]; then cp "$module" "$root/tests/"; fi
done
mkdir -p "$root/etc/ssl/certs"
printf 'root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files\n' >"$root/etc/nsswitch.conf"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
printf '%s\n' "$RUN" >"$root/tests/run"

# A task's root cannot be pivoted to from the first file system of a kernel: everything moves to another one.
cat >"$root/init" <<'INIT'
#!/bin/sh
mount -t tmpfs -o size=80% tmpfs /new
cp -a /bin /sbin /usr /etc /lib /lib64 /root /tests /new/
mkdir -p /new/proc /new/sys /new/dev /new/run /new/tmp
exec switch_root /new /tests/main
INIT
cat >"$root/tests/main" <<'MAIN'
#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root BERTH_TEST_HELPER=/tests/berth-helper
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
chmod 1777 /tmp /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
hostname vm
ip link set lo up
ulimit -n 65536
for module in /tests/*.ko*; do
	if [ -e "$module" ]; then insmod "$module"; fi
done
echo "vm: kernel $(uname -r), control groups $(stat -f -c %t /sys/fs/cgroup): $(cat /sys/fs/cgroup/cgroup.controllers)"
cd /tests
if ./shim.test -test.v -test.parallel 1 -test.timeout 9m -test.run "$(cat run)"; then
	echo "vm: PASS"
else
	echo "vm: FAIL"
fi
poweroff -f
MAIN
chmod 0755 "$root/init" "$root/tests/main"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$dir/initrd"

timeout "$LIMIT" qemu-system-x86_64 -machine pc -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -nographic -no-reboot \
	-net none -kernel "$KERNEL" -initrd "$dir/initrd" -append "console=ttyS0 quiet panic=-1" </dev/null |
	tr -d '\r' | tee "$dir/console" | grep --line-buffered -E '^(vm: |--- |    --- |panic:|FAIL|PASS)' || true
if grep -q '^vm: PASS$' "$dir/console" && grep -q '^--- PASS' "$dir/console"; then
	echo "vm.sh: PASS"
	exit 0
fi
echo "vm.sh: FAIL: what the machine said stands in $dir/console" >&2
exit 1
