package powerloss

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const bootID = "/proc/sys/kernel/random/boot_id"

// Reboot has what the test starts from now on believe that the machine was started anew, until the test ends. Tests
// that call it have a mount namespace of their own.
func Reboot(t testing.TB) {
	t.Helper()
	id := make([]byte, 16)
	_, _ = rand.Read(id) // crypto/rand.Read never fails
	path := filepath.Join(t.TempDir(), "boot_id")
	text := fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	if err := os.WriteFile(path, text, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(path, bootID, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(bootID, 0); err != nil {
			t.Error(err)
		}
	})
}
