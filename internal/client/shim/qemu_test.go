package shim_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/conformance/driver/drivertest"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/driver/qemu"
	"berth/internal/testkit/await"
	"berth/internal/testkit/freeport"
	"berth/internal/testkit/programs"
)

// bootSector is a disk whose program says "up" at its first serial port, turns the power button on, waits for that to
// be pressed, says "down", and turns the machine off.
func bootSector() []byte {
	// mov dx,0x3f8; mov al,c; out dx,al
	say := func(c byte) []byte { return []byte{0xba, 0xf8, 0x03, 0xb0, c, 0xee} }
	var code []byte
	for _, c := range []byte("up\n") {
		code = append(code, say(c)...)
	}
	// events: mov dx,0x602; mov ax,0x100; out dx,ax
	code = append(code, 0xba, 0x02, 0x06, 0xb8, 0x00, 0x01, 0xef)
	// mov dx,0x600; again: in ax,dx; test; jz again
	code = append(code, 0xba, 0x00, 0x06, 0xed, 0xa9, 0x00, 0x01, 0x74, 0xfa)
	for _, c := range []byte("down\n") {
		code = append(code, say(c)...)
	}
	// mov dx,0x604; mov ax,0x2000; out; hlt
	code = append(code, 0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xf4, 0xeb, 0xfd)
	sector := make([]byte, 512)
	copy(sector, code)
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// machine is a task of qemu with the disk of bootSector.
func machine(t *testing.T, config map[string]any) (*driver.TaskConfig, func() string) {
	t.Helper()
	tc := drivertest.Config(t, tempDir(t), ids.Alloc(ids.New()), "vm", "")
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "local", "disk.img"), bootSector(), 0o666); err != nil {
		t.Fatal(err)
	}
	tc.Resources.MemoryMB = 192
	tc.Config = config
	tc.Config["image_path"] = "local/disk.img"
	return tc, func() string {
		said, err := os.ReadFile(filepath.Join(tc.Logs.Dir, "vm.stdout.0"))
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.ReplaceAll(said, []byte("\r"), nil))
	}
}

// Given the image of a machine, when the driver qemu runs it, then it boots, what it says is the task's output, its
// port listens; and asked to end by an agent that found it again, it shuts down by itself.
func TestAMachineOfAnImageBootsAndShutsDown(t *testing.T) {
	programs.Need(t, "qemu-system-x86", qemu.Emulator)
	launcher := newLauncher(t)
	d := qemu.New(qemu.Config{}, exec.New(exec.Config{}, launcher))
	if f := d.Fingerprint(t.Context()); f.Health != driver.Healthy {
		t.Fatal(f.Description)
	}
	tc, output := machine(t, map[string]any{
		"graceful_shutdown": true,
		"guest_agent":       true,
		"port_map":          map[string]any{"ssh": 22},
	})
	port := freeport.Pick(t)
	tc.Ports = []driver.Port{{Label: "ssh", Value: port, HostIP: "127.0.0.1"}}
	started, err := d.Start(short(t), tc)
	if err != nil {
		t.Fatal(err)
	}
	await.Eventually(t, "the machine to boot", func() bool { return strings.Contains(output(), "up\n") })
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 30*time.Second)
	if err != nil {
		t.Errorf("nothing listens at its port: %v", err)
	} else {
		conn.Close()
	}
	if _, err := started.Stats(short(t)); err != nil {
		t.Error(err)
	}
	found, err := d.Recover(short(t), started.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Stop(short(t), "", time.Minute); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(output(), "\ndown\n") {
		t.Errorf("it said %q", output())
	}
}

// Given a machine that nobody asks to shut down, when its task is stopped, then qemu ends at once, whatever runs in it.
func TestAMachineThatIsNotAskedIsTurnedOff(t *testing.T) {
	programs.Need(t, "qemu-system-x86", qemu.Emulator)
	d := qemu.New(qemu.Config{}, exec.New(exec.Config{}, newLauncher(t)))
	if f := d.Fingerprint(t.Context()); f.Health != driver.Healthy {
		t.Fatal(f.Description)
	}
	tc, output := machine(t, map[string]any{})
	started, err := d.Start(short(t), tc)
	if err != nil {
		t.Fatal(err)
	}
	await.Eventually(t, "the machine to boot", func() bool { return strings.Contains(output(), "up\n") })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := started.Stop(ctx, "", 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(output(), "down") {
		t.Error("the machine was asked")
	}
}

// onTopOf is an image of qemu's own format in which nothing is written: all of it is in another one, a raw one or what
// else there is at a path.
func onTopOf(base string) []byte {
	const cluster = 1 << 16
	header := struct {
		Magic, Version                  uint32
		BaseAt                          uint64
		BaseLength, ClusterBits         uint32
		Size                            uint64
		Crypt, L1Length                 uint32
		L1At, CountsAt                  uint64
		CountsClusters, SnapshotsLength uint32
		SnapshotsAt                     uint64
		FormatIs, FormatLength          uint32 // an extension: which format the other one has
		Format                          [8]byte
		End                             uint64
	}{
		Magic:          0x514649fb,
		Version:        2,
		BaseAt:         256,
		BaseLength:     uint32(len(base)),
		ClusterBits:    16,
		Size:           512,
		L1Length:       1,
		L1At:           3 * cluster,
		CountsAt:       cluster,
		CountsClusters: 1,
		FormatIs:       0xe2792aca,
		FormatLength:   3,
		Format:         [8]byte{'r', 'a', 'w'},
	}
	image := make([]byte, 4*cluster)
	if _, err := binary.Encode(image, binary.BigEndian, header); err != nil {
		panic(err) // it has one size alone
	}
	copy(image[256:], base)
	binary.BigEndian.PutUint64(image[cluster:], 2*cluster) // where the counts of references are
	for n := range 4 {
		binary.BigEndian.PutUint16(image[2*cluster+2*n:], 1)
	}
	return image
}

// Given an image on top of another one, when that lies in the task's directories, then the machine boots.
func TestAMachineBootsFromAnImageOnTopOfAnother(t *testing.T) {
	programs.Need(t, "qemu-system-x86", qemu.Emulator)
	d := qemu.New(qemu.Config{}, exec.New(exec.Config{}, newLauncher(t)))
	tc, output := machine(t, map[string]any{})
	local := filepath.Join(tc.TaskDir, "local")
	if err := errors.Join(os.Rename(filepath.Join(local, "disk.img"), filepath.Join(local, "base.img")),
		os.WriteFile(filepath.Join(local, "disk.img"), onTopOf("/local/base.img"), 0o666)); err != nil {
		t.Fatal(err)
	}
	started, err := d.Start(short(t), tc)
	if err != nil {
		t.Fatal(err)
	}
	await.Eventually(t, "the machine to boot", func() bool { return strings.Contains(output(), "up\n") })
	if err := started.Stop(short(t), "", 0); err != nil {
		t.Error(err)
	}
}

// Given an image that is a link to a file of the node or lies on top of one, and options that name files, devices and
// sockets of it, when the machine starts, then qemu finds nothing there: what it opens is in the task's root.
func TestAMachineReachesNothingOfTheNode(t *testing.T) {
	programs.Need(t, "qemu-system-x86", qemu.Emulator)
	d := qemu.New(qemu.Config{}, exec.New(exec.Config{}, newLauncher(t)))
	dir := tempDir(t)
	outside, socket := filepath.Join(dir, "of-the-node.img"), filepath.Join(dir, "socket")
	if err := os.WriteFile(outside, bootSector(), 0o666); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err == nil {
		err = os.Chmod(socket, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	const absent = "No such file or directory"
	image := func(content []byte) func(string) error {
		return func(path string) error { return os.WriteFile(path, content, 0o666) }
	}
	for name, c := range map[string]struct {
		args []any
		disk func(path string) error
		says string
	}{
		"a link": {disk: func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink(outside, path))
		}, says: absent},
		"what it lies on":      {disk: image(onTopOf(outside)), says: absent},
		"passwords":            {disk: image(onTopOf("/etc/shadow")), says: absent},
		"a way up":             {disk: image(onTopOf("../../../../../.." + outside)), says: absent},
		"by a process":         {disk: image(onTopOf("/proc/1/root" + outside)), says: "Permission denied"},
		"a second disk":        {args: []any{"-hdb", outside}, says: absent},
		"a device of the node": {args: []any{"-hdb", ownDisk(t, 1<<20)}, says: absent},
		"its network":          {args: []any{"-nic", "tap,script=no,downscript=no"}, says: absent},
		"a socket of the node": {args: []any{"-chardev", "socket,id=a,path=" + socket}, says: absent},
		"a monitor outside":    {args: []any{"-qmp", "unix:" + dir + "/qmp,server=on,wait=off"}, says: absent},
		"a directory of the node": {args: []any{"-virtfs", "local,mount_tag=a,security_model=none,path=" + dir},
			says: absent},
	} {
		tc, output := machine(t, map[string]any{"args": c.args})
		if c.disk != nil {
			if err := c.disk(filepath.Join(tc.TaskDir, "local", "disk.img")); err != nil {
				t.Fatal(err)
			}
		}
		started, err := d.Start(short(t), tc)
		if err != nil {
			t.Fatal(err)
		}
		exit, err := started.Wait(short(t))
		if err != nil || exit.ExitCode != 1 {
			t.Errorf("%s: it ends with %+v, %v, and says %q", name, exit, err, output())
		}
		if err := started.Stop(short(t), "", 0); err != nil {
			t.Error(err)
		}
		said, err := os.ReadFile(filepath.Join(tc.Logs.Dir, "vm.stderr.0"))
		if err != nil || !strings.Contains(string(said), c.says) {
			t.Errorf("%s: it says %q, %v", name, said, err)
		}
	}
}

// overwriting is a disk whose program writes itself with another first byte over its first sector, says what the BIOS
// answered, and halts.
func overwriting() []byte {
	code := []byte{
		0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, // cli; xor ax,ax; mov ds,ax; mov es,ax
		0xc6, 0x06, 0x00, 0x7c, 0x90, // mov byte [0x7c00],0x90
		0xb8, 0x01, 0x03, // mov ax,0x0301: write one sector
		0xb9, 0x01, 0x00, // mov cx,1: the first one
		0xba, 0x80, 0x00, // mov dx,0x80: of the first disk, head 0
		0xbb, 0x00, 0x7c, // mov bx,0x7c00
		0xcd, 0x13, // int 0x13
		0xba, 0xf8, 0x03, // mov dx,0x3f8
		0xb0, 'w', 0xee, // mov al,'w'; out dx,al
		0xf4, 0xeb, 0xfd, // hlt; jmp
	}
	sector := make([]byte, 512)
	copy(sector, code)
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// Given an image of the node that every user may write, when a machine boots it and writes to it, or options have qemu
// open it a second time for writing, then the image stays as it is: others boot it as well. Where the agent lets
// machines write, what it wrote is there.
func TestAMachineDoesNotChangeWhatOthersBoot(t *testing.T) {
	programs.Need(t, "qemu-system-x86", qemu.Emulator)
	launcher := newLauncher(t)
	dir := tempDir(t)
	image := filepath.Join(dir, "shared.img")
	snapshot := []any{"-snapshot"}
	for name, c := range map[string]struct {
		cfg     qemu.Config
		args    []any
		boots   bool
		changed bool
	}{
		"forgets":  {cfg: qemu.Config{Images: []string{dir}}, args: snapshot, boots: true},
		"writable": {cfg: qemu.Config{Writable: []string{dir}}, boots: true, changed: true},
		"as a second disk": {cfg: qemu.Config{Images: []string{dir}},
			args: append(snapshot, "-blockdev", "driver=file,node-name=again,filename="+image)},
	} {
		if err := errors.Join(os.WriteFile(image, overwriting(), 0o666), os.Chmod(image, 0o666)); err != nil {
			t.Fatal(err)
		}
		d := qemu.New(c.cfg, exec.New(exec.Config{}, launcher))
		tc, output := machine(t, map[string]any{"args": c.args})
		tc.Config["image_path"] = image
		started, err := d.Start(short(t), tc)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.boots {
			await.Eventually(t, "the machine to write", func() bool { return strings.Contains(output(), "w") })
		} else if exit, err := started.Wait(short(t)); err != nil || exit.ExitCode != 1 {
			t.Errorf("%s: it ends with %+v, %v", name, exit, err)
		}
		if err := started.Stop(short(t), "", 0); err != nil {
			t.Error(err)
		}
		after, err := os.ReadFile(image)
		if err != nil || !bytes.Equal(after, overwriting()) != c.changed {
			t.Errorf("%s: the image begins with %x, %v", name, after[:8], err)
		}
	}
}

// Given a machine, then qemu is the task's user in a root of its own and can become no other, and another task of the
// alloc does not find the sockets of it.
func TestABrokenOutMachineIsATask(t *testing.T) {
	programs.Need(t, "qemu-system-x86", qemu.Emulator)
	launcher := newLauncher(t)
	d := qemu.New(qemu.Config{}, exec.New(exec.Config{}, launcher))
	tc, output := machine(t, map[string]any{"graceful_shutdown": true, "guest_agent": true})
	tc.User = "nobody"
	if err := os.Chmod(filepath.Join(tc.TaskDir, "local", "disk.img"), 0o666); err != nil {
		t.Fatal(err)
	}
	started, err := d.Start(short(t), tc)
	if err != nil {
		t.Fatal(err)
	}
	await.Eventually(t, "the machine to boot", func() bool { return strings.Contains(output(), "up\n") })
	group, err := os.ReadFile(cgroupOf(t, started) + "/task/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(group)) {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
			"CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n"} {
			if !strings.Contains(string(status), line) {
				t.Errorf("process %s has no %q: %s", pid, line, status)
			}
		}
	}
	beside := drivertest.Config(t, filepath.Dir(tc.TaskDir), tc.Alloc, "beside", "exec sleep 1000")
	other, err := exec.New(exec.Config{}, launcher).Start(short(t), beside)
	if err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	if _, err := other.Exec(short(t), driver.ExecRequest{Stdout: &seen, Stderr: &seen, Command: []string{"/bin/sh",
		"-c", "find / -xdev -type s 2>/dev/null; find /alloc /local /tmp /run -type s"}}); err != nil ||
		seen.Len() > 0 {
		t.Errorf("another task finds %q, %v", &seen, err)
	}
	for _, task := range []driver.Task{other, started} {
		if err := task.Stop(short(t), "", 0); err != nil {
			t.Error(err)
		}
	}
}

// cgroupOf is the group of a task's process.
func cgroupOf(t *testing.T, task driver.Task) string {
	t.Helper()
	var state struct{ Cgroup string }
	if err := json.Unmarshal(task.Handle().State, &state); err != nil || state.Cgroup == "" {
		t.Fatalf("no group in %s: %v", task.Handle().State, err)
	}
	return state.Cgroup
}
