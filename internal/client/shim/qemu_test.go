package shim_test

import (
	"bytes"
	"context"
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

// Given an image that is a link to a file of the node, and options that name one, when the machine starts, then qemu
// finds nothing there: what it opens is in the task's root.
func TestAMachineReachesNoFileOfTheNode(t *testing.T) {
	programs.Need(t, "qemu-system-x86", qemu.Emulator)
	d := qemu.New(qemu.Config{}, exec.New(exec.Config{}, newLauncher(t)))
	outside := filepath.Join(tempDir(t), "of-the-node.img")
	if err := os.WriteFile(outside, bootSector(), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]any{"a link": nil, "an option": {"-hdb", outside}} {
		tc, output := machine(t, map[string]any{"args": args})
		if image := filepath.Join(tc.TaskDir, "local", "disk.img"); args == nil {
			if err := errors.Join(os.Remove(image), os.Symlink(outside, image)); err != nil {
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
		if err != nil || !strings.Contains(string(said), "No such file or directory") {
			t.Errorf("%s: it says %q, %v", name, said, err)
		}
	}
}
